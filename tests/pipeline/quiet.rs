//! Quiet hours: what comes in them is held without asking the limiter, and passes it once at their end.

use serde_json::Value;
use throttler::clock::Clock;
use throttler::limiter::Algorithm;
use throttler::plan::Outcome;
use throttler::quiet::QuietHours;
use throttler::subscriber::{Excess, Mode, Subscriber};

use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude, quiet};

/// From an hour after the start of the tests to ten hours after it.
fn night(below: Option<f64>) -> QuietHours {
    quiet("22:00-07:00", "Asia/Kamchatka", below)
}

/// A subscriber with a sliding log of one in an hour, quiet at night but for M 6 or more; in the evening.
async fn evening(change: impl FnOnce(&mut Subscriber)) -> Rig {
    let rig = Rig::with(&[]).await;
    let mut anna = rig.hooked("anna");
    anna.excess = Excess::Digest;
    anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    anna.quiet = Some(night(Some(6.0)));
    change(&mut anna);
    rig.add(&[anna]);
    rig.pass(1);
    rig
}

/// One hour after quiet has begun.
async fn at_night(change: impl FnOnce(&mut Subscriber)) -> Rig {
    let rig = evening(change).await;
    rig.pass(2 * HOUR - 1);
    rig
}

async fn see(rig: &mut Rig, id: &str, value: f64) {
    let quake = Quake::new(rig, id, value, 1);
    rig.see(&[quake]).await;
}

fn reasons(rig: &Rig) -> Vec<String> {
    rig.ledger().into_iter().map(|row| row.reason).collect()
}

/// What the last message says of the next: how many the limit has room for, and when it may come.
fn next(rig: &Rig) -> (Value, Value) {
    let limit = rig.receiver.requests().pop().expect("a message").body["limit"].clone();
    (limit["remaining"].clone(), limit["retry_at"].clone())
}

#[tokio::test]
async fn a_message_names_the_next_for_when_limit_and_quiet_hours_both_let_it_come() {
    let mut rig = evening(|anna| anna.policy.limit = limit(Algorithm::SlidingLog, "2/h", None)).await;
    rig.pass(HOUR - 10 * MINUTE);
    let (at, morning) = (rig.clock_plus(0).to_string(), "2025-08-05T19:00:00.000Z");
    see(&mut rig, "us0", 5.1).await;
    assert_eq!(next(&rig), (1.into(), at.into()), "another may come at once");
    see(&mut rig, "us1", 5.2).await;
    assert_eq!(next(&rig), (0.into(), morning.into()), "the limit allows one in an hour, when it is quiet");
    rig.pass(2 * HOUR);
    see(&mut rig, "us2", 6.5).await;
    assert_eq!(next(&rig), (1.into(), morning.into()), "the limit has room, and quiet hours have not");
    rig.set("anna", |anna| anna.mode = Mode::Shadow);
    let at = rig.clock_plus(0).to_string();
    see(&mut rig, "us3", 5.1).await;
    assert_eq!(next(&rig), (1.into(), at.into()), "in shadow mode nothing is held");
}

#[tokio::test]
async fn what_is_held_costs_nothing_and_is_told_in_one_digest_at_the_end() {
    for excess in [Excess::Digest, Excess::Drop] {
        let mut rig = at_night(|anna| anna.excess = excess).await;
        for (id, value) in [("us0", 5.1), ("us1", 5.9), ("us2", 6.0), ("us3", 5.3)] {
            see(&mut rig, id, value).await;
        }
        assert_eq!(
            rig.outcomes("anna"),
            ["us0 held", "us1 held", "us2 alerted", "us3 held"],
            "the large one found a free limiter"
        );
        assert_eq!(reasons(&rig)[0], "held for quiet hours until 07:00 Asia/Kamchatka (2025-08-05T19:00:00.000Z)");
        let row = rig.ledger().swap_remove(0);
        assert_eq!(
            (row.refused, row.delivery, row.retry_at),
            (false, None, Some("2025-08-05T19:00:00Z".parse().expect("a time")))
        );
        assert_eq!(rig.store().next_wake().expect("read"), Some(rig.clock_plus(8 * HOUR)));
        rig.restart().await;
        rig.pass(8 * HOUR - 1);
        rig.settle().await;
        assert_eq!(rig.hooks("anna"), ["M 6.0 - near us2"], "not a second too early");
        assert_eq!(next(&rig), (0.into(), "2025-08-05T19:00:00.000Z".into()), "the limit would let it come at night");
        rig.check_books();
        rig.restart().await;
        rig.pass(1);
        rig.settle().await;
        rig.settle().await;
        assert_eq!(rig.hooks("anna"), ["M 6.0 - near us2", "3 events withheld, the largest M 5.9 - near us1"]);
        let digest = rig.receiver.requests().pop().expect("a digest").body;
        assert_eq!(digest["limit"]["reason"], "quiet hours are over, so here is what they held");
        assert_eq!(digest["limit"]["remaining"], 0, "it costs one");
        assert_eq!(rig.outcomes("anna"), ["us0 digested", "us1 digested", "us2 alerted", "us3 digested"]);
        see(&mut rig, "us4", 5.0).await;
        assert!(rig.outcomes("anna").last().is_some_and(|row| !row.ends_with("alerted")), "the next waits for the limiter");
        rig.check_books();
    }
}

#[tokio::test]
async fn with_delay_each_has_its_turn_after_the_end_however_long_the_night_was() {
    let mut rig = at_night(|anna| anna.excess = Excess::Delay).await;
    for (id, value) in [("us0", 5.1), ("us1", 5.9), ("us2", 5.3)] {
        see(&mut rig, id, value).await;
    }
    rig.pass(8 * HOUR - 1);
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), [""; 0]);
    for expected in ["M 5.9 - near us1 (late)", "M 5.3 - near us2 (late)", "M 5.1 - near us0 (late)"] {
        rig.pass(1);
        rig.settle().await;
        rig.pass(HOUR - 1);
        rig.settle().await;
        assert_eq!(rig.hooks("anna").last().expect("a request"), expected);
    }
    assert_eq!(rig.hooks("anna").len(), 3);
    assert!(
        reasons(&rig)[1].contains("; held for quiet hours since 2025-08-05T11:00:00.000Z; within the limit"),
        "{:?}",
        reasons(&rig)
    );
    rig.check_books();
}

#[tokio::test]
async fn what_the_limiter_withheld_before_waits_for_the_end_as_well() {
    let mut rig = evening(|_| {}).await;
    rig.pass(30 * MINUTE);
    see(&mut rig, "us0", 5.0).await;
    see(&mut rig, "us1", 5.1).await;
    assert_eq!(rig.outcomes("anna"), ["us0 alerted", "us1 pending"]);
    // The limiter would allow it half an hour into the night.
    rig.pass(2 * HOUR);
    rig.settle().await;
    see(&mut rig, "us2", 5.2).await;
    assert_eq!(
        (rig.outcomes("anna"), rig.hooks("anna").len()),
        (["us0 alerted", "us1 pending", "us2 held"].map(String::from).to_vec(), 1)
    );
    rig.clock.set("2025-08-05T19:00:00Z".parse().expect("a time"));
    rig.settle().await;
    assert_eq!(rig.hooks("anna").last().expect("a digest"), "2 events withheld, the largest M 5.2 - near us2");
    let reason = rig.receiver.requests().pop().expect("a digest").body["limit"]["reason"].clone();
    assert_eq!(reason, "quiet hours are over and the limit allows a message, so here is what they withheld");
    rig.check_books();
}

#[tokio::test]
async fn a_large_event_that_the_limiter_withheld_at_night_is_told_at_night_without_the_others() {
    for excess in [Excess::Digest, Excess::Delay] {
        let mut rig = at_night(|anna| anna.excess = excess).await;
        for (id, value) in [("us0", 6.1), ("us1", 6.2), ("us2", 5.3)] {
            see(&mut rig, id, value).await;
        }
        assert_eq!(rig.outcomes("anna")[0], "us0 alerted");
        rig.pass(HOUR);
        rig.settle().await;
        let told =
            if excess == Excess::Digest { "1 event withheld, the largest M 6.2 - near us1" } else { "M 6.2 - near us1 (late)" };
        assert_eq!(rig.hooks("anna").last().expect("a request"), told);
        assert_eq!(rig.outcomes("anna")[2], "us2 held");
        assert_eq!(rig.store().next_wake().expect("read"), Some("2025-08-05T19:00:00Z".parse().expect("a time")));
        rig.check_books();
    }
}

#[tokio::test]
async fn without_an_override_all_is_held_but_what_always_passes() {
    let mut rig = at_night(|anna| {
        anna.quiet = Some(night(None));
        anna.policy.always_from = Some(magnitude(7.0));
    })
    .await;
    for (id, value) in [("us0", 6.9), ("us1", 7.0), ("us2", 7.1)] {
        see(&mut rig, id, value).await;
    }
    assert_eq!(rig.outcomes("anna"), ["us0 held", "us1 alerted", "us2 alerted"]);
    assert_eq!(rig.hooks("anna").len(), 2);
}

#[tokio::test]
async fn shadow_mode_sends_at_night_and_says_what_it_would_have_done() {
    let mut rig = at_night(|anna| anna.mode = Mode::Shadow).await;
    see(&mut rig, "us0", 5.0).await;
    see(&mut rig, "us1", 5.1).await;
    assert_eq!(rig.outcomes("anna"), ["us0 alerted", "us1 alerted"]);
    assert_eq!(rig.hooks("anna").len(), 2);
    let expected = "shadow mode: it would have been held for quiet hours until 07:00 Asia/Kamchatka (2025-08-05T19:00:00.000Z)";
    assert_eq!(reasons(&rig), [expected; 2]);
    assert_eq!(rig.store().next_wake().expect("read"), None);
}

#[tokio::test]
async fn what_a_queue_would_let_leave_at_night_is_held_instead() {
    let mut rig = evening(|anna| anna.policy.limit = limit(Algorithm::LeakyBucket, "2/h", Some(4))).await;
    rig.pass(15 * MINUTE);
    for (id, value) in [("us0", 5.0), ("us1", 5.1), ("us2", 5.2), ("us3", 6.3)] {
        see(&mut rig, id, value).await;
    }
    // At 09:15, 09:45; the next would leave at 10:15, when it is quiet, and does so only if it is large.
    assert_eq!(rig.outcomes("anna"), ["us0 alerted", "us1 alerted", "us2 held", "us3 alerted"]);
    for (minutes, expected) in [(30, 2), (30, 3), (30, 3)] {
        rig.pass(minutes * MINUTE);
        rig.settle().await;
        assert_eq!(rig.hooks("anna").len(), expected);
    }
    assert_eq!(rig.hooks("anna").last().expect("a request"), "M 6.3 - near us3");
    rig.clock.set("2025-08-05T19:00:00Z".parse().expect("a time"));
    rig.settle().await;
    assert_eq!(rig.hooks("anna").last().expect("a request"), "1 event withheld, the largest M 5.2 - near us2");
    rig.check_books();
}

#[tokio::test]
async fn a_message_in_the_outbox_is_sent_and_lifted_quiet_hours_release_at_once() {
    let mut rig = evening(|anna| anna.policy.limit = limit(Algorithm::SlidingLog, "5/h", None)).await;
    rig.show(&[Quake::new(&rig, "us0", 5.0, 1)]);
    rig.poll().await;
    rig.dispatch().await;
    rig.pass(2 * HOUR);
    rig.restart().await;
    see(&mut rig, "us1", 5.1).await;
    assert_eq!(
        (rig.hooks("anna"), rig.outcomes("anna")),
        (vec!["M 5.0 - near us0".to_owned()], vec!["us0 alerted".to_owned(), "us1 held".to_owned()])
    );
    rig.set("anna", |anna| anna.quiet = None);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 2);
    assert_eq!(rig.ledger()[1].outcome, Outcome::Digested);
    assert!(rig.clock.now() < "2025-08-05T19:00:00Z".parse().expect("a time"));
}
