//! How a replay shows where a limit hurt: in a cell of a table and in JSON.

use serde_json::{Value, json};

use crate::cli::output;
use crate::event::Event;
use crate::time::Timestamp;

/// The longest time without a message.
pub(super) fn silence(longest: Option<(Timestamp, Timestamp)>) -> String {
    longest.map_or_else(none, |(from, to)| output::duration(to.since(from)))
}

/// The day on which most was refused, and how many.
pub(super) fn worst_day(days: &[(Timestamp, u64)]) -> String {
    days.first().map_or_else(none, |(day, refused)| format!("{} ({})", date(*day), output::count(*refused)))
}

/// The largest event that was refused: its magnitude and its time.
pub(super) fn largest(refused: Option<&Event>) -> String {
    let magnitude = |event: &Event| event.magnitude.map_or_else(|| "?".to_owned(), |magnitude| magnitude.to_string());
    refused.map_or_else(none, |event| format!("M {} at {}", magnitude(event), event.origin_at))
}

pub(super) fn silence_as_json(longest: Option<(Timestamp, Timestamp)>) -> Value {
    let silence =
        |(from, to): (Timestamp, Timestamp)| json!({ "from": from, "to": to, "duration_s": output::seconds(to.since(from)) });
    longest.map_or(Value::Null, silence)
}

pub(super) fn days_as_json(days: &[(Timestamp, u64)]) -> Value {
    days.iter().map(|(day, refused)| json!({ "day": date(*day), "refused": refused })).collect()
}

fn date(day: Timestamp) -> String {
    day.to_string().chars().take_while(|c| *c != 'T').collect()
}

fn none() -> String {
    "-".to_owned()
}
