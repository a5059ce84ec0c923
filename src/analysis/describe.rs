//! What a catalogue holds, one event after the other as it stands there.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use crate::event::{Event, EventId, Magnitude};
use crate::time::{Span, Timestamp};

/// How many of the longest silences are told.
pub const SHOWN_GAPS: usize = 3;
/// How many types are told apart; the others count as one.
pub const MAX_KINDS: usize = 100;
/// What the types beyond [`MAX_KINDS`] are called.
const OTHER_KINDS: &str = "(others)";

/// What a catalogue holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    pub events: u64,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    pub order: Order,
    /// Events whose id stands before already; `None` without ids.
    pub duplicates: Option<u64>,
    pub without_magnitude: u64,
    pub least: Option<Magnitude>,
    /// The lower of the two in the middle where there are two.
    pub median: Option<Magnitude>,
    pub greatest: Option<Magnitude>,
    /// How many are from a whole number (inclusive) to the next (exclusive), ascending; only those that occur.
    pub by_unit: Vec<(i64, u64)>,
    /// The most frequent first.
    pub kinds: Vec<(String, u64)>,
    /// The longest times without any event, the longest first; at most `SHOWN_GAPS`.
    pub gaps: Vec<Gap>,
}

/// In which order the events stand, by origin time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All at one instant, or none.
    None,
    Ascending,
    Descending,
    Mixed,
}

/// From one event to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl Gap {
    /// How long.
    #[must_use]
    pub fn lasting(self) -> Span {
        self.to.since(self.from)
    }
}

/// Takes the events as they come.
#[derive(Debug)]
pub struct Describer {
    ids: Option<HashSet<EventId>>,
    duplicates: u64,
    times: Vec<Timestamp>,
    magnitudes: Vec<Magnitude>,
    kinds: BTreeMap<String, u64>,
    rises: bool,
    falls: bool,
}

impl Describer {
    /// A description of nothing yet. Without ids no duplicate is known.
    #[must_use]
    pub fn new(has_ids: bool) -> Describer {
        Describer {
            ids: has_ids.then(HashSet::new),
            duplicates: 0,
            times: Vec::new(),
            magnitudes: Vec::new(),
            kinds: BTreeMap::new(),
            rises: false,
            falls: false,
        }
    }

    /// The next event.
    pub fn add(&mut self, event: &Event) {
        if let Some(ids) = &mut self.ids {
            self.duplicates += u64::from(!ids.insert(event.id.clone()));
        }
        if let Some(before) = self.times.last() {
            self.rises |= event.origin_at > *before;
            self.falls |= event.origin_at < *before;
        }
        self.times.push(event.origin_at);
        self.magnitudes.extend(event.magnitude);
        let is_told = self.kinds.contains_key(&event.kind) || self.kinds.len() < MAX_KINDS;
        let kind = if is_told { &event.kind } else { OTHER_KINDS };
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
    }

    /// All of it.
    #[must_use]
    pub fn finish(mut self) -> Description {
        let order = match (self.rises, self.falls) {
            (false, false) => Order::None,
            (true, false) => Order::Ascending,
            (false, true) => Order::Descending,
            (true, true) => Order::Mixed,
        };
        self.times.sort_unstable();
        self.magnitudes.sort_unstable();
        let (times, magnitudes) = (&self.times, &self.magnitudes);
        let mut kinds: Vec<(String, u64)> = self.kinds.into_iter().collect();
        kinds.sort_by_key(|(_, events)| std::cmp::Reverse(*events));
        Description {
            events: times.len() as u64,
            first: times.first().copied(),
            last: times.last().copied(),
            order,
            duplicates: self.ids.map(|_| self.duplicates),
            without_magnitude: (times.len() - magnitudes.len()) as u64,
            least: magnitudes.first().copied(),
            median: magnitudes.get(magnitudes.len().saturating_sub(1) / 2).copied(),
            greatest: magnitudes.last().copied(),
            by_unit: by_unit(magnitudes),
            kinds,
            gaps: gaps(times),
        }
    }
}

fn by_unit(magnitudes: &[Magnitude]) -> Vec<(i64, u64)> {
    let mut units: BTreeMap<i64, u64> = BTreeMap::new();
    for magnitude in magnitudes {
        #[expect(clippy::cast_possible_truncation, reason = "a magnitude is from -10 to 12")]
        let unit = magnitude.value().floor() as i64;
        *units.entry(unit).or_default() += 1;
    }
    units.into_iter().collect()
}

/// The longest gaps between neighbours of a sorted list; of equal ones the earliest first.
fn gaps(times: &[Timestamp]) -> Vec<Gap> {
    let mut longest: Vec<Gap> = Vec::new();
    for pair in times.windows(2) {
        let gap = Gap { from: pair[0], to: pair[1] };
        let at = longest.partition_point(|other| other.lasting() >= gap.lasting());
        if at < SHOWN_GAPS && gap.lasting() > Span::ZERO {
            longest.insert(at, gap);
            longest.truncate(SHOWN_GAPS);
        }
    }
    longest
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Order::None => "none",
            Order::Ascending => "ascending",
            Order::Descending => "descending",
            Order::Mixed => "mixed",
        })
    }
}
