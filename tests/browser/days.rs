//! The two days of the M8.8 through the real pipeline: what the dashboard shows.

use std::fs;

use serde_json::json;
use throttler::catalogue::{Filter, Query, Source, read_events};
use throttler::clock::Clock;
use throttler::event::Event;
use throttler::limiter::Algorithm;
use throttler::subscriber::{Excess, Mode, Standing, Subscriber};
use throttler::time::{Span, Timestamp};

use crate::rig::{HOUR, Rig, limit, magnitude, mailed};

pub const FROM: &str = "2025-07-29T12:00:00Z";
pub const TO: &str = "2025-07-31T12:00:00Z";

pub fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn events() -> Vec<Event> {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv");
    let filter = Filter { from: Some(at(FROM)), to: Some(at(TO)), ..Filter::default() };
    read_events(&mut [Source::File(file)], &Query { filter, ..Query::default() }).expect("the catalogue").0
}

/// Subscribers who made different choices, one of them with a receiver that refuses for good.
fn subscribers(rig: &Rig) -> Vec<Subscriber> {
    let with = |mut subscriber: Subscriber, change: &dyn Fn(&mut Subscriber)| {
        change(&mut subscriber);
        subscriber
    };
    let bucket = |bucket| limit(Algorithm::TokenBucket, "5/h", Some(bucket));
    vec![
        with(mailed("anna"), &|s| (s.policy.limit, s.excess) = (bucket(74), Excess::Digest)),
        with(mailed("ben"), &|s| (s.policy.limit, s.excess) = (limit(Algorithm::SlidingLog, "5/h", None), Excess::Digest)),
        with(mailed("carla"), &|s| (s.policy.limit, s.excess) = (bucket(5), Excess::Digest)),
        with(mailed("dora"), &|s| s.excess = Excess::Delay),
        with(mailed("emil"), &|s| (s.interest.min_magnitude, s.mode) = (magnitude(5.5), Mode::Shadow)),
        with(rig.hooked("ops"), &|s| {
            s.policy.limit = limit(Algorithm::LeakyBucket, "5/h", Some(5));
            s.policy.always_from = Some(magnitude(6.5));
        }),
        rig.hooked("gone"),
        mailed("paused"),
    ]
}

fn show(rig: &Rig, events: &[Event]) {
    let features = events.iter().rev().take(40).map(|event| {
        json!({
            "type": "Feature", "id": event.id,
            "properties": {
                "mag": event.magnitude, "place": event.place, "time": event.origin_at.millis(), "updated": event.origin_at.millis(),
                "ids": format!(",{},", event.id), "status": "reviewed", "type": "earthquake", "tsunami": 0, "magType": "mww",
            },
            "geometry": {
                "type": "Point",
                "coordinates": [event.coordinates.longitude(), event.coordinates.latitude(), event.depth_km],
            },
        })
    });
    let metadata = json!({ "generated": rig.clock.now().millis(), "status": 200 });
    let feed = json!({ "type": "FeatureCollection", "metadata": metadata, "features": features.collect::<Vec<_>>() });
    fs::write(rig.path("next.geojson"), feed.to_string()).expect("the feed is written");
    fs::rename(rig.path("next.geojson"), rig.path("feed.geojson")).expect("the feed is renamed");
}

/// The daemon's stages at every event's origin and whenever something is due, until the end of the two days.
pub async fn lived() -> Rig {
    let mut rig = Rig::fresh().await;
    rig.rules.min_magnitude = magnitude(4.5);
    rig.clock.set(at(FROM));
    rig.restart().await;
    rig.add(&subscribers(&rig));
    rig.stand("paused", Standing::Paused);
    rig.receiver.answer("/gone", 410);
    show(&rig, &[]);
    rig.poll().await;
    let events = events();
    let mut shown = 0;
    loop {
        let now = rig.clock.now();
        let next = rig.store().next_wake().expect("a wake").into_iter().chain(rig.store().next_due(now).expect("a due time"));
        let next = next.chain(events.get(shown).map(|event| event.origin_at)).min().filter(|next| *next < at(TO));
        let Some(next) = next else { break };
        rig.clock.set(next.max(now.plus(Span::from_millis(1))));
        let now = rig.clock.now();
        let before = shown;
        shown += events[shown..].iter().take_while(|event| event.origin_at <= now).count();
        if shown > before {
            show(&rig, &events[..shown]);
            rig.poll().await;
        }
        rig.settle().await;
    }
    assert_eq!(shown, events.len());
    rig.clock.set(at(TO));
    show(&rig, &events[events.len() - 20..]);
    rig.poll().await;
    rig.settle().await;
    rig.clock.set(at(TO).plus(Span::from_seconds(HOUR / 60)));
    rig
}
