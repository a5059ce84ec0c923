//! Whatever happens, the books balance: each event has one outcome for each subscriber that it ever matched, and no other.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use throttler::limiter::Algorithm;
use throttler::subscriber::{Excess, Mode, Subscriber, Updates};

use crate::rig::{MINUTE, Quake, Rig, limit, magnitude, mailed, quiet};

/// What happens next.
#[derive(Clone, Debug)]
enum Happening {
    /// An event of this magnitude, in tenths, is first shown.
    New(u8),
    /// A known one has this magnitude now, or none.
    Revised(usize, Option<u8>),
    /// A known one has another preferred id.
    Renamed(usize),
    /// A known one is deleted by the service, or is back.
    Withdrawn(usize),
    /// A known one is no longer shown, or is again.
    Toggled(usize),
    Poll,
    Dispatch,
    Deliver,
    Restart,
    /// So many minutes pass.
    Pass(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (44_u8..80).prop_map(Happening::New),
        3 => (any::<usize>(), proptest::option::of(44_u8..80)).prop_map(|(which, to)| Happening::Revised(which, to)),
        1 => any::<usize>().prop_map(Happening::Renamed),
        1 => any::<usize>().prop_map(Happening::Withdrawn),
        1 => any::<usize>().prop_map(Happening::Toggled),
        3 => Just(Happening::Poll),
        2 => Just(Happening::Dispatch),
        1 => Just(Happening::Deliver),
        1 => Just(Happening::Restart),
        2 => (1_u8..30).prop_map(Happening::Pass),
    ]
}

fn subscribers() -> Vec<Subscriber> {
    let from = [4.5, 5.0, 6.0, 5.5, 4.8];
    let excess = [Excess::Digest, Excess::Delay, Excess::Drop, Excess::Digest, Excess::Drop];
    Algorithm::ALL
        .into_iter()
        .enumerate()
        .map(|(at, algorithm)| {
            let mut subscriber = mailed(algorithm.name());
            subscriber.interest.min_magnitude = magnitude(from[at]);
            subscriber.policy.limit = limit(algorithm, "2/h", None);
            subscriber.policy.always_from = (at == 0).then_some(magnitude(7.5));
            subscriber.excess = excess[at];
            subscriber.updates = [Updates::Major, Updates::All, Updates::None][at % 3];
            subscriber.quiet = (at % 2 == 1).then(|| quiet("20:00-02:00", "Asia/Kolkata", Some(6.0)));
            subscriber.mode = if at == 4 { Mode::Shadow } else { Mode::Enforce };
            subscriber
        })
        .collect()
}

async fn check(happenings: Vec<Happening>) {
    let mut rig = Rig::with(&subscribers()).await;
    let mut quakes: Vec<(Quake, bool)> = Vec::new();
    // What each poll showed, by the event's first id: the largest magnitude that anybody was ever asked about.
    let mut seen: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let tail = [Happening::Poll, Happening::Dispatch, Happening::Deliver];
    for happening in happenings.into_iter().chain(tail) {
        rig.pass(1);
        let count = quakes.len();
        let tenths = |value: u8| f64::from(value) / 10.0;
        match happening {
            Happening::New(value) => quakes.push((Quake::new(&rig, &format!("us{count}"), tenths(value), MINUTE), true)),
            Happening::Revised(which, value) if count > 0 => {
                let quake = &mut quakes[which % count].0;
                *quake = quake.revised(value.map(tenths));
            }
            Happening::Renamed(which) if count > 0 => {
                let quake = &mut quakes[which % count].0;
                *quake = quake.renamed(&format!("{}x", quake.id));
            }
            Happening::Withdrawn(which) if count > 0 => {
                let quake = &mut quakes[which % count].0;
                let status = if quake.status == "deleted" { "automatic" } else { "deleted" };
                *quake = Quake { status, ..quake.revised(quake.magnitude) };
            }
            Happening::Toggled(which) if count > 0 => quakes[which % count].1 ^= true,
            Happening::Poll => {
                let shown: Vec<_> = quakes.iter().filter(|(_, shown)| *shown).map(|(quake, _)| quake.clone()).collect();
                rig.show(&shown);
                rig.poll().await;
                // A subscriber is asked about each version, unless the next poll replaces it first.
                rig.dispatch().await;
                for quake in shown.into_iter().filter(|quake| quake.status != "deleted") {
                    seen.entry(quake.id.trim_end_matches('x').to_owned()).or_default().extend(quake.magnitude);
                }
            }
            Happening::Dispatch => drop(rig.dispatch().await),
            Happening::Deliver => rig.deliver().await,
            Happening::Restart => rig.restart().await,
            Happening::Pass(minutes) => rig.pass(u64::from(minutes) * MINUTE),
            _ => {}
        }
    }
    rig.check_books();
    let expected: BTreeSet<(String, String)> = subscribers()
        .iter()
        .flat_map(|subscriber| {
            let from = subscriber.interest.min_magnitude.value();
            let matched = seen.iter().filter(move |(_, magnitudes)| magnitudes.iter().any(|m| *m >= from));
            matched.map(|(id, _)| (id.clone(), subscriber.name.to_string()))
        })
        .collect();
    let rows: Vec<_> =
        rig.ledger().into_iter().map(|row| (row.event.id.as_str().trim_end_matches('x').to_owned(), row.subscriber)).collect();
    assert_eq!(rows.iter().cloned().collect::<BTreeSet<_>>(), expected);
    assert_eq!(rows.len(), expected.len(), "each once");
    // All that is told was sent, once: a message in the directory for each row that is not due later.
    let now = throttler::clock::Clock::now(&*rig.clock).ticks();
    let due = rig.number(&format!("SELECT count(*) FROM outbox WHERE due_at <= {now}"));
    assert_eq!(i64::try_from(rig.mail_texts().len()).expect("small"), due);
    assert_eq!(rig.number(&format!("SELECT count(*) FROM outbox WHERE due_at <= {now} AND status <> 'delivered'")), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_event_has_one_outcome_for_each_subscriber_that_it_ever_matched(happenings in proptest::collection::vec(happening(), 1..40)) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(check(happenings));
    }
}
