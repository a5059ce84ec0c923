//! Where a limit hurts: the days on which it refused most, and the longest time without a message; and how both are told.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::event::Event;
use crate::time::{TICKS_PER_SECOND, Timestamp};
use crate::words::{count, duration};

/// Ticks of one UTC day.
const DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// How many of the worst days are told.
const WORST_DAYS: usize = 3;

/// How much was refused on each UTC day.
#[derive(Debug, Default)]
pub(super) struct RefusedOn(BTreeMap<i64, u64>);

impl RefusedOn {
    /// One was refused at `now`.
    pub(super) fn count(&mut self, now: Timestamp) {
        *self.0.entry(now.ticks().div_euclid(DAY)).or_default() += 1;
    }

    /// The days on which most was refused, by their beginning, most first, the earliest among equals.
    pub(super) fn worst(self) -> Vec<(Timestamp, u64)> {
        let mut days: Vec<(i64, u64)> = self.0.into_iter().collect();
        days.sort_by_key(|(day, count)| (Reverse(*count), *day));
        let start = |day: i64| Timestamp::saturating_from_ticks(i128::from(day) * i128::from(DAY));
        days.into_iter().take(WORST_DAYS).map(|(day, count)| (start(day), count)).collect()
    }
}

/// The longest time between two of the ascending instants: from, to. `None` for fewer than two.
pub(super) fn longest_silence(ascending: &[Timestamp]) -> Option<(Timestamp, Timestamp)> {
    let silences = ascending.windows(2).map(|pair| (pair[0], pair[1]));
    // The first among equals.
    silences.rev().max_by_key(|(from, to)| to.since(*from))
}

/// The longest time without a message, for people.
#[must_use]
pub fn silence(longest: Option<(Timestamp, Timestamp)>) -> String {
    longest.map_or_else(none, |(from, to)| duration(to.since(from)))
}

/// The day on which most was refused, and how many, for people.
#[must_use]
pub fn worst_day(days: &[(Timestamp, u64)]) -> String {
    days.first().map_or_else(none, |(day, refused)| format!("{} ({})", date(*day), count(*refused)))
}

/// The largest event that was refused, for people: its magnitude and its time.
#[must_use]
pub fn largest(refused: Option<&Event>) -> String {
    let magnitude = |event: &Event| event.magnitude.map_or_else(|| "?".to_owned(), |magnitude| magnitude.to_string());
    refused.map_or_else(none, |event| format!("M {} at {}", magnitude(event), event.origin_at))
}

/// The date of a day that begins at this instant.
#[must_use]
pub fn date(day: Timestamp) -> String {
    day.to_string().chars().take_while(|c| *c != 'T').collect()
}

fn none() -> String {
    "-".to_owned()
}
