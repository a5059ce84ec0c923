//! One feature of the wire format. What makes the event must be well formed: id, origin time, place, and magnitude where
//! there is one. The rest is dropped where it is not, so that a strange detail never hides an earthquake.

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::event::{Coordinates, Event, EventId, MAX_PLACE_CHARS, Magnitude, WITHDRAWN};
use crate::interest::Depth;
use crate::plain::one_line;
use crate::time::Timestamp;

use super::foreign;
use super::shallow::Shallow;
use super::wire::excerpt;

/// The most ids of one feature. Real ones have up to about twenty.
pub const MAX_EVENT_IDS: usize = 100;
/// The longest kind, status and magnitude scale that are kept, in characters.
const MAX_WORD_CHARS: usize = 64;
/// The longest address of an event's page, in bytes; a longer one is dropped.
const MAX_PAGE_BYTES: usize = 2_048;
/// Where a feature names no type, it is what nearly all are.
pub(super) const USUAL_KIND: &str = "earthquake";
/// Where a feature names no status, nobody is known to have reviewed it.
pub(super) const FIRST_STATUS: &str = "automatic";

/// Why a feature is no event.
pub(super) struct Fault {
    pub id: Option<EventId>,
    pub reason: String,
}

/// The members that are looked at, of whatever type they are.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Feature {
    id: Shallow,
    properties: Option<Properties>,
    geometry: Option<Geometry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Geometry {
    /// Longitude, latitude, and depth in kilometres.
    coordinates: Shallow,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Properties {
    alert: Shallow,
    ids: Shallow,
    mag: Shallow,
    #[serde(rename = "magType")]
    mag_type: Shallow,
    place: Shallow,
    status: Shallow,
    time: Shallow,
    tsunami: Shallow,
    #[serde(rename = "type")]
    kind: Shallow,
    updated: Shallow,
    url: Shallow,
}

/// What a feature tells.
pub(super) enum Seen {
    Event(Box<Event>),
    /// The service withdrew the event of this id; the rest of such a feature is often missing.
    Deleted(EventId),
}

/// What a feature tells; `service` has served it.
pub(super) fn read(json: &str, service: &str) -> Result<Seen, Fault> {
    let feature: Feature = serde_json::from_str(json).map_err(|error| Fault { id: None, reason: excerpt(&error.to_string()) })?;
    // The USGS counts milliseconds.
    if feature.properties.as_ref().is_some_and(|properties| properties.time.is_string()) {
        return foreign::read(json, service).map(|event| Seen::Event(Box::new(event)));
    }
    let id = event_id(&feature.id).map_err(|reason| Fault { id: None, reason })?;
    let properties = feature.properties.unwrap_or_default();
    if properties.status.as_str().is_some_and(|status| status.trim().eq_ignore_ascii_case(WITHDRAWN)) {
        return Ok(Seen::Deleted(id));
    }
    let event = described(&id, &properties, &feature.geometry.unwrap_or_default());
    event.map(|event| Seen::Event(Box::new(event))).map_err(|reason| Fault { id: Some(id), reason })
}

fn described(id: &EventId, properties: &Properties, geometry: &Geometry) -> Result<Event, String> {
    let origin_at = instant(&properties.time)
        .ok_or_else(|| format!("its time is {}: expected milliseconds since 1970", shown(&properties.time)))?;
    let (coordinates, depth_km) = position(&geometry.coordinates)?;
    Ok(Event {
        id: id.clone(),
        ids: all_ids(id, &properties.ids)?,
        origin_at,
        updated_at: instant(&properties.updated),
        magnitude: magnitude(&properties.mag)?,
        magnitude_type: word(&properties.mag_type),
        place: one_line(properties.place.as_str().unwrap_or_default(), MAX_PLACE_CHARS),
        coordinates,
        depth_km,
        kind: word(&properties.kind).map_or_else(|| USUAL_KIND.to_owned(), |kind| kind.to_lowercase()),
        status: word(&properties.status).map_or_else(|| FIRST_STATUS.to_owned(), |status| status.to_lowercase()),
        tsunami: properties.tsunami.as_f64().is_some_and(|flag| flag > 0.0) || *properties.tsunami == Value::Bool(true),
        pager: properties.alert.as_str().and_then(|level| level.parse().ok()),
        url: properties.url.as_str().and_then(page),
    })
}

fn event_id(value: &Value) -> Result<EventId, String> {
    let text = value.as_str().ok_or_else(|| format!("its id is {}: expected text", shown(value)))?;
    text.parse().map_err(|_| format!("its id is '{}': expected visible ASCII characters without a comma", excerpt(text)))
}

/// The preferred id and those of a list like `,us1,pt1,`; malformed ones in the list are left out.
fn all_ids(preferred: &EventId, list: &Value) -> Result<Vec<EventId>, String> {
    let listed = list.as_str().unwrap_or_default().split(',').filter_map(|text| text.trim().parse().ok());
    // One more than allowed is enough to know that there are too many.
    let mut ids: Vec<EventId> = std::iter::once(preferred.clone()).chain(listed).take(MAX_EVENT_IDS + 2).collect();
    ids.sort();
    ids.dedup();
    if ids.len() > MAX_EVENT_IDS { Err(format!("it has more than {MAX_EVENT_IDS} ids")) } else { Ok(ids) }
}

pub(super) fn magnitude(value: &Value) -> Result<Option<Magnitude>, String> {
    if value.is_null() {
        return Ok(None);
    }
    let known = value.as_f64().and_then(|number| Magnitude::new(number).ok());
    known.map(Some).ok_or_else(|| {
        let (min, max) = (Magnitude::MIN, Magnitude::MAX);
        format!("its magnitude is {}: expected null or a number from {min} to {max}", shown(value))
    })
}

/// The place, and the depth unless it is unknown or beyond what a depth can be.
pub(super) fn position(value: &Value) -> Result<(Coordinates, Option<f64>), String> {
    let number = |index: usize| value.get(index).and_then(Value::as_f64);
    let (Some(longitude), Some(latitude)) = (number(0), number(1)) else {
        return Err(format!("its coordinates are {}: expected longitude, latitude and depth", shown(value)));
    };
    let coordinates = Coordinates::new(latitude, longitude).map_err(|error| error.to_string())?;
    Ok((coordinates, number(2).and_then(|km| Depth::new(km).ok()).map(Depth::km)))
}

/// Milliseconds since 1970, whole or not, negative before it; `None` if it is no number or out of range.
pub(super) fn instant(value: &Value) -> Option<Timestamp> {
    if let Some(millis) = value.as_i64() {
        return Timestamp::from_millis(millis).ok();
    }
    let rounded = value.as_f64()?.round();
    let in_range = (Timestamp::MIN.millis() as f64..=Timestamp::MAX.millis() as f64).contains(&rounded);
    #[expect(clippy::cast_possible_truncation, reason = "whole, and within the milliseconds of a timestamp")]
    in_range.then_some(rounded as i64).and_then(|millis| Timestamp::from_millis(millis).ok())
}

pub(super) fn word(value: &Value) -> Option<String> {
    value.as_str().map(|text| one_line(text, MAX_WORD_CHARS)).filter(|word| !word.is_empty())
}

/// The address of a page that is safe to offer as a link, in its normal form.
fn page(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|_| text.len() <= MAX_PAGE_BYTES)?;
    let is_plain = matches!(url.scheme(), "http" | "https") && url.username().is_empty() && url.password().is_none();
    (is_plain && url.as_str().len() <= MAX_PAGE_BYTES).then(|| url.into())
}

/// A value for a message.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "missing".to_owned(),
        other => format!("'{}'", excerpt(&other.to_string())),
    }
}
