//! The wire format: the bytes of a feed become events, above all those of a USGS `GeoJSON` summary. Tolerant of what the service is known to send, and
//! of hostile bytes; one bad feature does not spoil the others.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::error::FeedError;
use super::shallow::Shallow;
use super::{feature, table};
use crate::event::{Event, EventId};
use crate::identity::{Identity, Known, merge};
use crate::plain::one_line;
use crate::time::Timestamp;

/// The most features of one feed, the service's own limit for a query. A month of M 2.5 and more has about 3,000.
pub const MAX_FEATURES: usize = 20_000;
/// How much of an unexpected text goes into a message, in characters.
const EXCERPT_CHARS: usize = 80;

/// What a feed said at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When the service made it, where it says so.
    pub generated_at: Option<Timestamp>,
    /// Each event once, in the order of the feed.
    pub events: Vec<Event>,
    /// The ids of the events that the service tells to be deleted, in the order of the feed.
    pub deleted: Vec<EventId>,
    /// The features that are no events, in the order of the feed.
    pub rejected: Vec<Rejection>,
}

/// A feature that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its position in the feed, from 0.
    pub index: usize,
    /// Its id where it has a well-formed one.
    pub id: Option<EventId>,
    /// What is wrong with it, safe for a log.
    pub reason: String,
}

/// The parts of the document that are looked at; the features stay unread until each is read by itself.
#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    features: Option<Features<'a>>,
}

/// Taken as it comes: nothing in it is needed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    generated: Shallow,
    status: Shallow,
    error: Shallow,
    title: Shallow,
}

/// At most one feature more than [`MAX_FEATURES`], so that a hostile list is not stored.
struct Features<'a>(Vec<&'a RawValue>);

/// Reads a feed of the USGS's, or of a file: [`parse_from`] no service in particular.
///
/// # Errors
/// As [`parse_from`].
pub fn parse(bytes: &[u8]) -> Result<Snapshot, FeedError> {
    parse_from(bytes, "")
}

/// Reads a feed in any of the formats, which its content tells: the USGS's `GeoJSON`, other services', their text, CSV.
/// Ids that do not name their network get `service` in front.
///
/// Features that share an id are one event: the newest version, with the ids of all. A byte-order mark is skipped, and
/// bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
/// [`FeedError::NotGeoJson`], [`FeedError::Json`], [`FeedError::TooManyFeatures`], or [`FeedError::Service`] if the
/// document's own status says that the request failed.
pub fn parse_from(bytes: &[u8], service: &str) -> Result<Snapshot, FeedError> {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes));
    let start = text.trim_start();
    if !start.starts_with('{') {
        return table::read(start, service).unwrap_or_else(|| Err(FeedError::NotGeoJson { found: table::beginning(start) }));
    }
    let document: Document = serde_json::from_str(&text).map_err(|source| FeedError::Json { source })?;
    let metadata: Metadata = document.metadata.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    if let Some(status) = metadata.status.as_u64().filter(|status| *status >= 400) {
        let message = metadata.error.as_str().or(metadata.title.as_str()).unwrap_or("without a reason");
        return Err(FeedError::Service { status, message: excerpt(message) });
    }
    let wrong = |found: String| Err(FeedError::NotGeoJson { found });
    match document.kind.as_deref() {
        Some("FeatureCollection") | None => {}
        Some(other) => return wrong(format!("a '{}' instead of a FeatureCollection", excerpt(other))),
    }
    let Some(Features(features)) = document.features else { return wrong("JSON without a list of features".to_owned()) };
    if features.len() > MAX_FEATURES {
        return Err(FeedError::TooManyFeatures);
    }
    Ok(snapshot(&metadata, features.into_iter().map(RawValue::get).collect(), service))
}

/// Reads what the service answers to an id: one feature by itself, or a feed.
///
/// # Errors
/// As [`parse`].
pub(super) fn parse_one(bytes: &[u8]) -> Result<Snapshot, FeedError> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let text = String::from_utf8_lossy(bytes);
    match serde_json::from_str::<Kind>(&text) {
        Ok(found) if found.kind == "Feature" => Ok(snapshot(&Metadata::default(), vec![&text], "")),
        _ => parse(bytes),
    }
}

fn snapshot(metadata: &Metadata, features: Vec<&str>, service: &str) -> Snapshot {
    let (mut deleted, mut rejected) = (Vec::new(), Vec::new());
    let mut events = Collected::default();
    for (index, feature) in features.into_iter().enumerate() {
        match feature::read(feature, service) {
            Ok(feature::Seen::Event(event)) => events.add(&event),
            Ok(feature::Seen::Deleted(id)) => deleted.push(id),
            Err(fault) => rejected.push(Rejection { index, id: fault.id, reason: fault.reason }),
        }
    }
    // What is shown as well is not gone.
    deleted.retain(|id| !events.positions.contains_key(id));
    Snapshot { generated_at: feature::instant(&metadata.generated), events: events.into_events(), deleted, rejected }
}

/// The beginning of a text from outside, on one line and safe for a log.
pub(super) fn excerpt(text: &str) -> String {
    one_line(text, EXCERPT_CHARS)
}

/// Events by position, each id pointing to the event that has it.
#[derive(Default)]
pub(super) struct Collected {
    events: BTreeMap<usize, Event>,
    positions: BTreeMap<EventId, usize>,
}

impl Collected {
    pub fn add(&mut self, seen: &Event) {
        let shared: BTreeSet<usize> = seen.ids.iter().filter_map(|id| self.positions.get(id).copied()).collect();
        let known: Vec<Known<usize>> = shared
            .into_iter()
            .filter_map(|position| self.events.remove(&position).map(|event| Known { key: position, event }))
            .collect();
        let next = self.events.last_key_value().map_or(0, |(position, _)| position + 1);
        let (position, event) = match merge(&known, seen) {
            Identity::New { event } => (next, event),
            Identity::Same { key, event } | Identity::Revised { key, event, .. } | Identity::Merged { key, event, .. } => {
                (key, event)
            }
        };
        self.positions.extend(event.ids.iter().map(|id| (id.clone(), position)));
        self.events.insert(position, event);
    }

    pub fn into_events(self) -> Vec<Event> {
        self.events.into_values().collect()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Features<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Features<'a>, D::Error> {
        struct Bounded;

        impl<'de> Visitor<'de> for Bounded {
            type Value = Features<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of features")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Features<'de>, A::Error> {
                let mut features = Vec::new();
                while features.len() <= MAX_FEATURES {
                    match list.next_element()? {
                        Some(feature) => features.push(feature),
                        None => return Ok(Features(features)),
                    }
                }
                while list.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Features(features))
            }
        }

        deserializer.deserialize_seq(Bounded)
    }
}
