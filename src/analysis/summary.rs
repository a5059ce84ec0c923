//! The smallest lossless bucket of one rate, as a summary that pieces of a stream can be merged into, exactly.
//!
//! For events `t_0 <= t_1 <= …` and the rate `n/w` let `a_j = j*w - n*t_j`. A bucket that starts full loses nothing exactly
//! when it holds `max over i <= j of (a_j - a_i) / w + 1`: between `i` and `j` come `j - i + 1` events while
//! `n * (t_j - t_i) / w` flow back. A piece's least and greatest `a` and its best difference are all that another piece
//! needs to know of it.

use super::ExactRate;
use super::outline::{Outline, Sight};
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

    /// The same with an outline of the times, for one of many rates. A best difference that is not above that of `before`
    /// may come out smaller, because it makes no difference to a merged summary.
    pub(super) fn of_outlined(
        rate: ExactRate,
        times: &[Timestamp],
        outline: &Outline,
        before: Option<&Summary>,
    ) -> Option<Summary> {
        let (limit, window) = rate.lowest_terms();
        if !is_small(limit, window, times) {
            return Summary::of_part(limit, window, times);
        }
        let floor = before.map_or(0, |before| i64::try_from(before.best).unwrap_or(i64::MAX));
        let mut sweep = Sweep::new(limit, window, times)?;
        outline.groups().for_each(|group| sweep.pass_group(&group, floor));
        Some(sweep.finish())
    }

    /// Cuts the events where their differences would not fit 64 bits.
    fn of_part(limit: i64, window: i64, times: &[Timestamp]) -> Option<Summary> {
        if let [only] = times {
            return Some(Summary::of_one(limit, window, *only));
        }
        if is_small(limit, window, times) {
            let mut sweep = Sweep::new(limit, window, times)?;
            sweep.pass(0, times.len());
            return Some(sweep.finish());
        }
        let (earlier, later) = times.split_at(times.len() / 2);
        let (earlier, later) = (Summary::of_part(limit, window, earlier)?, Summary::of_part(limit, window, later)?);
        Some(earlier.merge(&later))
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

/// Whether all `a` of the ascending times are within 64 bits, and so are their differences.
fn is_small(limit: i64, window: i64, times: &[Timestamp]) -> bool {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return true };
    let rise = i64::try_from(times.len()).ok().and_then(|length| length.checked_mul(window));
    let fall = (last.ticks() - first.ticks()).checked_mul(limit);
    rise.zip(fall).and_then(|(rise, fall)| rise.checked_add(fall)).is_some()
}

/// One way through times that are small, from the first to the last.
struct Sweep<'t> {
    limit: i64,
    window: i64,
    times: &'t [Timestamp],
    first: Timestamp,
    /// An extreme `a` and the index that attains it.
    least: (i64, usize),
    greatest: (i64, usize),
    /// The best difference and the indices that attain it.
    best: (i64, usize, usize),
}

impl<'t> Sweep<'t> {
    fn new(limit: i64, window: i64, times: &'t [Timestamp]) -> Option<Sweep<'t>> {
        let first = *times.first()?;
        Some(Sweep { limit, window, times, first, least: (0, 0), greatest: (0, 0), best: (0, 0, 0) })
    }

    #[inline]
    fn a(&self, index: usize) -> i64 {
        index.cast_signed() as i64 * self.window - self.limit * (self.times[index].ticks() - self.first.ticks())
    }

    /// Looks at each event.
    #[inline]
    fn pass(&mut self, start: usize, end: usize) {
        for index in start..end {
            let a = self.a(index);
            // Whether an event is the least so far is hard to foretell: chosen, not branched on. The others are rare.
            self.least.1 = std::hint::select_unpredictable(a < self.least.0, index, self.least.1);
            self.least.0 = self.least.0.min(a);
            if a > self.greatest.0 {
                self.greatest = (a, index);
            }
            if a - self.least.0 > self.best.0 {
                self.best = (a - self.least.0, self.least.1, index);
            }
        }
    }

    /// Looks only at the corners of a group, unless a run within it could be better than what is known.
    #[inline]
    fn pass_group(&mut self, group: &Sight<'_>, floor: i64) {
        let steps = (group.end - group.start - 1).cast_signed() as i64;
        let gain_within = steps * (self.window - self.limit * group.shortest_gap).max(0);
        if gain_within > self.best.0.max(floor) {
            return self.pass(group.start, group.end);
        }
        let greatest = group.greatest_among.iter().map(|index| (self.a(*index as usize), *index as usize));
        let greatest = greatest.reduce(|one, other| if other.0 > one.0 { other } else { one });
        let least = group.least_among.iter().map(|index| (self.a(*index as usize), *index as usize));
        let least = least.reduce(|one, other| if other.0 < one.0 { other } else { one });
        if let (Some(least), Some(greatest)) = (least, greatest) {
            if greatest.0 - self.least.0 > self.best.0 {
                self.best = (greatest.0 - self.least.0, self.least.1, greatest.1);
            }
            if greatest.0 > self.greatest.0 {
                self.greatest = greatest;
            }
            if least.0 < self.least.0 {
                self.least = least;
            }
        }
    }

    fn finish(self) -> Summary {
        let times = self.times;
        let extreme = |(a, index): (i64, usize)| Extreme { a: a.into(), index: index as u64, at: times[index] };
        let (best, from, to) = self.best;
        Summary {
            limit: self.limit,
            window: self.window,
            count: times.len() as u64,
            first: self.first,
            last: times[times.len() - 1],
            least: extreme(self.least),
            greatest: extreme(self.greatest),
            best: best.into(),
            run: Run { events: (to - from + 1) as u64, first: times[from], last: times[to] },
        }
    }
}
