//! What the feed shows, and when: the quakes of the catalogue, some of them first with another magnitude, some withdrawn.

use serde_json::{Value, json};
use throttler::catalogue::{Filter, Query, Source, read_events};
use throttler::event::{Event, Magnitude, WITHDRAWN};
use throttler::time::{Span, Timestamp};

use super::Chance;
use crate::place::catalogue;

/// An event as the feed shows it from `at` on.
#[derive(Clone, Debug)]
pub struct Version {
    pub at: Timestamp,
    pub event: Event,
}

/// The events of M 5 and more between these instants in their versions, in order of time, each at an instant of its own.
pub fn versions(from: Timestamp, to: Timestamp, seed: u64) -> (usize, Vec<Version>) {
    let filter = Filter { min_magnitude: Some(magnitude(5.0)), from: Some(from), to: Some(to), ..Filter::default() };
    let query = Query { filter, ..Query::default() };
    let (events, _) = read_events(&mut [Source::File(catalogue().into())], &query).expect("the catalogue");
    let (mut chance, mut versions) = (Chance(seed), Vec::new());
    for (at, event) in events.iter().enumerate() {
        let minutes = |minutes| event.origin_at.plus(Span::from_seconds(60 * minutes));
        if at % 3 == 1 {
            let shift = [-0.4, -0.2, 0.3, 0.5][at / 3 % 4];
            let value = event.magnitude.expect("a magnitude").value() + shift;
            let first = Event { magnitude: Some(magnitude(value)), status: "automatic".to_owned(), ..event.clone() };
            versions.push(Version { at: event.origin_at, event: first });
            versions.push(Version { at: minutes(8 + chance.below(40)), event: event.clone() });
        } else {
            versions.push(Version { at: event.origin_at, event: event.clone() });
        }
        if at % 20 == 7 {
            let gone = Event { status: WITHDRAWN.to_owned(), ..event.clone() };
            versions.push(Version { at: minutes(60 + chance.below(60)), event: gone });
        }
    }
    versions.sort_by_key(|version| version.at);
    for at in 1..versions.len() {
        versions[at].at = versions[at].at.max(versions[at - 1].at.plus(Span::from_millis(1)));
    }
    for version in &mut versions {
        version.event.updated_at = Some(version.at);
    }
    (events.len(), versions)
}

fn magnitude(value: f64) -> Magnitude {
    Magnitude::new(value).expect("a magnitude")
}

impl Version {
    /// In the shape of the USGS's feed.
    pub fn feature(&self) -> Value {
        let event = &self.event;
        json!({
            "type": "Feature", "id": event.id,
            "properties": {
                "mag": event.magnitude, "magType": event.magnitude_type, "place": event.place, "time": event.origin_at.millis(),
                "updated": self.at.millis(), "status": event.status, "ids": format!(",{},", event.id.as_str()),
                "type": event.kind, "tsunami": 0, "alert": null,
            },
            "geometry": {
                "type": "Point",
                "coordinates": [event.coordinates.longitude(), event.coordinates.latitude(), event.depth_km],
            },
        })
    }
}
