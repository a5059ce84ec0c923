//! Fair and isolated delivery: no destination holds up another, limits on what leaves space it, and the operator's hand.

use std::sync::Arc;

use throttler::channel::Lane;
use throttler::clock::Clock;
use throttler::daemon::deliver::LEASE;
use throttler::daemon::{Deliverer, Egress};
use throttler::limiter::{Algorithm, Policy};
use throttler::store::{Claim, DeliveryStatus, Store, StoreError};
use throttler::subscriber::{Destination, Standing, Subscriber};
use throttler::time::Span;

use crate::receiver::Receiver;
use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude, mailed, only_in_a_file, subscriber};

/// Subscribers whose webhooks all go to one path of a host.
fn crowd(host: &Receiver, size: usize) -> Vec<Subscriber> {
    let url = format!("http://127.0.0.1:{}/crowd", host.port);
    (0..size).map(|at| subscriber(&format!("c{at}"), Destination::Webhook(url.parse().expect("a URL")))).collect()
}

/// An event of this magnitude is decided for all, and nothing delivered yet.
async fn decided(rig: &mut Rig, size: f64) {
    rig.pass(1);
    rig.show(&[Quake::new(rig, &format!("us{size}"), size, MINUTE)]);
    rig.poll().await;
    rig.dispatch().await;
}

/// The first turn of a deliverer, up to the end of what it started.
async fn turn(rig: &mut Rig) {
    rig.deliver().await;
}

/// The ids of the messages with this status.
fn ids(rig: &Rig, status: DeliveryStatus) -> Vec<String> {
    rig.store().outbox(status, None, 10).expect("rows").into_iter().map(|row| row.message.id).collect()
}

fn attempted(rig: &Rig, who: &str) -> i64 {
    rig.number(&format!("SELECT sum(attempts) FROM outbox JOIN subscribers USING (subscriber_key) WHERE name LIKE '{who}'"))
}

#[tokio::test]
async fn thousands_of_messages_for_a_dead_host_hold_up_nobody_else() {
    let mut rig = Rig::with(&[]).await;
    let bad = Receiver::start().await;
    bad.answer("/crowd", 503);
    let mut all = crowd(&bad, 5_000);
    for subscriber in &mut all {
        subscriber.interest.min_magnitude = magnitude(6.0);
    }
    rig.add(&all);
    rig.add(&[rig.hooked("last"), mailed("mail")]);
    decided(&mut rig, 6.0).await;
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status = 'due'"), 5_002);
    turn(&mut rig).await;
    assert_eq!((rig.hooks("last").len(), rig.mails().len()), (1, 1), "what is last in line leaves at once");
    let first = bad.requests().len();
    assert!((5..=16).contains(&first), "its breaker opens after five failures in a row: {first}");
    assert_eq!(attempted(&rig, "c%"), i64::try_from(first).expect("small"), "the others spend no attempt");
    // While it is open the host is left alone, and the others go on.
    decided(&mut rig, 5.9).await;
    turn(&mut rig).await;
    assert_eq!((rig.hooks("last").len(), rig.mails().len(), bad.requests().len()), (2, 2, first));
    // A probe is one attempt, and each that fails makes the wait longer.
    rig.pass(MINUTE);
    turn(&mut rig).await;
    assert_eq!(bad.requests().len(), first + 1);
    bad.answer("/crowd", 204);
    // A few of them will do for the rest.
    rig.run("UPDATE outbox SET status = 'dropped', settled_at = 0 WHERE status = 'due' AND delivery_key % 50 <> 0");
    rig.pass(MINUTE);
    turn(&mut rig).await;
    assert!(bad.requests().len() > first + 1);
    rig.pass(2 * HOUR);
    turn(&mut rig).await;
    assert_eq!(
        rig.number("SELECT count(*) FROM outbox WHERE status IN ('due', 'leased', 'dead')"),
        0,
        "all arrive when it is back"
    );
    assert!(bad.requests().len() >= first + 100, "{}", bad.requests().len());
}

#[tokio::test]
async fn no_channel_gets_more_than_its_room_and_the_largest_go_first() {
    let mut rig = Rig::with(&[]).await;
    let other = Receiver::start().await;
    rig.add(&crowd(&other, 40));
    rig.add(&[rig.hooked("anna")]);
    decided(&mut rig, 5.5).await;
    decided(&mut rig, 7.5).await;
    let (lease, now) = (Span::from_seconds(1), rig.clock.now());
    let crowded = Lane::of(&crowd(&other, 1)[0]);
    let claim = |most, room: usize| {
        let claim = Claim { owner: "test", most, lease, now };
        let claimed = rig.store().claim(claim, |lane| if *lane == crowded { room } else { 10 }).expect("claimed");
        rig.run("UPDATE outbox SET status = 'due', lease_owner = NULL, lease_until = NULL");
        let of_crowd = claimed.iter().filter(|claimed| claimed.lane == crowded).count();
        let largest = claimed.iter().filter(|claimed| claimed.alert.title().starts_with("M 7.5")).count();
        let order: Vec<_> = claimed.iter().map(|claimed| claimed.alert.title().starts_with("M 7.5")).collect();
        assert!(order.is_sorted_by(|a, b| a >= b), "the largest first: {order:?}");
        (of_crowd, claimed.len() - of_crowd, largest)
    };
    assert_eq!(claim(100, 0), (0, 2, 1));
    assert_eq!(claim(100, 3), (3, 2, 4));
    assert_eq!(claim(100, 1_000), (80, 2, 41));
    assert_eq!(claim(41, 1_000), (40, 1, 41), "what there is room for in all goes to the largest, whoever's they are");
    assert_eq!(claim(1, 1_000).2, 1);
}

#[tokio::test]
async fn limits_on_what_leaves_space_it_and_drop_nothing() {
    let mut rig = Rig::with(&[mailed("anna"), mailed("bella"), mailed("carl")]).await;
    rig.add(&[rig.hooked("dora"), rig.hooked("emil")]);
    let (database, delivery) = (rig.parts().database.clone(), Arc::clone(&rig.delivery));
    let clock: Arc<dyn Clock> = Arc::<throttler::clock::ManualClock>::clone(&rig.clock);
    let egress = Egress {
        email: Some("1/s".parse().expect("a rate")),
        per_host: Some("1000/s".parse().expect("a rate")),
        hosts: [(format!("127.0.0.1:{}", rig.receiver.port), "1/10s".parse().expect("a rate"))].into(),
        ..Egress::default()
    };
    rig.parts().deliverer = Deliverer::with_limits(database, delivery, clock, egress);
    decided(&mut rig, 6.0).await;
    let mut left = Vec::new();
    for _ in 0..11 {
        turn(&mut rig).await;
        left.push((rig.mails().len(), rig.receiver.requests().len()));
        rig.pass(1);
    }
    assert_eq!(left[..3], [(1, 1), (2, 1), (3, 1)], "one a second by mail");
    assert_eq!(left[9..], [(3, 1), (3, 2)], "and one in ten seconds to this host");
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE status <> 'delivered' OR attempts <> 1"), 0);
}

#[tokio::test]
async fn a_turn_tells_when_to_look_again() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    assert_eq!(rig.parts().deliverer.turn().await.expect("a turn"), None, "nothing waits");
    rig.receiver.answer("/anna", 429);
    decided(&mut rig, 6.0).await;
    turn(&mut rig).await;
    let due = rig.number("SELECT due_at FROM outbox");
    let next = rig.parts().deliverer.turn().await.expect("a turn");
    assert_eq!(next.map(throttler::time::Timestamp::ticks), (due > rig.clock.now().ticks()).then_some(due));
    // Five hosts' worth of failures: what is due by now waits for the breaker, without being looked for all the time.
    rig.receiver.answer("/anna", 500);
    rig.run("UPDATE outbox SET due_at = 0");
    for _ in 0..5 {
        turn(&mut rig).await;
        rig.run("UPDATE outbox SET due_at = 0");
    }
    let requests = rig.receiver.requests().len();
    let next = rig.parts().deliverer.turn().await.expect("a turn").expect("the probe");
    assert!(next > rig.clock.now() && next <= rig.clock_plus(30), "{next}");
    assert_eq!(rig.receiver.requests().len(), requests);
}

#[tokio::test]
async fn what_waits_too_long_for_a_host_that_fails_is_given_up() {
    let mut rig = Rig::with(&[]).await;
    let bad = Receiver::start().await;
    bad.answer("/crowd", 500);
    rig.add(&crowd(&bad, 100));
    decided(&mut rig, 6.0).await;
    rig.stand("c99", Standing::Paused);
    turn(&mut rig).await;
    rig.pass(25 * HOUR);
    for _ in 0..3 {
        turn(&mut rig).await;
        rig.pass(MINUTE);
        rig.pass(15 * MINUTE);
    }
    let of = |status: DeliveryStatus| rig.store().count_outbox(status, None).expect("a count");
    assert_eq!((of(DeliveryStatus::Dead), of(DeliveryStatus::Due)), (99, 1), "all but the one who is paused");
    assert!(bad.requests().len() < 30, "without trying each: {}", bad.requests().len());
    let told = rig.store().outbox(DeliveryStatus::Dead, None, 200).expect("the dead");
    assert!(told.iter().all(|row| row.message.detail.as_deref().is_some_and(|detail| detail.contains("500"))), "{told:?}");
}

#[tokio::test]
async fn dead_letters_are_put_back_and_what_waits_is_ended_by_hand() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna"), rig.hooked("bella"), rig.hooked("carl")]);
    rig.receiver.answer("/anna", 400);
    rig.receiver.answer("/bella", 410);
    rig.receiver.answer("/carl", 429);
    decided(&mut rig, 6.0).await;
    turn(&mut rig).await;
    rig.pass(30 * HOUR);
    let now = rig.clock.now();
    let mut store = rig.store();
    let (dead, due) = (ids(&rig, DeliveryStatus::Dead), ids(&rig, DeliveryStatus::Due));
    assert_eq!((dead.len(), due.len()), (2, 1));
    // All or none.
    let both = [dead[0].clone(), due[0].clone()];
    let fault = store.retry_dead(&both, now).expect_err("one is not dead");
    assert!(matches!(&fault, StoreError::WrongStatus { id, found, .. } if *id == due[0] && found == "due"), "{fault}");
    let fault = store.drop_deliveries(&[due[0].clone(), "nothing".into()], "no", now).expect_err("one is not there");
    assert!(matches!(fault, StoreError::NoDelivery(_)), "{fault}");
    assert_eq!((ids(&rig, DeliveryStatus::Dead), ids(&rig, DeliveryStatus::Due)), (dead.clone(), due.clone()), "as they were");

    // What is under way is nobody else's.
    let claimed = store.claim(Claim { owner: "other", most: 9, lease: Span::from_seconds(60), now }, |_| 9).expect("claimed");
    assert_eq!(claimed.len(), 1);
    let fault = store.drop_deliveries(&due, "no", now).expect_err("it is under way");
    assert!(fault.to_string().contains("under way (leased until"), "{fault}");
    store.hand_back("other", "it did not come to it", now).expect("handed back");
    store.drop_deliveries(&due, "dropped by hand: told by telephone", now).expect("dropped");

    rig.receiver.answer("/anna", 204);
    rig.receiver.answer("/bella", 204);
    let retried = store.retry_all_dead(None, now).expect("put back");
    assert_eq!(retried.count, 2);
    assert_eq!(retried.held_up, [("bella".to_owned(), Standing::Disabled)].into());
    let before = rig.receiver.requests().len();
    turn(&mut rig).await;
    let ledger: Vec<_> = rig
        .ledger()
        .into_iter()
        .map(|row| (row.subscriber, row.delivery.unwrap_or_default(), row.delivery_detail.unwrap_or_default()))
        .collect();
    assert_eq!(ledger[0], ("anna".into(), "delivered".into(), "answered 204 No Content".into()));
    assert_eq!(ledger[1].1, "due", "until bella is resumed");
    assert_eq!(ledger[2], ("carl".into(), "dropped".into(), "dropped by hand: told by telephone".into()));
    assert_eq!(rig.receiver.requests().len(), before + 1);
    assert!(dead.contains(&rig.receiver.requests()[before].id), "under the same id");
    // Its age counts from when it was put back: a failure now is not the last.
    rig.receiver.answer("/bella", 429);
    rig.stand("bella", Standing::Active);
    turn(&mut rig).await;
    assert_eq!(ids(&rig, DeliveryStatus::Due).len(), 1);
    rig.check_books();
}

#[tokio::test]
async fn another_destination_takes_what_waits_along() {
    let mut rig = Rig::with(&[]).await;
    let bad = Receiver::start().await;
    bad.answer("/crowd", 500);
    rig.add(&crowd(&bad, 6));
    decided(&mut rig, 6.0).await;
    turn(&mut rig).await;
    rig.pass(HOUR);
    rig.set("c0", |subscriber| subscriber.destination = mailed("c0").destination);
    turn(&mut rig).await;
    assert_eq!(rig.mails().len(), 1, "it is not held up with its old host");
    let channels = "SELECT count(DISTINCT channel) FROM outbox";
    assert_eq!(rig.number(channels), 2);
}

#[tokio::test]
async fn receipts_outlive_a_database_that_cannot_be_written_for_a_while() {
    if only_in_a_file() {
        return;
    }
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    decided(&mut rig, 6.0).await;
    rig.parts().deliverer.turn().await.expect("a turn");
    rig.parts().deliverer.one_ended().await;
    rig.sql()
        .execute_batch("CREATE TRIGGER full BEFORE UPDATE ON outbox BEGIN SELECT raise(ABORT, 'disk full'); END")
        .expect("sql");
    for _ in 0..2 {
        rig.parts().deliverer.turn().await.expect_err("it cannot be written");
    }
    rig.sql().execute_batch("DROP TRIGGER full").expect("sql");
    rig.pass(2 * MINUTE);
    turn(&mut rig).await;
    assert_eq!((rig.receiver.requests().len(), rig.number("SELECT count(*) FROM outbox WHERE status = 'delivered'")), (1, 1));
}

#[tokio::test]
async fn a_message_says_what_it_said_when_it_was_decided() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna"), rig.hooked("ben")]);
    rig.pass(1);
    let quake = Quake::new(&rig, "us1", 5.5, 60);
    rig.show(std::slice::from_ref(&quake));
    rig.poll().await;
    rig.dispatch().await;
    // Before it leaves, in the same moment, the event turns out larger, and a limit is changed.
    rig.show(&[quake.revised(6.5)]);
    rig.poll().await;
    rig.set("anna", |anna| anna.policy = Policy::plain(limit(Algorithm::SlidingLog, "1/d", None)));
    let listed = rig.store().outbox(DeliveryStatus::Due, None, 10).expect("what is due");
    rig.restart().await;
    rig.deliver().await;
    assert_eq!(listed.iter().map(|row| row.message.title.as_deref()).collect::<Vec<_>>(), [Ok("M 5.5 - near us1"); 2]);
    for request in rig.receiver.requests() {
        let body = &request.body;
        assert_eq!((&body["title"], &body["event"]["magnitude"]), (&"M 5.5 - near us1".into(), &5.5.into()));
        assert_eq!((&body["limit"]["rate"], &body["limit"]["burst"]), (&"5/h".into(), &5.into()), "{body}");
    }
    assert_eq!(rig.number("SELECT count(*) FROM contents"), 1);
    // After that others are told of what is known now.
    rig.add(&[rig.hooked("carl")]);
    rig.see(&[quake.revised(6.5), Quake::new(&rig, "us2", 5.1, 1)]).await;
    assert!(rig.hooks("carl").contains(&"M 6.5 - near us1".to_owned()), "{:?}", rig.hooks("carl"));
    assert_eq!(
        rig.number("SELECT count(*) FROM contents"),
        3,
        "the first event as it was told and as it is known, and the second"
    );
    rig.check_books();
}

#[tokio::test]
async fn a_lease_lasts_from_when_the_daemon_gets_its_database() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    decided(&mut rig, 6.0).await;
    let (is_busy, was_busy) = tokio::sync::oneshot::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel();
    let (database, clock, later) = (rig.parts().database.clone(), Arc::clone(&rig.clock), rig.clock_plus(MINUTE));
    let busy = tokio::spawn(async move {
        let work = move |_: &mut Store| {
            is_busy.send(()).expect("who waits for it");
            goes_on.recv().expect("who waits with it");
            clock.set(later);
            Ok(())
        };
        database.with(work).await
    });
    was_busy.await.expect("busy");
    // The turn is the first to be polled, so that it has begun when the database goes on.
    let (turned, ()) = tokio::join!(rig.parts().deliverer.turn(), async { go_on.send(()).expect("who is busy") });
    turned.expect("a turn");
    busy.await.expect("work").expect("done");
    assert_eq!(rig.number("SELECT lease_until FROM outbox"), later.plus(LEASE).ticks());
}
