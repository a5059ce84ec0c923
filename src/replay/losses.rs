//! Where a limit hurts: the days on which it refused most, and the longest time without a message.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::time::{TICKS_PER_SECOND, Timestamp};

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
