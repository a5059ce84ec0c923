//! More subscribers than one transaction decides on.

use std::sync::Arc;

use throttler::daemon::{Database, Dispatched, dispatch};
use throttler::limiter::Algorithm;
use throttler::store::{Claim, Location, ServerUrl, Store};
use throttler::subscriber::Excess;

use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude, mailed};
use crate::server::{Server, ask, missing, server};

/// For whom a server has no statistics.
const SUBSCRIBERS: usize = 400;

#[tokio::test]
async fn thousands_of_subscribers_are_each_decided_once() {
    let mut rig = Rig::with(&[]).await;
    // A third of them wants only larger events, and each has room for two, then a digest.
    let all: Vec<_> = (0..4_800)
        .map(|at| {
            let mut subscriber = mailed(&format!("s{at}"));
            subscriber.excess = Excess::Digest;
            subscriber.policy.limit = limit(Algorithm::FixedWindow, "2/h", None);
            if at % 3 == 0 {
                subscriber.interest.min_magnitude = magnitude(6.0);
            }
            subscriber
        })
        .collect();
    rig.add(&all);
    rig.pass(1);
    let sizes = [5.2, 6.5, 5.4];
    let quakes: Vec<_> = sizes.iter().enumerate().map(|(at, m)| Quake::new(&rig, &format!("us{at}"), *m, MINUTE)).collect();
    rig.show(&quakes);
    rig.poll().await;
    let steps = rig.dispatch().await;
    let decided: Vec<usize> = steps
        .iter()
        .map(|step| match step {
            Dispatched::Decided { chunk, .. } => chunk.decided.len(),
            _ => panic!("nobody is asked again yet, and nothing has changed"),
        })
        .collect();
    assert_eq!(decided.iter().sum::<usize>(), 4_800 + 2 * 3_200);
    assert!(steps.len() >= 6 && decided.iter().all(|chunk| *chunk <= 4_000), "{decided:?}");
    assert_eq!(rig.number("SELECT count(*) FROM outbox"), 4_800 + 3_200);
    assert_eq!(rig.number("SELECT count(*) FROM decisions WHERE outcome = 'pending'"), 3_200);
    // What they share is kept once: what is said of each event, and of the one limit. The third event was withheld from all.
    assert_eq!(rig.number("SELECT count(DISTINCT event_key) FROM contents"), rig.number("SELECT count(*) FROM contents"));
    assert_eq!((rig.number("SELECT count(*) FROM contents"), rig.number("SELECT count(*) FROM terms")), (2, 1));
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE alert IS NOT NULL"), 0);
    rig.pass(HOUR);
    rig.dispatch().await;
    assert_eq!(rig.number("SELECT count(*) FROM decisions WHERE outcome = 'digested'"), 3_200);
    assert_eq!(rig.number("SELECT count(*) FROM outbox"), 4_800 + 3_200 + 3_200);
    let largest: f64 = rig.text("SELECT max(magnitude) FROM outbox").parse().expect("a magnitude");
    let (lease, now) = (throttler::time::Span::from_seconds(1), throttler::clock::Clock::now(&*rig.clock));
    let claimed = rig.store().claim(Claim { owner: "test", most: 100, lease, now }, |_| 1_000);
    let claimed = claimed.expect("claimed");
    let magnitudes: Vec<_> =
        claimed.iter().filter_map(|claim| claim.alert.largest()?.magnitude).map(throttler::event::Magnitude::value).collect();
    assert!(magnitudes.len() == 100 && magnitudes.iter().all(|m| (m - largest).abs() < 1e-9), "the largest are sent first");
    rig.check_books();
}

/// Without statistics, as on a server that was just filled or has crashed, a subscriber is found by his number and not among all.
#[tokio::test]
async fn what_a_server_reads_for_each_message_does_not_grow_with_the_subscribers() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let server = Server::start(&["autovacuum=off", "fsync=off"]);
    let url = server.schema();
    let mut rig = Rig::fresh_on(Some(url.clone())).await;
    rig.add(&(0..SUBSCRIBERS).map(|at| mailed(&format!("s{at}"))).collect::<Vec<_>>());
    rig.poll().await;
    rig.see(&[Quake::new(&rig, "us0", 6.5, MINUTE)]).await;
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered'"), 400);
    // A session says what it read when it ends.
    drop(rig);
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'throttler'";
    while ask(&url, sessions) != [["0"]] {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let read = "SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE relname = 'subscribers' AND idx_tup_read > 4000 ORDER BY 1";
    for row in ask(&url, read) {
        let entries: usize = row[1].parse().expect("a number");
        assert!(entries < 20 * SUBSCRIBERS, "of {} {entries} entries were read for {SUBSCRIBERS} messages", row[0]);
    }
}

/// What a limit promises is written when the first message says it: by one daemon from the first limit on, by the other from the last.
#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_that_come_upon_the_same_limits_in_other_orders_both_go_on() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let url = server().schema();
    let mut rig = Rig::fresh_on(Some(url.clone())).await;
    let rates = (0..4_000).map(|at| 1 + at / 8).chain((1..=500).rev());
    let of = |(at, rate)| {
        let mut subscriber = mailed(&format!("s{at}"));
        subscriber.policy.limit = limit(Algorithm::FixedWindow, &format!("{rate}/h"), None);
        subscriber
    };
    rig.add(&rates.enumerate().map(of).collect::<Vec<_>>());
    rig.poll().await;
    rig.pass(1);
    rig.show(&[Quake::new(&rig, "us0", 6.5, 1)]);
    rig.poll().await;
    let location: Location = url.parse::<ServerUrl>().expect("an address").into();
    let open = |_| Database::new(Store::open(&location).expect("the database opens"));
    let deciding = [0, 1].map(open).map(|database| {
        let clock = Arc::clone(&rig.clock);
        tokio::spawn(async move { dispatch::all(&database, &clock, |_| {}).await })
    });
    for deciding in deciding {
        deciding.await.expect("it ends").expect("it decides");
    }
    assert_eq!((rig.number("SELECT count(*) FROM decisions"), rig.number("SELECT count(*) FROM terms")), (4_500, 500));
    assert_eq!(rig.number("SELECT count(*) FROM outbox"), 4_500);
}
