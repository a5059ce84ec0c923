//! Gives whole events, for a replay: every column that an [`Event`] has room for, by name.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use super::error::{BadRows, CatalogueError, Fault};
use super::header::{fields, unquoted};
use super::rows::Row;
use super::scan::{Scanner, magnitude};
use super::stamp::StampReader;
use super::{Query, Source, TimeFormat};
use crate::event::{Coordinates, Event, EventId, MAX_PLACE_CHARS};
use crate::plain::one_line;
use crate::time::Timestamp;

/// The places of the columns of an event, if the file has them.
#[derive(Clone, Debug, Default)]
struct Places {
    id: Option<usize>,
    updated: Option<usize>,
    magnitude: Option<usize>,
    magnitude_type: Option<usize>,
    place: Option<usize>,
    latitude: Option<usize>,
    longitude: Option<usize>,
    depth: Option<usize>,
    kind: Option<usize>,
    status: Option<usize>,
}

/// The matching events of one input, in its order.
pub struct Events<'q, R> {
    scanner: Scanner<'q, R>,
    places: Places,
    /// Reads the times of the updates.
    stamps: StampReader,
}

impl<'q, R: Read> Events<'q, R> {
    /// Reads the header of `input`, which messages call `file`. Needs the columns that the query needs; of the others:
    /// without an id an event is called `line-7` after its line, without coordinates it is at 0, 0 (see
    /// [`Events::has_coordinates`]), without a type it is an earthquake.
    ///
    /// # Errors
    /// [`CatalogueError`] if the input cannot be read, is no catalogue or lacks a needed column.
    pub fn open(input: R, file: &str, query: &'q Query) -> Result<Events<'q, R>, CatalogueError> {
        let scanner = Scanner::open(input, file, query)?;
        let find = |name| scanner.columns().find(name);
        let places = Places {
            id: find("id"),
            updated: find("updated"),
            magnitude: find("mag"),
            magnitude_type: find("magType"),
            place: find("place"),
            latitude: find("latitude"),
            longitude: find("longitude"),
            depth: find("depth"),
            kind: find("type"),
            status: find("status"),
        };
        Ok(Events { scanner, places, stamps: StampReader::new(TimeFormat::Rfc3339) })
    }

    /// Whether the events have a place on the globe: an interest in a region makes no sense without.
    #[must_use]
    pub const fn has_coordinates(&self) -> bool {
        self.places.latitude.is_some() && self.places.longitude.is_some()
    }

    /// Whether the events have ids of their own.
    #[must_use]
    pub const fn has_ids(&self) -> bool {
        self.places.id.is_some()
    }

    /// The rows skipped so far.
    #[must_use]
    pub const fn bad_rows(&self) -> &BadRows {
        &self.scanner.skipped
    }

    fn next_event(&mut self) -> Result<Option<Event>, CatalogueError> {
        while let Some((row, origin_at)) = self.scanner.next_match()? {
            match event(&self.places, &mut self.stamps, &self.scanner, &row, origin_at) {
                Ok(event) => return Ok(Some(event)),
                Err(fault) => self.scanner.refuse(self.scanner.line_of(&row), fault)?,
            }
        }
        Ok(None)
    }
}

impl<R: Read> Iterator for Events<'_, R> {
    type Item = Result<Event, CatalogueError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_event().transpose()
    }
}

/// The newest events of a catalogue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Newest {
    /// Oldest first, those of one instant in reading order.
    pub events: Vec<Event>,
    /// Whether there were older ones, which were left out.
    pub left_out: bool,
    pub bad_rows: BadRows,
}

/// Every matching event of the inputs, oldest first, those of one instant in reading order. An id that several inputs have
/// counts in the first of them.
///
/// # Errors
/// As [`Events::open`], and for the first bad row unless the query skips them.
pub fn read_events(sources: &mut [Source], query: &Query) -> Result<(Vec<Event>, BadRows), CatalogueError> {
    let read = read_newest_events(sources, query, usize::MAX)?;
    Ok((read.events, read.bad_rows))
}

/// The same, and never more than the newest `most` events, however large the inputs are: while reading, twice as many are held.
///
/// # Errors
/// As [`read_events`].
pub fn read_newest_events(sources: &mut [Source], query: &Query, most: usize) -> Result<Newest, CatalogueError> {
    let several = sources.len() > 1;
    let mut first_source = HashMap::new();
    let mut read = Newest::default();
    for (number, source) in sources.iter_mut().enumerate() {
        let name = source.name();
        let mut events = Events::open(source.open()?, &name, query)?;
        while let Some(event) = events.next_event()? {
            let counts = !several || events.places.id.is_none();
            if counts || *first_source.entry(event.id.clone()).or_insert(number) == number {
                read.events.push(event);
            }
            if read.events.len() >= most.saturating_mul(2).max(1) {
                read.keep_newest(most);
                // Whatever is read again of what was left out is older than what is kept as well.
                let kept: HashSet<&EventId> = read.events.iter().map(|event| &event.id).collect();
                first_source.retain(|id, _| kept.contains(id));
            }
        }
        read.bad_rows.append(events.scanner.skipped);
    }
    read.keep_newest(most);
    Ok(read)
}

impl Newest {
    fn keep_newest(&mut self, most: usize) {
        self.events.sort_by_key(|event| event.origin_at);
        let older = self.events.len().saturating_sub(most);
        self.left_out |= older > 0;
        self.events.drain(..older);
    }
}

fn event<R: Read>(
    places: &Places,
    stamps: &mut StampReader,
    scanner: &Scanner<'_, R>,
    row: &Row,
    origin_at: Timestamp,
) -> Result<Event, Fault> {
    let values: Vec<_> = fields(scanner.bytes(row)).map(unquoted).collect();
    let value = |place: Option<usize>| place.and_then(|index| values.get(index)).map_or(&b""[..], |value| value);
    let text = |place| String::from_utf8_lossy(value(place)).into_owned();
    let given = |place| Some(text(place)).filter(|text| !text.is_empty());

    let id: EventId = match given(places.id) {
        Some(id) => id.parse().map_err(|_| Fault::value("id", id.as_bytes(), "an event id: expected letters and digits"))?,
        None => format!("line-{}", scanner.line_of(row)).parse().map_err(|_| Fault::value("id", b"", "an event id"))?,
    };
    let updated_at = match value(places.updated) {
        b"" => None,
        updated => Some(stamps.read(updated).ok_or_else(|| Fault::value("updated", updated, TimeFormat::Rfc3339.expected()))?),
    };
    let degrees = |place, name, limit: f64, expected| match (place, number(value(place))) {
        (None, _) => Ok(0.0),
        (_, Some(degrees)) if degrees.abs() <= limit => Ok(degrees),
        _ => Err(Fault::value(name, value(place), expected)),
    };
    let latitude = degrees(places.latitude, "latitude", 90.0, "a latitude: expected -90 to 90 degrees")?;
    let longitude = degrees(places.longitude, "longitude", 180.0, "a longitude: expected -180 to 180 degrees")?;
    let coordinates = Coordinates::new(latitude, longitude)
        .map_err(|_| Fault::value("latitude", value(places.latitude), "a place on the globe"))?;
    let depth_km = match value(places.depth) {
        b"" => None,
        depth => Some(number(depth).ok_or_else(|| Fault::value("depth", depth, "a depth: expected kilometres"))?),
    };
    Ok(Event {
        ids: vec![id.clone()],
        id,
        origin_at,
        updated_at,
        magnitude: magnitude(value(places.magnitude))?,
        magnitude_type: given(places.magnitude_type),
        place: one_line(&text(places.place), MAX_PLACE_CHARS),
        coordinates,
        depth_km,
        kind: given(places.kind).unwrap_or_else(|| "earthquake".to_owned()),
        status: text(places.status).to_ascii_lowercase(),
        tsunami: false,
        pager: None,
        url: None,
    })
}

/// A finite number.
fn number(field: &[u8]) -> Option<f64> {
    std::str::from_utf8(field).ok()?.parse().ok().filter(|number: &f64| number.is_finite())
}
