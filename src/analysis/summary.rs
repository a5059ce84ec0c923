//! The smallest lossless bucket of one rate, as a summary that pieces of a stream can be merged into, exactly.
//!
//! For events `t_0 <= t_1 <= …` and the rate `n/w` let `a_j = j*w - n*t_j`. A bucket that starts full loses nothing exactly
//! when it holds `max over i <= j of (a_j - a_i) / w + 1`: between `i` and `j` come `j - i + 1` events while
//! `n * (t_j - t_i) / w` flow back. A piece's least and greatest `a` and its best difference are all that another piece
//! needs to know of it.

use super::ExactRate;
use crate::time::{Span, Timestamp};

/// Consecutive events: how many, and the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub events: u64,
    pub first: Timestamp,
    pub last: Timestamp,
}

impl Run {
    /// The time from the first to the last event.
    #[must_use]
    pub fn duration(&self) -> Span {
        self.last.since(self.first)
    }
}

/// What one rate needs to know of a piece of a stream: its count, ends, extreme `a` and best difference.
///
/// Merging is associative, so a stream can be cut anywhere. Differences are in units of `1 / window` of a token, both
/// sides of the rate being divided by their greatest common divisor: with at most 2^60 events, a window of ten thousand
/// years and 2^60 per window no product leaves 128 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    limit: i64,
    window: i64,
    count: u64,
    first: Timestamp,
    last: Timestamp,
    least: Extreme,
    greatest: Extreme,
    best: i128,
    run: Run,
}

/// An extreme of `a`, relative to the piece's first event, and the event that attains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extreme {
    a: i128,
    index: u64,
    at: Timestamp,
}

impl Summary {
    /// Summarises events in ascending order; `None` if there are none.
    #[must_use]
    pub fn of(rate: ExactRate, times: &[Timestamp]) -> Option<Summary> {
        let (limit, window) = rate.lowest_terms();
        Summary::of_part(limit, window, times)
    }

    /// Cuts the events where their differences would not fit 64 bits.
    fn of_part(limit: i64, window: i64, times: &[Timestamp]) -> Option<Summary> {
        let (first, last) = (*times.first()?, *times.last()?);
        if let [only] = times {
            return Some(Summary::of_one(limit, window, *only));
        }
        let length = i64::try_from(times.len()).unwrap_or(i64::MAX);
        let widest = length.checked_mul(window).zip((last.ticks() - first.ticks()).checked_mul(limit));
        if widest.and_then(|(rise, fall)| rise.checked_add(fall)).is_some() {
            return Some(Summary::of_small(limit, window, times));
        }
        let (earlier, later) = times.split_at(times.len() / 2);
        let (earlier, later) = (Summary::of_part(limit, window, earlier)?, Summary::of_part(limit, window, later)?);
        Some(earlier.merge(&later))
    }

    /// Summarises at least one event whose `a` are all within 64 bits, and so are their differences.
    fn of_small(limit: i64, window: i64, times: &[Timestamp]) -> Summary {
        let first = times[0];
        let (mut least, mut greatest, mut best) = ((0, 0), (0, 0), (0, 0, 0));
        let mut rise = 0;
        for (index, at) in times.iter().enumerate() {
            let a: i64 = rise - limit * (at.ticks() - first.ticks());
            rise += window;
            if a < least.0 {
                least = (a, index);
            }
            if a > greatest.0 {
                greatest = (a, index);
            }
            if a - least.0 > best.0 {
                best = (a - least.0, least.1, index);
            }
        }
        let extreme = |(a, index): (i64, usize)| Extreme { a: a.into(), index: index as u64, at: times[index] };
        let run = Run { events: (best.2 - best.1 + 1) as u64, first: times[best.1], last: times[best.2] };
        Summary {
            limit,
            window,
            count: times.len() as u64,
            first,
            last: times[times.len() - 1],
            least: extreme(least),
            greatest: extreme(greatest),
            best: best.0.into(),
            run,
        }
    }

    fn of_one(limit: i64, window: i64, at: Timestamp) -> Summary {
        let extreme = Extreme { a: 0, index: 0, at };
        let run = Run { events: 1, first: at, last: at };
        Summary { limit, window, count: 1, first: at, last: at, least: extreme, greatest: extreme, best: 0, run }
    }

    /// The summary of this piece and a `later` one of the same rate, none of whose events is earlier.
    #[must_use]
    pub fn merge(&self, later: &Summary) -> Summary {
        let elapsed = i128::from(later.first.ticks()) - i128::from(self.first.ticks());
        let shift = i128::from(self.count) * i128::from(self.window) - i128::from(self.limit) * elapsed;
        let shifted = |extreme: Extreme| Extreme { a: extreme.a + shift, index: extreme.index + self.count, at: extreme.at };
        let (later_least, later_greatest) = (shifted(later.least), shifted(later.greatest));
        let mut merged = Summary {
            count: self.count + later.count,
            last: later.last,
            least: if later_least.a < self.least.a { later_least } else { self.least },
            greatest: if later_greatest.a > self.greatest.a { later_greatest } else { self.greatest },
            ..self.clone()
        };
        if later.best > merged.best {
            (merged.best, merged.run) = (later.best, later.run);
        }
        let across = later_greatest.a - self.least.a;
        if across > merged.best {
            let events = later_greatest.index - self.least.index + 1;
            merged.best = across;
            merged.run = Run { events, first: self.least.at, last: later_greatest.at };
        }
        merged
    }

    /// The best difference, and the window that is its unit.
    pub(super) fn best(&self) -> (i128, i128) {
        (self.best, self.window.into())
    }

    /// How many events it covers.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The first and the last event.
    #[must_use]
    pub const fn ends(&self) -> (Timestamp, Timestamp) {
        (self.first, self.last)
    }

    /// The smallest bucket that loses nothing, a whole number of tokens.
    #[must_use]
    pub fn bucket(&self) -> u64 {
        let window = i128::from(self.window);
        // The best difference is at most (count - 1) * window.
        u64::try_from((self.best + window - 1) / window + 1).unwrap_or(u64::MAX)
    }

    /// The most tokens that are missing at once, the event's own included: the bucket before it is rounded up.
    #[must_use]
    pub fn level(&self) -> f64 {
        let window = i128::from(self.window);
        let whole = self.best / window + 1;
        whole as f64 + (self.best % window) as f64 / window as f64
    }

    /// Events that attain the level: the critical run. Several may; this is one of them.
    #[must_use]
    pub const fn critical_run(&self) -> Run {
        self.run
    }
}
