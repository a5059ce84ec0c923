//! Events as services other than the USGS describe them: times in words, ids without a network, depths with either sign.
//! Their ids get the name of the service in front, so that those of two services never meet.

use serde::Deserialize;
use serde_json::{Value, json};

use super::feature::{FIRST_STATUS, Fault, USUAL_KIND, magnitude, position, shown, word};
use super::shallow::Shallow;
use super::wire::excerpt;
use crate::event::{Event, EventId, MAX_PLACE_CHARS};
use crate::plain::one_line;
use crate::time::Timestamp;

/// The EMSC's ids begin with this, whoever handed them on.
pub(super) const EMSC: &str = "emsc";
/// What ids without a network begin with where nobody is known to have served them.
const NO_SERVICE: &str = "file";
/// What the EMSC's second letter means, behind one for how sure it is: `ke` is a known earthquake.
const EMSC_KINDS: [(char, &str); 8] = [
    ('e', USUAL_KIND),
    ('n', "nuclear explosion"),
    ('m', "mining explosion"),
    ('h', "chemical explosion"),
    ('x', "experimental explosion"),
    ('r', "rock burst"),
    ('i', "induced event"),
    ('s', "landslide"),
];

/// What is told of an event, each as it was written.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub id: Value,
    pub time: Value,
    pub updated: Value,
    pub magnitude: Value,
    pub magnitude_type: Value,
    pub place: Value,
    /// Longitude, latitude, and kilometres below the surface.
    pub position: [Value; 3],
    pub kind: Value,
    pub status: Value,
}

/// A feature of another service's `GeoJSON`: the EMSC's, and those that call their event `eventId`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Feature {
    id: Shallow,
    properties: Properties,
    geometry: Geometry,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Geometry {
    coordinates: Shallow,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Properties {
    unid: Shallow,
    #[serde(rename = "eventId")]
    event_id: Shallow,
    time: Shallow,
    #[serde(alias = "lastupdate")]
    updated: Shallow,
    mag: Shallow,
    #[serde(alias = "magtype", rename = "magType")]
    mag_type: Shallow,
    #[serde(alias = "flynn_region")]
    place: Shallow,
    depth: Shallow,
    #[serde(alias = "evtype", rename = "type")]
    kind: Shallow,
    status: Shallow,
}

/// The event that a feature describes, which `service` has served.
pub(super) fn read(json: &str, service: &str) -> Result<Event, Fault> {
    let feature: Feature = serde_json::from_str(json).map_err(|error| Fault { id: None, reason: excerpt(&error.to_string()) })?;
    let Feature { id, properties: of, geometry: Geometry { coordinates } } = feature;
    let is_emsc = of.unid.is_string();
    let at = |index: usize| coordinates.get(index).cloned().unwrap_or_default();
    // The EMSC's third coordinate is a height, its depth is one.
    let depth = match at(2).as_f64() {
        _ if of.depth.is_number() => of.depth.0,
        Some(height) if is_emsc => json!(-height),
        _ => at(2),
    };
    let id = [of.unid, id, of.event_id].into_iter().find(|id| !id.is_null()).unwrap_or_default().0;
    let facts = Facts {
        id,
        time: of.time.0,
        updated: of.updated.0,
        magnitude: of.mag.0,
        magnitude_type: of.mag_type.0,
        place: of.place.0,
        position: [at(0), at(1), depth],
        kind: of.kind.as_str().and_then(emsc_kind).filter(|_| is_emsc).map_or(of.kind.0, Value::from),
        status: of.status.0,
    };
    event(&facts, if is_emsc { EMSC } else { service })
}

/// The event of these facts.
pub(super) fn event(facts: &Facts, service: &str) -> Result<Event, Fault> {
    let id = event_id(&facts.id, service).map_err(|reason| Fault { id: None, reason })?;
    described(&id, facts).map_err(|reason| Fault { id: Some(id), reason })
}

fn described(id: &EventId, facts: &Facts) -> Result<Event, String> {
    let (coordinates, depth_km) = position(&Value::from(facts.position.to_vec()))?;
    Ok(Event {
        id: id.clone(),
        ids: vec![id.clone()],
        origin_at: instant(&facts.time).ok_or_else(|| format!("its time is {}: expected RFC 3339", shown(&facts.time)))?,
        updated_at: instant(&facts.updated),
        magnitude: magnitude(&facts.magnitude)?,
        magnitude_type: word(&facts.magnitude_type),
        place: one_line(facts.place.as_str().unwrap_or_default(), MAX_PLACE_CHARS),
        coordinates,
        depth_km,
        kind: word(&facts.kind).map_or_else(|| USUAL_KIND.to_owned(), |kind| kind.to_lowercase()),
        status: word(&facts.status).map_or_else(|| FIRST_STATUS.to_owned(), |status| status.to_lowercase()),
        tsunami: false,
        pager: None,
        url: None,
    })
}

/// `emsc:20250805_0000123`; as it is where the service's own ids name their network.
fn event_id(value: &Value, service: &str) -> Result<EventId, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_u64() => number.to_string(),
        _ => return Err(format!("its id is {}: expected text or a whole number", shown(value))),
    };
    let names_network = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let whole = match service {
        "" if names_network => text.clone(),
        "" => format!("{NO_SERVICE}:{text}"),
        service => format!("{service}:{text}"),
    };
    let expected = "expected visible ASCII characters without a comma, at most 64 with the service's name";
    whole.parse().map_err(|_| format!("its id is '{}': {expected}", excerpt(&text)))
}

/// RFC 3339; where no zone is given it is UTC.
fn instant(value: &Value) -> Option<Timestamp> {
    let text = value.as_str()?.trim();
    text.parse().ok().or_else(|| format!("{text}Z").parse().ok())
}

/// What the EMSC's two letters mean; other words stay as they are.
fn emsc_kind(code: &str) -> Option<&'static str> {
    if code == "ls" {
        return Some("landslide");
    }
    let mut letters = code.chars();
    let (Some(_), Some(kind), None) = (letters.next(), letters.next(), letters.next()) else { return None };
    EMSC_KINDS.iter().find(|(letter, _)| *letter == kind).map(|(_, name)| *name)
}
