//! The replay: what a limiter would have done on historic days, each event decided at its origin time.

mod stored;

pub use stored::{StoredReplay, replay_stored};

use crate::event::Event;
use crate::limiter::{Limit, Limiter, Request, Verdict};
use crate::time::Span;

/// What one limiter did.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed<'e> {
    pub limit: Limit,
    pub admitted: u64,
    pub refused: u64,
    /// The most admissions in any half-open stretch of the rate's window; for the leaky bucket the most departures, exactly.
    pub busiest_window: u64,
    /// The largest that was refused, the first among equals.
    pub largest_refused: Option<&'e Event>,
    /// For the leaky bucket: how many waited their turn, and how long at most, rounded up to a tick.
    pub waits: Option<Waits>,
}

/// How admitted events waited in the leaky bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub delayed: u64,
    pub longest: Span,
}

/// Asks a limiter that starts full about each event in turn. `events` are in order of origin.
#[must_use]
pub fn replay(limit: Limit, events: &[Event]) -> Replayed<'_> {
    let mut limiter = Limiter::new(limit);
    let mut result = Replayed { limit, admitted: 0, refused: 0, busiest_window: 0, largest_refused: None, waits: None };
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
        if limiter.admit(now, Request::ONE) == Verdict::Admitted {
            result.admitted += 1;
            left_at.push(leaves);
            if leaves > arrived {
                waits.delayed += 1;
                waits.longest = waits.longest.max(wait(leaves - arrived, scale));
            }
        } else {
            result.refused += 1;
            if result.largest_refused.is_none_or(|largest| event.magnitude > largest.magnitude) {
                result.largest_refused = Some(event);
            }
        }
    }
    result.busiest_window = busiest_window(&left_at, i128::from(limit.rate().window().ticks()) * scale);
    result.waits = matches!(limiter, Limiter::LeakyBucket(_)).then_some(waits);
    result
}

fn wait(scaled: i128, scale: i128) -> Span {
    Span::from_ticks(u64::try_from((scaled + scale - 1) / scale).unwrap_or(u64::MAX))
}

/// The most of the ascending instants that lie in any stretch `[t, t + window)`.
#[must_use]
pub fn busiest_window(ascending: &[i128], window: i128) -> u64 {
    let mut first = 0;
    let mut most = 0;
    for (last, at) in ascending.iter().enumerate() {
        while ascending[first] + window <= *at {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most as u64
}
