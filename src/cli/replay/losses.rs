//! How a replay shows where a limit hurt, in JSON.

use serde_json::{Value, json};

use crate::cli::output;
use crate::replay::losses::date;
use crate::time::Timestamp;

pub(super) fn silence_as_json(longest: Option<(Timestamp, Timestamp)>) -> Value {
    let silence =
        |(from, to): (Timestamp, Timestamp)| json!({ "from": from, "to": to, "duration_s": output::seconds(to.since(from)) });
    longest.map_or(Value::Null, silence)
}

pub(super) fn days_as_json(days: &[(Timestamp, u64)]) -> Value {
    days.iter().map(|(day, refused)| json!({ "day": date(*day), "refused": refused })).collect()
}
