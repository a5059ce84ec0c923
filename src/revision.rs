//! What of a later version of an event is worth telling those who were told of an earlier one.

use crate::event::{Event, Magnitude, PagerLevel};
use crate::identity::{Change, changes};
use crate::interest::{MEAN_EARTH_RADIUS_KM, distance_km};
use crate::subscriber::Updates;

/// A magnitude that differs by this (inclusive) is a major change.
pub const MAJOR_MAGNITUDE: f64 = 0.5;
/// A place that differs by this many degrees along a great circle (inclusive) is a major change.
pub const MAJOR_DEGREES: f64 = 0.5;

/// What of `known` a reader who was told of `told` sees to be different, if a subscriber with this wish is to be told of it;
/// else nothing.
#[must_use]
pub fn worth_telling(updates: Updates, told: &Event, known: &Event) -> Vec<Change> {
    let seen = visible(told, known);
    match updates {
        Updates::All => seen,
        Updates::Major if is_major(told, known) => seen,
        Updates::Major | Updates::None => Vec::new(),
    }
}

/// What a reader sees to be different, at the precision in which messages show it.
#[must_use]
pub fn visible(told: &Event, known: &Event) -> Vec<Change> {
    let differs = |change: &Change| match change {
        Change::PreferredId | Change::Ids => false,
        Change::Status => told.is_withdrawn() != known.is_withdrawn(),
        other => in_words(*other, told) != in_words(*other, known),
    };
    changes(told, known).into_iter().filter(differs).collect()
}

/// Whether the difference matters to everybody: a magnitude or a place that is far off, expected harm or a tsunami flag that
/// was not told of, another kind of event, or one that was withdrawn and is back.
#[must_use]
pub fn is_major(told: &Event, known: &Event) -> bool {
    let magnitude = match (told.magnitude, known.magnitude) {
        (Some(a), Some(b)) => hundredths(a).abs_diff(hundredths(b)) >= hundredths_of(MAJOR_MAGNITUDE).unsigned_abs(),
        (a, b) => a.is_some() != b.is_some(),
    };
    let degrees = (distance_km(told.coordinates, known.coordinates) / MEAN_EARTH_RADIUS_KM).to_degrees();
    // Green says that little harm is expected, as does no level at all.
    let harm = |event: &Event| event.pager.filter(|level| *level > PagerLevel::Green);
    magnitude
        // A hair less than half a degree is half a degree that was rounded.
        || degrees >= MAJOR_DEGREES - 1e-9
        || harm(known) > harm(told)
        || (known.tsunami && !told.tsunami)
        || known.kind != told.kind
        || known.is_withdrawn() != told.is_withdrawn()
}

/// What was told of this and what is known, in a few words; of the place, what differs of name and coordinates.
#[must_use]
pub fn before_and_after(what: Change, told: &Event, known: &Event) -> (String, String) {
    let both = |words: fn(&Event) -> String| (words(told), words(known));
    match what {
        Change::Place if told.place == known.place => both(coordinates),
        Change::Place if coordinates(told) == coordinates(known) => both(place),
        other => (in_words(other, told), in_words(other, known)),
    }
}

fn place(event: &Event) -> String {
    if event.place.is_empty() { "unnamed place".to_owned() } else { event.place.clone() }
}

fn coordinates(event: &Event) -> String {
    format!("{:.3}, {:.3}", event.coordinates.latitude(), event.coordinates.longitude())
}

/// What the event's page says of this, in a few words.
fn in_words(what: Change, event: &Event) -> String {
    match what {
        Change::Magnitude => {
            let magnitude = event.magnitude.map_or_else(|| "unknown".to_owned(), |m| m.to_string());
            let scale = event.magnitude_type.as_deref().filter(|scale| !scale.is_empty());
            scale.map_or(magnitude.clone(), |scale| format!("{magnitude} ({scale})"))
        }
        Change::Place => format!("{} ({})", place(event), coordinates(event)),
        Change::Origin => event.origin_at.to_utc().format("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Change::Depth => event.depth_km.map_or_else(|| "unknown".to_owned(), |km| format!("{km:.1} km")),
        Change::Pager => event.pager.map_or_else(|| "none".to_owned(), |level| level.to_string()),
        Change::Tsunami => (if event.tsunami { "flagged" } else { "not flagged" }).to_owned(),
        Change::Kind => event.kind.clone(),
        Change::Status if event.is_withdrawn() => "withdrawn".to_owned(),
        Change::Status => event.status.clone(),
        Change::PreferredId => event.id.to_string(),
        Change::Ids => event.ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

/// In hundredths, so that 5.7 and 5.2 are exactly half a magnitude apart.
fn hundredths(magnitude: Magnitude) -> i64 {
    hundredths_of(magnitude.value())
}

#[expect(clippy::cast_possible_truncation, reason = "a magnitude is within ±12")]
fn hundredths_of(value: f64) -> i64 {
    (value * 100.0).round() as i64
}
