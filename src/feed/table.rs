//! Feeds in rows: the USGS's CSV and the FDSN event services' text, each known by its first line. Columns are found by name;
//! a row that is no event is left out, as a feature is.

use serde_json::{Number, Value};

use super::error::FeedError;
use super::feature::Fault;
use super::foreign::{Facts, event};
use super::lines::{CSV, MAX_LINE_BYTES, Splitter, Style, lines};
use super::wire::{Collected, MAX_FEATURES, Rejection, Snapshot, excerpt};

/// What the columns of one format are called, in lower case.
struct Layout {
    style: Style,
    id: &'static str,
    magnitude: &'static str,
    depth: &'static str,
    place: &'static str,
    kind: &'static str,
}

const USGS_CSV: Layout = Layout { style: CSV, id: "id", magnitude: "mag", depth: "depth", place: "place", kind: "type" };
/// FDSN-WS Specifications 1.2, "Text format".
const FDSN_TEXT: Layout = Layout {
    style: Style { delimiter: b'|', quoting: false },
    id: "#eventid",
    magnitude: "magnitude",
    depth: "depth/km",
    place: "eventlocationname",
    kind: "eventtype",
};

/// Reads rows if the first line says that they are; `None` if it does not.
pub(super) fn read(text: &str, service: &str) -> Option<Result<Snapshot, FeedError>> {
    let first = text.trim_start().lines().next().filter(|line| line.len() <= MAX_LINE_BYTES)?.to_ascii_lowercase();
    let has = |delimiter: char, name: &str| first.split(delimiter).any(|field| field.trim().trim_matches('"') == name);
    if has('|', FDSN_TEXT.id) || has('|', "eventid") {
        Some(rows(text, &FDSN_TEXT, service))
    } else if has(',', USGS_CSV.id) && has(',', "time") {
        // Its ids begin with their network, whoever hands the rows on.
        Some(rows(text, &USGS_CSV, ""))
    } else {
        None
    }
}

fn rows(text: &str, layout: &Layout, service: &str) -> Result<Snapshot, FeedError> {
    let (mut events, mut rejected) = (Collected::default(), Vec::new());
    let mut lines = lines(text.as_bytes());
    let mut splitter = Splitter::new(layout.style);
    let header = lines.next().and_then(|(_, line)| splitter.fields(line).ok()).unwrap_or_default();
    let names: Vec<String> = header.iter().map(|name| name.to_lowercase()).collect();
    for (index, (_, line)) in lines.enumerate() {
        if index == MAX_FEATURES {
            return Err(FeedError::TooManyFeatures);
        }
        let facts = splitter.fields(line).and_then(|fields| facts(&fields, &names, layout));
        let facts = facts.map_err(|reason| Fault { id: None, reason });
        match facts.and_then(|facts| event(&facts, service)) {
            Ok(event) => events.add(&event),
            Err(Fault { id, reason }) => rejected.push(Rejection { index, id, reason }),
        }
    }
    Ok(Snapshot { generated_at: None, events: events.into_events(), deleted: Vec::new(), rejected })
}

fn facts(fields: &[String], names: &[String], layout: &Layout) -> Result<Facts, String> {
    if fields.len() != names.len() {
        return Err(format!("it has {} fields: expected {}, as in the first line", fields.len(), names.len()));
    }
    let place = |wanted: &str| names.iter().position(|name| name.trim_start_matches('#') == wanted.trim_start_matches('#'));
    let text = |name: &str| place(name).and_then(|at| fields.get(at)).map_or("", String::as_str);
    let value = |name: &str| Some(text(name)).filter(|text| !text.is_empty()).map_or(Value::Null, Value::from);
    // What is no number stays text, for the message.
    let number = |name: &str| {
        let parsed = text(name).parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number);
        parsed.unwrap_or_else(|| value(name))
    };
    Ok(Facts {
        id: value(layout.id),
        time: value("time"),
        updated: value("updated"),
        magnitude: number(layout.magnitude),
        magnitude_type: value("magtype"),
        place: value(layout.place),
        position: [number("longitude"), number("latitude"), number(layout.depth)],
        kind: value(layout.kind),
        status: value("status"),
    })
}

/// What a text that is none of the formats begins with.
pub(super) fn beginning(text: &str) -> String {
    match text.chars().next() {
        None => "an empty body".to_owned(),
        Some('<') => format!("an HTML page or XML: '{}'", excerpt(text)),
        Some(_) => format!("'{}'", excerpt(text)),
    }
}
