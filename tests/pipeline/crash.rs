//! A crash between every pair of steps: nothing is lost, nothing is doubled by us, no limiter forgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use throttler::clock::{Clock, ManualClock};
use throttler::daemon::{Deliverer, Metrics};
use throttler::limiter::Algorithm;
use throttler::store::{Claim, Settlement, Store, StoreError};
use throttler::subscriber::{Excess, Updates};
use throttler::time::Span;

use crate::crashing::{Run, crashes};
use crate::rig::{HOUR, MINUTE, Quake, Rig, limit, mailed};

/// Does this with the database. Nobody else holds it then, or its session would outlive a crash.
async fn with<T: Send + 'static>(run: &mut Run, work: impl FnOnce(&mut Store) -> Result<T, StoreError> + Send + 'static) -> T {
    run.rig.parts().database.with(work).await.expect("the database works")
}

/// Polls, decides and delivers in single steps until nothing is left to do.
async fn settle(run: &mut Run) {
    'again: loop {
        run.rig.poll().await;
        if run.crashed().await {
            continue;
        }
        loop {
            let more = run.rig.step().await.is_some();
            if run.crashed().await {
                continue 'again;
            }
            if !more {
                break;
            }
        }
        loop {
            let now = run.rig.clock.now();
            // Two at a time, so that a crash finds some claimed and some not.
            let claim = Claim { owner: "run", most: 2, lease: Span::from_seconds(HOUR), now };
            let claimed = with(run, move |store| store.claim(claim, |_| 2)).await;
            if run.crashed().await {
                continue 'again;
            }
            if claimed.is_empty() {
                return;
            }
            for claim in claimed {
                let secrets: Vec<_> = claim.secret.iter().map(|secret| secret.parse().expect("a secret")).collect();
                let delivery = std::sync::Arc::clone(&run.rig.delivery);
                let outcome = delivery.deliver(&claim.destination, &claim.preset, &secrets, &claim.alert, now).await;
                let throttler::delivery::Outcome::Delivered { detail } = outcome else { panic!("{outcome:?}") };
                if run.crashed().await {
                    continue 'again;
                }
                let settled = [(claim.delivery_key, Settlement::Delivered { detail })];
                with(run, move |store| store.settle("run", &settled, now)).await;
                if run.crashed().await {
                    continue 'again;
                }
            }
        }
    }
}

/// What is left of a run: the decisions, the limiters, and how often each alert came.
#[derive(Debug, PartialEq)]
struct Left {
    decisions: Vec<(String, String, String, bool)>,
    updates: Vec<(String, String, String, String)>,
    limiters: Vec<(String, String)>,
    messages: Vec<(String, String)>,
    received: Vec<String>,
}

/// An alert's id without the part that differs from installation to installation.
fn local(id: &str) -> String {
    id.split_once('-').expect("an installation's key").1.to_owned()
}

fn left(rig: &Rig) -> (Left, BTreeMap<String, usize>) {
    rig.check_books();
    let pair = |row: Vec<String>| (row[0].clone(), row[1].clone());
    let limiters = rig
        .rows("SELECT name, state FROM subscribers LEFT JOIN limiters USING (subscriber_key) ORDER BY name")
        .into_iter()
        .map(pair)
        .collect();
    let messages = rig.rows("SELECT alert_id, status FROM outbox ORDER BY subscriber_key, alert_id");
    let mut times = BTreeMap::new();
    for request in rig.receiver.requests() {
        *times.entry(local(&request.id)).or_default() += 1;
    }
    let mut decisions: Vec<_> = rig
        .ledger()
        .into_iter()
        .map(|row| (row.event.id.to_string(), row.subscriber, row.outcome.to_string(), row.refused))
        .collect();
    decisions.sort();
    let updates = rig.store().updates(None, None).expect("the updates").into_iter();
    let updates = updates.map(|row| (row.event.id.to_string(), row.subscriber, row.outcome.to_string(), row.reason)).collect();
    let left = Left {
        decisions,
        updates,
        limiters,
        messages: messages.into_iter().map(pair).map(|(id, status)| (local(&id), status)).collect(),
        received: times.keys().cloned().collect(),
    };
    (left, times)
}

/// Four polls: alerts, refusals of every kind, revisions, updates that go and wait, a digest, a withdrawal, with a crash
/// after one step or without.
async fn run(crash_after: Option<usize>) -> (Left, BTreeMap<String, usize>, usize) {
    let mut rig = Rig::fresh().await;
    let small = |who: &str, excess, algorithm| {
        let mut subscriber = rig.hooked(who);
        subscriber.excess = excess;
        subscriber.updates = Updates::All;
        subscriber.policy.limit = limit(algorithm, "2/h", None);
        subscriber
    };
    rig.add(&[
        small("anna", Excess::Digest, Algorithm::TokenBucket),
        small("bruno", Excess::Delay, Algorithm::SlidingLog),
        small("clara", Excess::Drop, Algorithm::LeakyBucket),
    ]);
    rig.poll().await;
    let mut run = Run::new(rig, crash_after);
    run.rig.pass(1);
    let quakes: Vec<_> =
        [5.1, 6.2, 5.3].iter().enumerate().map(|(at, m)| Quake::new(&run.rig, &format!("us{at}"), *m, 60)).collect();
    let growing = Quake::new(&run.rig, "us9", 4.8, MINUTE);
    run.rig.show(&[quakes[0].clone(), quakes[1].clone(), growing.clone()]);
    settle(&mut run).await;
    run.rig.pass(MINUTE);
    run.rig.show(&[quakes[0].revised(5.4), quakes[1].clone(), quakes[2].clone(), growing.revised(5.0).renamed("us10")]);
    settle(&mut run).await;
    run.rig.pass(HOUR);
    settle(&mut run).await;
    run.rig.pass(MINUTE);
    let gone = Quake { status: "deleted", ..quakes[1].revised(6.2) };
    run.rig.show(&[quakes[0].revised(5.4).revised(5.6), gone]);
    settle(&mut run).await;
    run.rig.pass(3 * HOUR);
    settle(&mut run).await;
    let (left, times) = left(&run.rig);
    (left, times, run.steps)
}

#[tokio::test]
async fn a_crash_after_any_step_loses_nothing_and_repeats_at_most_what_was_under_way() {
    let (expected, times, steps) = Box::pin(run(None)).await;
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    assert_eq!(expected.decisions.len(), 12, "four events for three subscribers: {expected:#?}");
    for what in ["sent", "superseded"] {
        assert!(expected.updates.iter().any(|(_, _, outcome, _)| outcome == what), "{what}: {expected:#?}");
    }
    let mut repeats = 0;
    let (crashes, are_all) = crashes(steps);
    for crash_after in crashes {
        let (left, times, _) = Box::pin(run(Some(crash_after))).await;
        assert_eq!(left, expected, "after step {crash_after} of {steps}");
        let repeated: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(repeated.len() <= 1 && repeated.iter().all(|(_, times)| **times == 2), "after step {crash_after}: {repeated:?}");
        repeats += repeated.len();
    }
    assert!(repeats == times.len() || !are_all, "each is repeated exactly by the crash between its sending and its receipt");
}

#[tokio::test]
async fn a_crash_between_two_chunks_of_subscribers_goes_on_where_it_stopped() {
    let mut rig = Rig::with(&[]).await;
    let all: Vec<_> = (0..4_100).map(|at| mailed(&format!("s{at}"))).collect();
    rig.add(&all);
    rig.pass(1);
    rig.show(&[Quake::new(&rig, "us1", 5.5, 60)]);
    rig.poll().await;
    rig.step().await.expect("one chunk");
    let decided = rig.number("SELECT count(*) FROM decisions");
    assert!(0 < decided && decided < 4_100, "{decided}");
    rig.restart().await;
    // Meanwhile the event is revised, and another, larger one comes first.
    rig.show(&[Quake::new(&rig, "us1", 5.6, 60), Quake::new(&rig, "us2", 7.0, 60)]);
    rig.poll().await;
    let steps = rig.dispatch().await;
    let throttler::daemon::Dispatched::Decided { event, .. } = &steps[0] else { panic!("{steps:?}") };
    assert_eq!(event.id.as_str(), "us2");
    assert_eq!(rig.number("SELECT count(*) FROM decisions"), 8_200);
    assert_eq!(rig.number("SELECT count(DISTINCT alert_id) FROM outbox"), 8_200);
}

#[tokio::test]
async fn a_lease_that_ran_out_is_taken_over_and_its_late_owner_settles_nothing() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    rig.pass(1);
    rig.show(&[Quake::new(&rig, "us1", 5.5, 60)]);
    rig.poll().await;
    rig.dispatch().await;
    let claim = |owner, now| Claim { owner, most: 10, lease: Span::from_seconds(300), now };
    let mut store = rig.store();
    let first = store.claim(claim("first", rig.clock.now()), |_| 10).expect("claimed");
    assert_eq!((first.len(), first[0].attempts), (1, 0));
    rig.pass(299);
    assert!(store.claim(claim("second", rig.clock.now()), |_| 10).expect("claimed").is_empty(), "leased");
    rig.pass(1);
    let second = store.claim(claim("second", rig.clock.now()), |_| 10).expect("claimed");
    assert_eq!((second.len(), second[0].attempts, &second[0].alert.id), (1, 1, &first[0].alert.id));
    let dead = [(first[0].delivery_key, Settlement::Dead { reason: "too late".into(), disable: true })];
    store.settle("first", &dead, rig.clock.now()).expect("settled");
    assert_eq!(rig.ledger()[0].delivery.as_deref(), Some("leased"), "it is the second's");
    let done = [(first[0].delivery_key, Settlement::Delivered { detail: "yes".into() })];
    store.settle("second", &done, rig.clock.now()).expect("settled");
    assert_eq!(rig.ledger()[0].delivery.as_deref(), Some("delivered"));
}

#[tokio::test]
async fn leases_that_run_out_are_counted() {
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna"), rig.hooked("bruno")]);
    rig.pass(1);
    rig.show(&[Quake::new(&rig, "us1", 5.5, 60)]);
    rig.poll().await;
    rig.dispatch().await;
    let (lease, now) = (Span::from_seconds(300), rig.clock.now());
    let taken = rig.store().claim(Claim { owner: "a daemon that dies", most: 10, lease, now }, |_| 1).expect("claimed");
    assert_eq!(taken.len(), 1, "the other waits for the channel");
    let (metrics, database, delivery) = (Arc::new(Metrics::new()), rig.parts().database.clone(), Arc::clone(&rig.delivery));
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&rig.clock);
    rig.parts().deliverer = Deliverer::new(database, delivery, clock).counting(Arc::clone(&metrics));
    let lost = || {
        let families = metrics.gather();
        let family = families.iter().find(|family| family.name() == "throttler_leases_lost_total").expect("it is counted");
        family.get_metric()[0].get_counter().get_value()
    };
    rig.pass(299);
    rig.deliver().await;
    assert_eq!((rig.receiver.requests().len(), lost()), (1, 0.0));
    rig.pass(1);
    rig.deliver().await;
    assert_eq!((rig.receiver.requests().len(), lost()), (2, 1.0));
}
