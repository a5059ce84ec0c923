//! The two days of the M 8.8 through the pipeline, event by event at its origin time: what the replay says is what happens.

use throttler::catalogue::{Filter, Query, Source, read_events};
use throttler::limiter::Algorithm;
use throttler::replay::{busiest_window, replay};
use throttler::subscriber::Excess;
use throttler::time::Span;

use crate::rig::{HOUR, Quake, Rig, limit, magnitude};

#[tokio::test]
async fn the_pipeline_decides_on_the_days_of_the_great_quake_as_the_replay_does() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv");
    let at = |text: &str| Some(text.parse().expect("a time"));
    let filter = Filter { from: at("2025-07-29T12:00:00Z"), to: at("2025-07-31T12:00:00Z"), ..Filter::default() };
    let (events, _) =
        read_events(&mut [Source::File(file)], &Query { filter, ..Query::default() }).expect("the catalogue is read");
    assert_eq!(events.len(), 189);

    let mut rig = Rig::fresh().await;
    rig.rules.min_magnitude = magnitude(4.0);
    rig.clock.set(events[0].origin_at.minus(Span::from_seconds(HOUR)));
    rig.restart().await;
    let limits = Algorithm::ALL.map(|algorithm| limit(algorithm, "5/h", algorithm.has_bucket().then_some(5)));
    let name = |algorithm: Algorithm| algorithm.name().to_owned();
    rig.add(&limits.map(|limit| {
        let mut subscriber = rig.hooked(&name(limit.algorithm()));
        subscriber.interest.min_magnitude = magnitude(4.0);
        subscriber.policy.limit = limit;
        subscriber.excess = Excess::Drop;
        subscriber
    }));
    rig.show(&[]);
    rig.poll().await;
    let mut shown: Vec<Quake> = Vec::new();
    for event in &events {
        rig.clock.set(event.origin_at);
        let quake = Quake::at(
            event.id.as_str(),
            event.magnitude.map(throttler::event::Magnitude::value),
            event.origin_at,
            event.origin_at,
        );
        // The newest stand first; what aged out leaves.
        shown.insert(0, quake);
        shown.truncate(10);
        rig.show(&shown);
        assert_eq!(rig.poll().await.new, 1, "{}", event.id);
        rig.dispatch().await;
    }
    rig.pass(2 * HOUR);
    rig.settle().await;

    let ledger = rig.ledger();
    for limit in limits {
        let who = name(limit.algorithm());
        let mine: Vec<_> = ledger.iter().filter(|row| row.subscriber == who).collect();
        let admitted: Vec<_> = mine.iter().filter(|row| !row.refused).map(|row| row.event.id.clone()).collect();
        let expected = replay(limit, &events);
        assert_eq!((mine.len(), admitted.len() as u64), (189, expected.admitted), "{who}");
        assert_eq!(rig.hooks(&who).len() as u64, expected.admitted, "{who}: all that was admitted arrives, and nothing else");
        // What left, and when: the outbox's due times keep the limiter's promise.
        let sql = "SELECT due_at FROM outbox JOIN subscribers USING (subscriber_key)";
        let due = rig.rows(&format!("{sql} WHERE name = '{who}' ORDER BY due_at"));
        let due: Vec<i128> = due.iter().map(|row| row[0].parse().expect("an instant")).collect();
        let window = i128::from(limit.rate().window().ticks());
        assert_eq!(busiest_window(&due, window), expected.busiest_window, "{who}");
    }
    let bucket: Vec<_> = ledger.iter().filter(|row| row.subscriber == "token-bucket").collect();
    let count = |outcome| bucket.iter().filter(|row| row.outcome == outcome).count();
    assert_eq!((count(throttler::plan::Outcome::Alerted), count(throttler::plan::Outcome::Withheld)), (120, 69));
    rig.check_books();
}
