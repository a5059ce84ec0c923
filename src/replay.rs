//! The replay: what a limiter would have done on historic days, each event decided at its origin time.

mod comparison;
pub mod losses;
mod stored;
mod tally;

pub use comparison::{Comparison, table};
pub use stored::{StoredStep, replay_stored, replay_stored_each};
pub use tally::{StoredReplay, Tally};

use losses::{RefusedOn, longest_silence};

use crate::event::Event;
use crate::limiter::{Limit, Limiter, Request, Verdict};
use crate::time::{Span, Timestamp};

/// What one limiter did.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed<'e> {
    pub limit: Limit,
    pub admitted: u64,
    pub refused: u64,
    /// The most admissions in any half-open stretch of the rate's window; for the leaky bucket the most departures, exactly.
    pub busiest_window: u64,
    /// When the first such stretch begins, to a tick: with the first of those that it holds.
    pub busiest_from: Option<Timestamp>,
    /// The largest that was refused, the first among equals.
    pub largest_refused: Option<&'e Event>,
    /// The longest time between two admissions, for the leaky bucket between two departures: from, to.
    pub longest_silence: Option<(Timestamp, Timestamp)>,
    /// The UTC days on which most was refused, by their beginning, with how many, most first.
    pub worst_days: Vec<(Timestamp, u64)>,
    /// For the leaky bucket: how many waited their turn, and how long at most, rounded up to a tick.
    pub waits: Option<Waits>,
}

/// How admitted events waited in the leaky bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub delayed: u64,
    pub longest: Span,
}

/// What a limiter made of one event.
#[derive(Clone, Copy, Debug)]
pub struct Step<'e, 'l> {
    pub event: &'e Event,
    pub verdict: Verdict,
    /// When what was admitted leaves: at its origin, or when its turn comes in the leaky bucket, rounded up to a tick.
    pub departs_at: Timestamp,
    /// The limiter after its decision.
    pub limiter: &'l Limiter,
}

/// Asks a limiter that starts full about each event in turn. `events` are in order of origin.
#[must_use]
pub fn replay(limit: Limit, events: &[Event]) -> Replayed<'_> {
    replay_each(limit, events, |_| {})
}

/// As [`replay`], and shows every decision.
pub fn replay_each<'e>(limit: Limit, events: &'e [Event], mut visit: impl FnMut(Step<'e, '_>)) -> Replayed<'e> {
    let mut limiter = Limiter::new(limit);
    let mut result = Replayed::new(limit);
    let mut refused_on = RefusedOn::default();
    let mut waits = Waits::default();
    // In ticks times the rate's n, so that departures between two ticks stay exact.
    let scale = i128::from(limit.rate().limit());
    let mut left_at: Vec<i128> = Vec::with_capacity(events.len());
    for event in events {
        let now = event.origin_at;
        let arrived = i128::from(now.ticks()) * scale;
        let leaves = match &limiter {
            Limiter::LeakyBucket(queue) => queue.departure(now).scaled,
            _ => arrived,
        };
        let verdict = limiter.admit(now, Request::ONE);
        if verdict == Verdict::Admitted {
            result.admitted += 1;
            left_at.push(leaves);
            if leaves > arrived {
                waits.delayed += 1;
                waits.longest = waits.longest.max(wait(leaves - arrived, scale));
            }
        } else {
            result.refused += 1;
            refused_on.count(now);
            if result.largest_refused.is_none_or(|largest| event.magnitude > largest.magnitude) {
                result.largest_refused = Some(event);
            }
        }
        visit(Step { event, verdict, departs_at: now.plus(wait(leaves - arrived, scale)), limiter: &limiter });
    }
    if let Some((first, count)) = busiest_stretch(&left_at, i128::from(limit.rate().window().ticks()) * scale) {
        result.busiest_window = count;
        result.busiest_from = Some(Timestamp::saturating_from_ticks(left_at[first].div_euclid(scale)));
    }
    let left_at: Vec<Timestamp> =
        left_at.iter().map(|scaled| Timestamp::saturating_from_ticks(-(-scaled).div_euclid(scale))).collect();
    result.longest_silence = longest_silence(&left_at);
    result.worst_days = refused_on.worst();
    result.waits = matches!(limiter, Limiter::LeakyBucket(_)).then_some(waits);
    result
}

impl<'e> Replayed<'e> {
    /// Of a limiter that was asked nothing yet.
    fn new(limit: Limit) -> Replayed<'e> {
        Replayed {
            limit,
            admitted: 0,
            refused: 0,
            busiest_window: 0,
            busiest_from: None,
            largest_refused: None,
            longest_silence: None,
            worst_days: Vec::new(),
            waits: None,
        }
    }

    /// How many it was asked about.
    #[must_use]
    pub const fn offered(&self) -> u64 {
        self.admitted + self.refused
    }
}

fn wait(scaled: i128, scale: i128) -> Span {
    Span::from_ticks(u64::try_from((scaled + scale - 1) / scale).unwrap_or(u64::MAX))
}

/// The most of the ascending instants that lie in any stretch `[t, t + window)`.
#[must_use]
pub fn busiest_window(ascending: &[i128], window: i128) -> u64 {
    busiest_stretch(ascending, window).map_or(0, |(_, count)| count)
}

/// The first of those stretches: the index of its first instant, and how many it holds. `None` without instants.
pub(crate) fn busiest_stretch(ascending: &[i128], window: i128) -> Option<(usize, u64)> {
    let mut first = 0;
    let mut busiest: Option<(usize, usize)> = None;
    for (last, at) in ascending.iter().enumerate() {
        while ascending[first] + window <= *at {
            first += 1;
        }
        let count = last - first + 1;
        if busiest.is_none_or(|(_, most)| count > most) {
            busiest = Some((first, count));
        }
    }
    busiest.map(|(first, count)| (first, count as u64))
}
