//! Events made for a test.

use throttler::event::{Coordinates, Event, EventId, Magnitude};
use throttler::identity::{Identity, Known, merge};
use throttler::time::{Span, Timestamp};

pub fn id(text: &str) -> EventId {
    text.parse().expect(text)
}

pub fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

pub fn magnitude(value: f64) -> Magnitude {
    Magnitude::new(value).expect("a magnitude")
}

pub fn place(latitude: f64, longitude: f64) -> Coordinates {
    Coordinates::new(latitude, longitude).expect("a place on the globe")
}

/// An M 5.7 earthquake with these ids, the first being preferred, last changed so many minutes after its origin.
pub fn event(ids: &[&str], updated_minutes: u64) -> Event {
    let origin_at = at("2025-08-05T09:23:48Z");
    let mut all: Vec<EventId> = ids.iter().map(|text| id(text)).collect();
    let preferred = all[0].clone();
    all.sort();
    Event {
        id: preferred,
        ids: all,
        origin_at,
        updated_at: Some(origin_at.plus(Span::from_seconds(60 * updated_minutes))),
        magnitude: Some(magnitude(5.7)),
        magnitude_type: Some("mww".into()),
        place: "35 km ESE of Boca de Yuma, Dominican Republic".into(),
        coordinates: place(18.212, -68.32),
        depth_km: Some(194.6),
        kind: "earthquake".into(),
        status: "automatic".into(),
        tsunami: false,
        pager: None,
        url: None,
    }
}

/// Keeps records as the store does: a new event gets the next key, the others replace what they revise or absorb.
pub fn remember(records: &mut Vec<Known<usize>>, seen: &Event) {
    match merge(records, seen) {
        Identity::New { event } => {
            let key = records.last().map_or(0, |record| record.key + 1);
            records.push(Known { key, event });
        }
        Identity::Same { key, event } | Identity::Revised { key, event, .. } => replace(records, key, event),
        Identity::Merged { key, absorbed, event, .. } => {
            records.retain(|record| !absorbed.contains(&record.key));
            replace(records, key, event);
        }
    }
}

fn replace(records: &mut [Known<usize>], key: usize, event: Event) {
    let record = records.iter_mut().find(|record| record.key == key).expect("the record that was given");
    record.event = event;
}

/// A file of `tests/feed/fixtures`.
pub fn fixture(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/feed/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
