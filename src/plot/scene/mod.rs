//! The scene: what limiters made of the same events, above each other on one time axis. This file holds what is shown,
//! and takes it from a replay; `draw` lays it out, `marks` draws the events.

mod draw;
mod marks;

pub(super) use draw::{Detail, axis_at, legend_at, row_at};

use super::level::LevelLine;
use crate::event::{Event, Magnitude};
use crate::limiter::{Algorithm, CounterRule, Limit, Limiter, Request, Verdict};
use crate::replay::{Replayed, Step, replay_each};
use crate::time::{Span, Timestamp};

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
    pub passed: bool,
    /// When its alert left, if it passed: later than `at` where it waited.
    pub departs_at: Timestamp,
    /// Why it passed or not, and what would come next.
    pub why: String,
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

impl Row {
    /// What a limiter that starts full makes of the events, as a row and in numbers.
    #[must_use]
    pub fn replay<'e>(limit: Limit, stretch: &Stretch<'e>) -> (Row, Replayed<'e>) {
        let mut line = limit.bucket().map(|bucket| LevelLine::new(bucket, stretch.from));
        let mut decisions = Vec::with_capacity(stretch.events.len());
        let result = replay_each(limit, stretch.events, |step| {
            let admitted = step.verdict == Verdict::Admitted;
            if let Some(line) = &mut line {
                line.decided(step.event.origin_at, admitted, step.limiter);
            }
            decisions.push(Mark {
                at: step.event.origin_at,
                magnitude: step.event.magnitude,
                title: step.event.title(),
                id: step.event.id.to_string(),
                passed: admitted,
                departs_at: step.departs_at,
                why: why(&step),
            });
        });
        let busiest = result.busiest_from.map(|from| {
            let to = from.plus(limit.rate().window());
            BusiestWindow { from, to, count: result.busiest_window }
        });
        let level = line.map_or_else(Vec::new, |line| line.finish(stretch.to));
        let row = Row { name: named(limit), limit, promise: limit.promise().to_string(), decisions, busiest, level };
        (row, result)
    }

    /// How many passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.decisions.iter().filter(|mark| mark.passed).count()
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

/// What is left in the bucket: a short word, because the axis is.
fn level_name(algorithm: Algorithm) -> &'static str {
    if algorithm == Algorithm::LeakyBucket { "places" } else { "tokens" }
}
