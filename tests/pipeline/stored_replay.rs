//! What `replay --subscriber` says is what the daemon does: digests, delays, reserves, exceptions and shadow mode included.

use std::collections::BTreeSet;

use throttler::catalogue::{Filter, Query, Source, read_events};
use throttler::event::Magnitude;
use throttler::limiter::{Algorithm, Reserve};
use throttler::plan::Outcome;
use throttler::replay::replay_stored;
use throttler::store::LedgerRow;
use throttler::subscriber::{Excess, Mode, Subscriber};
use throttler::time::{Span, Timestamp};

use crate::rig::{HOUR, Quake, Rig, limit, magnitude, quiet};

/// Subscribers who differ in everything that decides.
fn subscribers(rig: &Rig) -> Vec<Subscriber> {
    let with = |who: &str, change: &dyn Fn(&mut Subscriber)| {
        let mut subscriber = rig.hooked(who);
        change(&mut subscriber);
        subscriber
    };
    vec![
        with("digest", &|s| s.policy.limit = limit(Algorithm::SlidingLog, "5/h", None)),
        with("delay", &|s| {
            s.policy.limit = limit(Algorithm::TokenBucket, "4/h", Some(3));
            s.excess = Excess::Delay;
        }),
        with("careful", &|s| {
            s.policy.limit = limit(Algorithm::TokenBucket, "3/h", Some(6));
            s.policy.reserve = Some(Reserve { keep: 2, from: magnitude(6.0) });
            s.policy.always_from = Some(magnitude(6.5));
            s.interest.min_magnitude = magnitude(5.3);
        }),
        with("queue", &|s| s.policy.limit = limit(Algorithm::LeakyBucket, "5/h", Some(4))),
        with("shadow", &|s| {
            s.policy.limit = limit(Algorithm::SlidingCounter, "2/h", None);
            s.mode = Mode::Shadow;
        }),
        with("night", &|s| {
            s.policy.limit = limit(Algorithm::SlidingLog, "3/h", None);
            s.quiet = Some(quiet("10:00-14:30", "Asia/Kamchatka", Some(5.8)));
        }),
        with("slow-night", &|s| {
            s.policy.limit = limit(Algorithm::TokenBucket, "4/h", Some(3));
            s.excess = Excess::Delay;
            s.policy.always_from = Some(magnitude(6.0));
            s.quiet = Some(quiet("23:30-02:00", "UTC", None));
        }),
        with("queue-by-night", &|s| {
            s.policy.limit = limit(Algorithm::LeakyBucket, "5/h", Some(4));
            s.excess = Excess::Drop;
            s.quiet = Some(quiet("00:00-02:00", "UTC", Some(6.0)));
        }),
        with("shadow-by-night", &|s| {
            s.policy.limit = limit(Algorithm::SlidingCounter, "2/h", None);
            s.mode = Mode::Shadow;
            s.quiet = Some(quiet("00:00-02:00", "UTC", Some(6.0)));
        }),
    ]
}

#[tokio::test]
async fn a_stored_subscriber_s_replay_is_what_the_daemon_does() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv");
    let at = |text: &str| Some(text.parse().expect("a time"));
    let filter = Filter { from: at("2025-07-29T20:00:00Z"), to: at("2025-07-30T06:00:00Z"), ..Filter::default() };
    let (events, _) =
        read_events(&mut [Source::File(file)], &Query { filter, ..Query::default() }).expect("the catalogue is read");

    let mut rig = Rig::fresh().await;
    rig.rules.min_magnitude = magnitude(4.0);
    rig.clock.set(events[0].origin_at.minus(Span::from_seconds(HOUR)));
    rig.restart().await;
    let subscribers = subscribers(&rig);
    rig.add(&subscribers);
    rig.show(&[]);
    rig.poll().await;
    let mut shown: Vec<Quake> = Vec::new();
    for event in &events {
        wake_until(&mut rig, Some(event.origin_at)).await;
        rig.clock.set(event.origin_at);
        let quake = Quake::at(event.id.as_str(), event.magnitude.map(Magnitude::value), event.origin_at, event.origin_at);
        shown.insert(0, quake);
        shown.truncate(30);
        rig.show(&shown);
        rig.poll().await;
        rig.dispatch().await;
    }
    wake_until(&mut rig, None).await;

    let ledger = rig.ledger();
    for subscriber in &subscribers {
        let expected = replay_stored(subscriber, &events);
        let mine: Vec<&LedgerRow> = ledger.iter().filter(|row| row.subscriber == subscriber.name.as_str()).collect();
        let count = |outcome| mine.iter().filter(|row| row.outcome == outcome).count() as u64;
        let digests: BTreeSet<_> = mine.iter().filter(|row| row.outcome == Outcome::Digested).map(|row| &row.alert_id).collect();
        let refused = mine.iter().filter(|row| row.refused).count() as u64;
        assert!(expected.offered > 40 && expected.refused > 0, "{}: the limit is felt: {expected:?}", subscriber.name);
        // The reason grows when it is told, and still says at first what became of it when it came.
        let held =
            mine.iter().filter(|row| row.reason.split("; ").next().is_some_and(|why| why.contains("held for quiet hours")));
        let held = held.count() as u64;
        assert_eq!(held > 10, subscriber.quiet.is_some(), "{}: {held} were held", subscriber.name);
        assert_eq!(
            (mine.len() as u64, refused, held, count(Outcome::Digested), digests.len() as u64, count(Outcome::Withheld)),
            (expected.offered, expected.refused, expected.held, expected.digested, expected.digests, expected.withheld),
            "{}: matched, refused, held, digested, digests, withheld",
            subscriber.name,
        );
        assert_eq!(expected.offered, expected.admitted + expected.refused + expected.held, "{}", subscriber.name);
        assert_eq!(
            count(Outcome::Pending) + count(Outcome::Waiting) + count(Outcome::Held),
            0,
            "{}: everything was told in the end",
            subscriber.name
        );
    }
}

/// Goes from wake-up to wake-up before `end`, or as long as there are any.
async fn wake_until(rig: &mut Rig, end: Option<Timestamp>) {
    while let Some(at) = rig.store().next_wake().expect("the store").filter(|at| end.is_none_or(|end| *at < end)) {
        rig.clock.set(at);
        rig.dispatch().await;
    }
}
