//! What becomes of what the limiter refuses: digest, delay, drop; and what passes all the same.

use throttler::clock::Clock;
use throttler::daemon::Dispatched;
use throttler::limiter::{Algorithm, CostStep, Reserve};
use throttler::plan::{Outcome, Release};
use throttler::subscriber::{Excess, Mode, Subscriber};

use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, magnitude, mailed, name};

async fn with(change: impl FnOnce(&mut Subscriber)) -> Rig {
    let rig = Rig::with(&[]).await;
    let mut anna = rig.hooked("anna");
    change(&mut anna);
    rig.add(&[anna]);
    rig.pass(1);
    rig
}

/// Shows events of these magnitudes, one after the other, and all of them at the end.
async fn one_by_one(rig: &mut Rig, from: usize, magnitudes: &[f64]) {
    for (at, value) in magnitudes.iter().enumerate() {
        let quake = Quake::new(rig, &format!("us{}", from + at), *value, 1);
        rig.see(&[quake]).await;
    }
}

#[tokio::test]
async fn a_digest_tells_once_of_all_that_was_withheld_as_soon_as_the_limiter_allows() {
    let mut rig = with(|anna| anna.excess = Excess::Digest).await;
    one_by_one(&mut rig, 0, &[5.0; 5]).await;
    one_by_one(&mut rig, 5, &[5.3, 6.1, 5.2]).await;
    assert_eq!(rig.hooks("anna").len(), 5);
    assert_eq!(rig.store().next_wake().expect("read"), Some(rig.clock_plus(12 * MINUTE)), "one of five an hour");
    rig.pass(12 * MINUTE - 1);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 5, "not a second too early");
    rig.restart().await;
    rig.pass(1);
    rig.settle().await;
    rig.settle().await;
    let digests: Vec<_> =
        rig.receiver.requests().into_iter().filter(|request| request.body["type"] == "earthquake.digest").collect();
    assert_eq!(digests.len(), 1);
    let digest = &digests[0].body["digest"];
    let listed: Vec<_> = digest["events"].as_array().expect("events").iter().map(|event| event["id"].clone()).collect();
    assert_eq!((digest["count"].as_u64(), listed), (Some(3), vec!["us6".into(), "us5".into(), "us7".into()]));
    assert_eq!(digests[0].body["limit"]["remaining"], 0, "it costs one");
    one_by_one(&mut rig, 8, &[5.4]).await;
    assert_eq!(rig.outcomes("anna").last().expect("a decision"), "us8 pending", "so that the next event waits again");
    assert_eq!(rig.outcomes("anna").iter().filter(|row| row.ends_with("digested")).count(), 3);
    rig.pass(12 * MINUTE);
    rig.settle().await;
    rig.pass(3 * HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 7, "five alerts and two digests, nothing twice");
    rig.check_books();
}

#[tokio::test]
async fn a_digest_lists_the_largest_fifty_and_counts_all() {
    let mut rig = with(|anna| {
        anna.excess = Excess::Digest;
        anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    })
    .await;
    let quakes: Vec<_> = (0..71).map(|at| Quake::new(&rig, &format!("us{at}"), 5.0 + f64::from(at) / 100.0, MINUTE)).collect();
    rig.see(&quakes).await;
    rig.pass(HOUR);
    rig.settle().await;
    let digest = rig.receiver.requests()[1].body["digest"].clone();
    let magnitudes: Vec<f64> =
        digest["events"].as_array().expect("events").iter().filter_map(|e| e["magnitude"].as_f64()).collect();
    assert_eq!((digest["count"].as_u64(), magnitudes.len()), (Some(70), 50));
    assert!(magnitudes.is_sorted_by(|a, b| a >= b) && magnitudes[0] > 5.68, "{magnitudes:?}");
    rig.check_books();
}

#[tokio::test]
async fn a_digest_of_a_subscriber_that_is_paused_waits_for_it() {
    let mut rig = with(|anna| {
        anna.excess = Excess::Digest;
        anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    })
    .await;
    one_by_one(&mut rig, 0, &[5.0, 5.1]).await;
    rig.stand("anna", throttler::subscriber::Standing::Paused);
    rig.pass(2 * HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 1);
    rig.stand("anna", throttler::subscriber::Standing::Active);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 2);
}

#[tokio::test]
async fn a_raised_limit_releases_what_is_withheld_at_once() {
    let mut rig = with(|anna| {
        anna.excess = Excess::Digest;
        anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    })
    .await;
    one_by_one(&mut rig, 0, &[5.0, 5.1]).await;
    rig.set("anna", |anna| anna.policy.limit = limit(Algorithm::SlidingLog, "2/h", None));
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 2);
}

#[tokio::test]
async fn delayed_events_take_their_turn_the_largest_first_and_the_overdue_go_into_a_digest() {
    let mut rig = with(|anna| {
        anna.excess = Excess::Delay;
        anna.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    })
    .await;
    one_by_one(&mut rig, 0, &[5.0, 5.1, 6.2, 5.3, 5.4, 5.5, 5.6, 5.7, 5.8]).await;
    for _ in 0..8 {
        rig.pass(HOUR);
        rig.settle().await;
    }
    let told = rig.hooks("anna");
    assert_eq!(
        told,
        [
            "M 5.0 - near us0",
            "M 6.2 - near us2 (late)",
            "M 5.8 - near us8 (late)",
            "M 5.7 - near us7 (late)",
            "M 5.6 - near us6 (late)",
            "M 5.5 - near us5 (late)",
            "M 5.4 - near us4 (late)",
            "2 events withheld, the largest M 5.3 - near us3",
        ]
    );
    let reasons: Vec<_> = rig.ledger().into_iter().map(|row| row.reason).collect();
    assert!(reasons[2].contains("waited its turn since"), "{reasons:?}");
    assert_eq!(rig.outcomes("anna").iter().filter(|row| row.ends_with("alerted")).count(), 7);
    rig.check_books();
}

#[tokio::test]
async fn a_large_delayed_event_is_not_held_up_by_a_later_wake_of_a_small_one() {
    let mut rig = with(|anna| {
        anna.excess = Excess::Delay;
        anna.policy.limit = limit(Algorithm::TokenBucket, "1/h", Some(3));
        anna.policy.reserve = Some(Reserve { keep: 2, from: magnitude(6.0) });
    })
    .await;
    // All three are spent; then a large one waits for one token, and a small one for three.
    one_by_one(&mut rig, 0, &[6.0, 6.1, 6.2, 6.3, 5.0]).await;
    assert_eq!(rig.hooks("anna").len(), 3);
    rig.pass(HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").last().expect("a request"), "M 6.3 - near us3 (late)");
}

#[tokio::test]
async fn dropped_events_stand_in_the_ledger_alone() {
    let mut rig = with(|anna| anna.excess = Excess::Drop).await;
    one_by_one(&mut rig, 0, &[5.0, 5.0, 5.0, 5.0, 5.0, 7.9]).await;
    rig.pass(5 * HOUR);
    rig.settle().await;
    assert_eq!(rig.hooks("anna").len(), 5);
    let last = rig.ledger().pop().expect("a row");
    assert_eq!((last.outcome, last.refused, last.delivery), (Outcome::Withheld, true, None));
    assert!(last.retry_at.is_some() && last.reason.contains("the limit is reached"), "{}", last.reason);
}

#[tokio::test]
async fn shadow_mode_withholds_nothing_and_records_what_it_would() {
    let mut rig = with(|anna| anna.mode = Mode::Shadow).await;
    one_by_one(&mut rig, 0, &[5.0; 8]).await;
    assert_eq!(rig.hooks("anna").len(), 8);
    let refused: Vec<_> = rig.ledger().into_iter().map(|row| (row.outcome, row.refused)).collect();
    assert_eq!(refused[..5], [(Outcome::Alerted, false); 5]);
    assert_eq!(refused[5..], [(Outcome::Alerted, true); 3]);
    assert!(rig.ledger()[7].reason.starts_with("shadow mode"));
}

#[tokio::test]
async fn a_very_large_event_passes_always_and_takes_a_token_if_there_is_one() {
    let mut rig = with(|anna| {
        anna.policy.always_from = Some(magnitude(7.0));
        anna.policy.limit = limit(Algorithm::TokenBucket, "1/h", Some(2));
    })
    .await;
    one_by_one(&mut rig, 0, &[7.0, 5.0, 5.1, 7.4, 6.9]).await;
    assert_eq!(rig.hooks("anna"), ["M 7.0 - near us0", "M 5.0 - near us1", "M 7.4 - near us3"]);
    let passed = &rig.ledger()[3];
    assert!(passed.refused && passed.outcome == Outcome::Alerted && passed.reason.contains("large enough"), "{passed:?}");
    rig.pass(HOUR);
    one_by_one(&mut rig, 5, &[5.2]).await;
    assert_eq!(rig.hooks("anna").len(), 4, "the one that passed without a token owes none");
}

#[tokio::test]
async fn a_reserve_is_kept_for_large_events() {
    let mut rig = with(|anna| anna.policy.reserve = Some(Reserve { keep: 2, from: magnitude(6.0) })).await;
    one_by_one(&mut rig, 0, &[5.0, 5.1, 5.2, 5.3, 6.0, 5.4, 6.1, 6.2]).await;
    let outcomes: Vec<_> = rig.ledger().into_iter().map(|row| row.outcome == Outcome::Alerted).collect();
    assert_eq!(outcomes, [true, true, true, false, true, false, true, false]);
}

#[tokio::test]
async fn costs_by_magnitude_are_charged() {
    let mut rig = with(|anna| anna.policy.costs = vec![CostStep { from: magnitude(6.0), cost: 3 }]).await;
    one_by_one(&mut rig, 0, &[6.0, 6.1, 5.0, 5.1, 5.2]).await;
    let outcomes: Vec<_> = rig.ledger().into_iter().map(|row| row.outcome == Outcome::Alerted).collect();
    assert_eq!(outcomes, [true, false, true, true, false]);
}

#[tokio::test]
async fn what_a_leaky_bucket_admits_leaves_in_its_turn() {
    let mut rig = with(|anna| anna.policy.limit = limit(Algorithm::LeakyBucket, "5/h", Some(3))).await;
    let quakes: Vec<_> = (0..4).map(|at| Quake::new(&rig, &format!("us{at}"), 5.0 + f64::from(at) / 10.0, 1)).collect();
    rig.see(&quakes).await;
    assert_eq!(rig.hooks("anna"), ["M 5.3 - near us3"]);
    assert_eq!(rig.store().next_due(rig.clock_plus(0)).expect("read"), Some(rig.clock_plus(12 * MINUTE)));
    for expected in [2, 3, 3] {
        rig.pass(12 * MINUTE - 1);
        rig.settle().await;
        rig.pass(1);
        rig.settle().await;
        assert_eq!(rig.hooks("anna").len(), expected);
    }
    assert_eq!(rig.outcomes("anna").iter().filter(|row| row.ends_with("withheld")).count(), 1);
}

#[tokio::test]
async fn a_limiter_that_cannot_be_read_decides_nothing_and_stops_nobody_else() {
    let mut rig = Rig::with(&[mailed("anna"), mailed("bruno"), mailed("clara")]).await;
    rig.pass(1);
    one_by_one(&mut rig, 0, &[5.0]).await;
    rig.run("UPDATE limiters SET state = x'0104FF' WHERE subscriber_key = 2");
    one_by_one(&mut rig, 1, &[5.1]).await;
    assert_eq!(rig.mails(), ["M 5.0 - near us0"; 3].into_iter().chain(["M 5.1 - near us1"; 2]).collect::<Vec<_>>());
    assert_eq!(rig.outcomes("bruno"), ["us0 alerted", "us1 undecided"]);
    let row = rig.ledger().into_iter().find(|row| row.outcome == Outcome::Undecided).expect("a row");
    assert!(row.reason.contains("limiter state"), "{}", row.reason);
    let bruno = rig.store().subscriber(&name("bruno")).expect("bruno");
    assert!(bruno.limiter_at(rig.clock.now()).is_err());
    let changed = Subscriber { policy: mailed("x").policy, ..mailed("bruno") };
    let mut store = rig.store();
    let raised = Subscriber { excess: Excess::Delay, ..changed };
    assert!(store.set_subscriber(&raised, None, rig.clock.now()).is_err(), "no change gives a fresh allowance");
    assert_eq!(store.subscriber(&name("bruno")).expect("bruno").subscriber.excess, Excess::Drop);
    rig.check_books();
}

#[tokio::test]
async fn a_row_that_cannot_be_read_holds_up_no_other() {
    let mut rig = Rig::with(&[mailed("anna"), mailed("bruno"), mailed("clara")]).await;
    rig.pass(1);
    rig.show(&[Quake::new(&rig, "us1", 5.1, 1)]);
    rig.poll().await;
    rig.run("UPDATE subscribers SET settings = '{}' WHERE name = 'anna'");
    rig.dispatch().await;
    assert_eq!(rig.outcomes("anna"), ["us1 undecided"]);
    rig.run("UPDATE outbox SET alert = '{}', content_key = NULL WHERE subscriber_key = 2");
    rig.deliver().await;
    assert_eq!(rig.mails(), ["M 5.1 - near us1"], "clara's");
    let bruno = rig.ledger().into_iter().find(|row| row.subscriber == "bruno").expect("a row");
    assert_eq!(bruno.delivery.as_deref(), Some("dead"));
    let detail: String = rig.text("SELECT detail FROM outbox WHERE status = 'dead'");
    assert!(detail.starts_with("it cannot be read in the database: "), "{detail}");
}

/// With a limit of one message an hour, and what is refused told in digests.
fn digesting(who: &str) -> Subscriber {
    let mut subscriber = mailed(who);
    subscriber.excess = Excess::Digest;
    subscriber.policy.limit = limit(Algorithm::SlidingLog, "1/h", None);
    subscriber
}

#[tokio::test]
async fn digest_of_a_spoilt_row_stops_nobody_elses() {
    for spoil in [
        "UPDATE limiters SET state = x'FF' WHERE subscriber_key = 1",
        "UPDATE subscribers SET settings = '{}' WHERE subscriber_key = 1",
    ] {
        let mut rig = Rig::fresh().await;
        rig.add(&[digesting("anna"), digesting("bruno")]);
        rig.poll().await;
        rig.pass(1);
        one_by_one(&mut rig, 0, &[5.0, 5.1]).await;
        rig.run(spoil);
        rig.pass(HOUR);
        rig.settle().await;
        assert_eq!(rig.outcomes("anna"), ["us0 alerted", "us1 pending"], "{spoil}");
        assert_eq!(rig.outcomes("bruno"), ["us0 alerted", "us1 digested"], "{spoil}");
    }
}

#[tokio::test]
async fn digests_that_fall_due_together_go_some_hundreds_at_once_and_a_new_event_in_between() {
    let mut rig = Rig::fresh().await;
    let names: Vec<_> = (0..1_100).map(|at| format!("s{at}")).collect();
    rig.add(&names.iter().map(|who| digesting(who)).collect::<Vec<_>>());
    rig.poll().await;
    rig.pass(1);
    for quake in [Quake::new(&rig, "us0", 5.0, 1), Quake::new(&rig, "us1", 5.1, 1)] {
        rig.show(&[quake]);
        rig.poll().await;
        rig.dispatch().await;
    }
    rig.pass(HOUR);
    let first = rig.step().await.expect("a step");
    let Dispatched::Asked { asked } = first else { panic!("{first:?}") };
    assert_eq!((asked.len(), rig.number("SELECT count(*) FROM decisions WHERE outcome = 'digested'")), (500, 500));
    assert!(asked.iter().all(|(_, release)| matches!(release, Release::Now { .. })), "{asked:?}");
    rig.show(&[Quake::new(&rig, "us2", 5.2, 1)]);
    rig.poll().await;
    let next = rig.step().await.expect("a step");
    assert!(matches!(next, Dispatched::Decided { .. }), "{next:?}");
    let counts: Vec<_> = rig.dispatch().await.iter().map(count_of_asked).collect();
    assert_eq!(counts, [500, 100]);
    // The others heard of the new one instead, and of all the rest an hour later.
    assert_eq!(rig.number("SELECT count(*) FROM decisions WHERE outcome = 'digested'"), 500);
    assert_eq!(rig.number("SELECT count(*) FROM decisions WHERE outcome = 'alerted'"), 1_100 + 600);
    rig.pass(HOUR);
    rig.dispatch().await;
    assert_eq!(rig.number("SELECT count(*) FROM outbox WHERE alert_id LIKE '%-digest'"), 500 + 1_100);
    assert_eq!(rig.number("SELECT count(*) FROM decisions WHERE outcome = 'digested'"), 500 + 600 + 500);
    rig.check_books();
}

fn count_of_asked(step: &Dispatched) -> usize {
    match step {
        Dispatched::Asked { asked } => asked.len(),
        _ => 0,
    }
}
