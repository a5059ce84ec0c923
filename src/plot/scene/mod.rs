//! The scene: what limiters or subscribers made of the same events, above each other on one time axis. This file holds what is
//! shown, and takes it from a replay; `stored` from that of a subscriber, `recorded` from what was recorded; `draw` lays it out, `marks` draws the events.

mod draw;
mod marks;
mod recorded;
mod stored;

pub use marks::MAX_SINGLE_MARKS;

use super::axis::number;
use super::level::LevelLine;
use crate::event::{Event, Magnitude};
use crate::limiter::{CounterRule, Limit, Limiter, Request, Verdict};
use crate::replay::{Replayed, Step, replay_each};
use crate::time::{Span, Timestamp};
use crate::words::count;

pub use recorded::{Left, Recorded};

/// Limiters side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub title: String,
    /// One line below the title.
    pub subtitle: String,
    /// Where the time axis begins.
    pub from: Timestamp,
    /// Where it ends; what lies outside is not shown.
    pub to: Timestamp,
    pub rows: Vec<Row>,
}

/// What one limiter did.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What the row is called: the limit, or a subscriber's name.
    pub name: String,
    pub limit: Limit,
    /// The promise, in a sentence.
    pub promise: String,
    /// The most that it lets pass within one window; `None` where there is no such number, because some events always pass.
    pub most_in_any_window: Option<u64>,
    /// In order of time.
    pub decisions: Vec<Mark>,
    /// The stretch of one window in which most passed.
    pub busiest: Option<BusiestWindow>,
    /// The corners of the line of what was left in the bucket, in order of time; empty for limiters without.
    pub level: Vec<(Timestamp, f64)>,
}

/// One event and its decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub at: Timestamp,
    pub magnitude: Option<Magnitude>,
    /// What the event is called.
    pub title: String,
    pub id: String,
    pub fate: Fate,
    /// When its alert left, if one did: later than `at` where it waited.
    pub departs_at: Timestamp,
    /// Why it passed or not, and what would come next.
    pub why: String,
}

/// What became of an event: the first two before a limiter, the others for a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    Passed,
    Refused,
    /// An alert left at once.
    Alerted,
    /// An alert left after it had waited for its turn.
    Delayed,
    /// A digest told of it.
    Digested,
    /// The ledger alone tells of it.
    Withheld,
}

impl Fate {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Fate; 6] = [Fate::Passed, Fate::Refused, Fate::Alerted, Fate::Delayed, Fate::Digested, Fate::Withheld];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Fate::Passed => "passed",
            Fate::Refused => "refused",
            Fate::Alerted => "alerted at once",
            Fate::Delayed => "delayed",
            Fate::Digested => "digested",
            Fate::Withheld => "withheld",
        }
    }

    /// The class of its colour.
    pub(in crate::plot) const fn class(self) -> &'static str {
        match self {
            Fate::Passed | Fate::Alerted => "passed",
            Fate::Refused | Fate::Withheld => "refused",
            Fate::Delayed => "delayed",
            Fate::Digested => "digested",
        }
    }
}

/// The most that passed within one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusiestWindow {
    pub from: Timestamp,
    /// Exclusive.
    pub to: Timestamp,
    pub count: u64,
}

/// Events, in order of origin, over the stretch of time that a picture of them shows.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'e> {
    pub events: &'e [Event],
    pub from: Timestamp,
    pub to: Timestamp,
}

impl<'e> Stretch<'e> {
    /// From the first to the last event, or what was asked for where that is further; `None` without events.
    #[must_use]
    pub fn of(events: &'e [Event], from: Option<Timestamp>, to: Option<Timestamp>) -> Option<Stretch<'e>> {
        let (first, last) = (events.first()?.origin_at, events.last()?.origin_at);
        Some(Stretch { events, from: from.map_or(first, |from| from.min(first)), to: to.map_or(last, |to| to.max(last)) })
    }
}

impl Scene {
    /// What limiters or subscribers made of a catalogue's events, said with `what`.
    #[must_use]
    pub fn of_catalogue(what: &str, stretch: &Stretch<'_>, rows: Vec<Row>) -> Scene {
        let to_the_minute = |at: Timestamp| at.to_utc().format("%Y-%m-%d %H:%M").to_string();
        let (from, to) = (to_the_minute(stretch.from), to_the_minute(stretch.to));
        Scene {
            title: format!("{} events, and {what}", count(stretch.events.len() as u64)),
            subtitle: format!("{from} to {to} UTC, each event at its origin time with its last magnitude"),
            from: stretch.from,
            to: stretch.to,
            rows,
        }
    }
}

impl Row {
    /// What a limiter that starts full makes of the events, as a row and in numbers.
    #[must_use]
    pub fn replay<'e>(limit: Limit, stretch: &Stretch<'e>) -> (Row, Replayed<'e>) {
        Row::replay_with(limit, stretch, |step| (step.event.title(), step.event.id.to_string(), why(step)))
    }

    /// The same without the words that each mark has, for pictures that do not show them: a fraction of the work and of the memory.
    #[must_use]
    pub fn replay_without_words<'e>(limit: Limit, stretch: &Stretch<'e>) -> (Row, Replayed<'e>) {
        Row::replay_with(limit, stretch, |_| (String::new(), String::new(), String::new()))
    }

    /// `words` gives the title, the id and the reason of a decision.
    fn replay_with<'e>(
        limit: Limit,
        stretch: &Stretch<'e>,
        words: impl Fn(&Step<'e, '_>) -> (String, String, String),
    ) -> (Row, Replayed<'e>) {
        let mut line = limit.bucket().map(|bucket| LevelLine::new(bucket, stretch.from));
        let mut decisions = Vec::with_capacity(stretch.events.len());
        let result = replay_each(limit, stretch.events, |step| {
            let admitted = step.verdict == Verdict::Admitted;
            if let Some(line) = &mut line {
                line.decided(step.event.origin_at, u32::from(admitted), step.limiter);
            }
            let (title, id, why) = words(&step);
            decisions.push(Mark {
                at: step.event.origin_at,
                magnitude: step.event.magnitude,
                title,
                id,
                fate: if admitted { Fate::Passed } else { Fate::Refused },
                departs_at: step.departs_at,
                why,
            });
        });
        let busiest = result.busiest_from.map(|from| BusiestWindow::new(from, limit, result.busiest_window));
        let level = line.map_or_else(Vec::new, |line| line.finish(stretch.to));
        let promise = limit.promise();
        let most_in_any_window = Some(promise.most_in_any_window);
        let row = Row { name: named(limit), limit, promise: promise.to_string(), most_in_any_window, decisions, busiest, level };
        (row, result)
    }

    /// How many had this fate.
    #[must_use]
    pub fn count(&self, fate: Fate) -> usize {
        self.decisions.iter().filter(|mark| mark.fate == fate).count()
    }

    /// `120 of 189 passed, 69 refused`.
    #[must_use]
    pub fn counts(&self) -> String {
        let written = |count: usize| number(count as f64, 1.0);
        let there = |fate: &Fate| self.count(*fate) > 0 || matches!(fate, Fate::Alerted | Fate::Withheld);
        let of_subscriber = self.decisions.iter().any(|mark| !matches!(mark.fate, Fate::Passed | Fate::Refused));
        if of_subscriber {
            let fates = Fate::ALL.into_iter().filter(there).map(|fate| format!("{} {}", written(self.count(fate)), fate.name()));
            return format!("of {}: {}", written(self.decisions.len()), fates.collect::<Vec<_>>().join(", "));
        }
        let (offered, passed) = (self.decisions.len(), self.count(Fate::Passed));
        format!("{} of {} passed, {} refused", written(passed), written(offered), written(offered - passed))
    }
}

impl BusiestWindow {
    fn new(from: Timestamp, limit: Limit, count: u64) -> BusiestWindow {
        BusiestWindow { from, to: from.plus(limit.rate().window()), count }
    }
}

/// `token-bucket 5/h, bucket 74`.
fn named(limit: Limit) -> String {
    let rule = if limit.rule() == CounterRule::default() { String::new() } else { format!(" ({})", limit.rule()) };
    let bucket = limit.bucket().map_or_else(String::new, |bucket| format!(", bucket {bucket}"));
    format!("{} {}{rule}{bucket}", limit.algorithm(), limit.rate())
}

/// The reason of a decision for people.
fn why(step: &Step<'_, '_>) -> String {
    let now = step.event.origin_at;
    let outlook = step.limiter.outlook(now, Request::ONE);
    let limit = step.limiter.limit();
    if step.verdict == Verdict::Admitted {
        let wait = step.departs_at.since(now);
        if wait > Span::ZERO {
            return format!("passed, and left in its turn at {}", step.departs_at);
        }
        return match outlook.remaining {
            0 => "passed, with room for no other".to_owned(),
            more => format!("passed, with room for {more} more"),
        };
    }
    let reason = match step.limiter {
        Limiter::FixedWindow(_) => format!("{} had passed in this clock window", limit.rate().limit()),
        Limiter::SlidingLog(_) => format!("{} had passed within {}", limit.rate().limit(), limit.rate().window()),
        Limiter::SlidingCounter(_) => "the estimate had reached the limit".to_owned(),
        Limiter::TokenBucket(_) => "less than one token was left".to_owned(),
        Limiter::LeakyBucket(_) => "the queue was full".to_owned(),
    };
    let next = outlook.retry_at.map_or_else(String::new, |at| format!("; room again at {at}"));
    format!("refused: {reason}{next}")
}
