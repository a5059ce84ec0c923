//! How many events a window usually has, and at most.

use crate::time::{Span, Timestamp};

/// Events per window, over the windows that have events and over all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCounts {
    /// Only windows with at least one event.
    pub with_events: Percentiles,
    /// Every window from that of the first event to that of the last.
    pub all: Percentiles,
}

/// Nearest-rank percentiles: the smallest count that at least so many percent of the windows do not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// How many windows there are.
    pub windows: u64,
    pub median: u64,
    pub percentile_95: u64,
    pub percentile_99: u64,
    pub maximum: u64,
}

/// Counts the events at ascending times in windows aligned to the Unix epoch; `None` without events or for a window of
/// zero.
#[must_use]
pub fn window_counts(times: &[Timestamp], window: Span) -> Option<WindowCounts> {
    let length = i64::try_from(window.ticks()).ok().filter(|length| *length > 0)?;
    let number = |at: &Timestamp| at.ticks().div_euclid(length);
    let span = number(times.last()?) - number(times.first()?);
    let mut counts: Vec<u64> = times.chunk_by(|a, b| number(a) == number(b)).map(|events| events.len() as u64).collect();
    counts.sort_unstable();
    Some(WindowCounts {
        with_events: Percentiles::of(&counts, 0),
        all: Percentiles::of(&counts, span.unsigned_abs() + 1 - counts.len() as u64),
    })
}

impl Percentiles {
    /// Of `empty` windows and those with the counts, ascending.
    fn of(counts: &[u64], empty: u64) -> Percentiles {
        let windows = empty + counts.len() as u64;
        let percentile = |percent: u128| {
            let rank = (u128::from(windows) * percent).div_ceil(100).max(1);
            let among = usize::try_from(rank.saturating_sub(u128::from(empty))).unwrap_or(usize::MAX);
            among.checked_sub(1).and_then(|index| counts.get(index)).copied().unwrap_or(0)
        };
        Percentiles {
            windows,
            median: percentile(50),
            percentile_95: percentile(95),
            percentile_99: percentile(99),
            maximum: counts.last().copied().unwrap_or(0),
        }
    }
}
