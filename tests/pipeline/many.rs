//! More subscribers than one transaction decides on.

use throttler::daemon::Dispatched;
use throttler::limiter::Algorithm;
use throttler::store::Claim;
use throttler::subscriber::Excess;

use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude, mailed};

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
    let largest: f64 = rig.sql().query_row("SELECT max(magnitude) FROM outbox", [], |row| row.get(0)).expect("a magnitude");
    let (lease, now) = (throttler::time::Span::from_seconds(1), throttler::clock::Clock::now(&*rig.clock));
    let claimed = rig.store().claim(Claim { owner: "test", most: 100, lease, now }, |_| 1_000);
    let claimed = claimed.expect("claimed");
    let magnitudes: Vec<_> =
        claimed.iter().filter_map(|claim| claim.alert.largest()?.magnitude).map(throttler::event::Magnitude::value).collect();
    assert!(magnitudes.len() == 100 && magnitudes.iter().all(|m| (m - largest).abs() < 1e-9), "the largest are sent first");
    rig.check_books();
}
