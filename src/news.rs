//! Whether an event seen for the first time can be news: not what was there before us, not the past, not the future.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::event::{Event, Magnitude};
use crate::identity::unlinked::{Likeness, networks};
use crate::time::{Span, Timestamp};

/// An origin up to this far ahead of our clock is a difference of clocks, not a mistake.
pub const CLOCK_TOLERANCE: Span = Span::from_seconds(300);

/// The status of an event that nobody has looked at.
const AUTOMATIC: &str = "automatic";

/// What to do with the feed's content at the very first poll of a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FirstRun {
    /// It is taken as known: nobody is alerted of what was there before.
    #[default]
    Baseline,
    /// It is news.
    Alert,
}

/// Which events are recorded, and which of them can be news.
#[derive(Clone, Copy, Debug)]
pub struct EventRules {
    /// Events below this magnitude (exclusive) are recorded only once they are known.
    pub min_magnitude: Magnitude,
    /// An event first seen later than this after its origin (exclusive) is recorded, never alerted; nor is a later revision.
    pub max_age: Span,
    pub first_run: FirstRun,
    /// Which sightings without a common id are of one quake.
    pub likeness: Likeness,
    /// Which events await confirmation; `None`: none does.
    pub confirm: Option<Confirmation>,
}

/// Which events one network's automatic solution does not make believable, and how long they wait for better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Confirmation {
    /// This magnitude or more.
    pub from: Magnitude,
    pub wait: Span,
}

/// How sure it is that an event is what is said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// As sure as events are.
    Sure,
    /// Nobody is asked before it is confirmed, or until then.
    Awaited { until: Timestamp },
    /// It was not confirmed in time.
    Unconfirmed,
}

/// What becomes of an event before any subscriber is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Subscribers are asked.
    Open,
    /// It was there at the first start; subscribers are asked only about what a revision makes of it.
    Baseline,
    /// Too old when first seen: recorded, never alerted.
    TooOld,
    /// Its origin lies ahead: recorded, and not alerted unless a revision brings it into the present.
    Future,
    /// It turned out to be another known event.
    Merged,
}

impl EventRules {
    /// Whether an event that is not known yet is recorded.
    #[must_use]
    pub fn records(&self, event: &Event) -> bool {
        event.magnitude.is_some_and(|magnitude| magnitude >= self.min_magnitude)
    }

    /// The fate of a known event after a revision: only what lay in the future is judged anew.
    #[must_use]
    pub fn revised(&self, known: Fate, event: &Event, now: Timestamp) -> Fate {
        if known == Fate::Future { self.fate(event, false, now) } else { known }
    }

    /// Whether subscribers are asked about a revision: not about one that comes too long after the origin.
    #[must_use]
    pub fn asks(&self, fate: Fate, event: &Event, now: Timestamp) -> bool {
        fate.may_be_news() && now.since(event.origin_at) <= self.max_age
    }

    /// How sure an event is at `now`, given how sure it was and what was known of it, if anything was, and whether another
    /// network knows the quake. What was believed at a magnitude that awaits confirmation stays believed.
    #[must_use]
    pub fn confidence(
        &self,
        before: Option<(Confidence, &Event)>,
        event: &Event,
        known_to_others: bool,
        now: Timestamp,
    ) -> Confidence {
        let Some(Confirmation { from, wait }) = self.confirm else { return Confidence::Sure };
        let large = |event: &Event| event.magnitude.is_some_and(|magnitude| magnitude >= from);
        if known_to_others || !large(event) || event.status != AUTOMATIC || networks(event).len() > 1 {
            return Confidence::Sure;
        }
        match before {
            Some((Confidence::Sure, known)) if large(known) => Confidence::Sure,
            Some((Confidence::Sure, _)) | None => Confidence::Awaited { until: now.plus(wait) },
            Some((confidence, _)) => confidence,
        }
    }

    /// The fate of an event first seen at `now`, at the very first poll or later.
    #[must_use]
    pub fn fate(&self, event: &Event, first_poll: bool, now: Timestamp) -> Fate {
        if first_poll && self.first_run == FirstRun::Baseline {
            Fate::Baseline
        } else if event.origin_at > now.plus(CLOCK_TOLERANCE) {
            Fate::Future
        } else if now.since(event.origin_at) > self.max_age {
            Fate::TooOld
        } else {
            Fate::Open
        }
    }
}

impl Fate {
    const ALL: [(Fate, &'static str); 5] = [
        (Fate::Open, "open"),
        (Fate::Baseline, "baseline"),
        (Fate::TooOld, "too-old"),
        (Fate::Future, "future"),
        (Fate::Merged, "merged"),
    ];

    /// Whether a revision can be news.
    #[must_use]
    pub fn may_be_news(self) -> bool {
        matches!(self, Fate::Open | Fate::Baseline)
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, name) = Fate::ALL.into_iter().find(|(fate, _)| fate == self).unwrap_or(Fate::ALL[0]);
        f.pad(name)
    }
}

impl FromStr for Fate {
    type Err = String;

    fn from_str(text: &str) -> Result<Fate, String> {
        let found = Fate::ALL.into_iter().find(|(_, name)| *name == text);
        found.map(|(fate, _)| fate).ok_or_else(|| format!("unknown fate '{text}'"))
    }
}
