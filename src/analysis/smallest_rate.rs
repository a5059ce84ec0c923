//! The smallest rate at which a given bucket loses nothing, exactly.

use super::{ExactRate, Run, Summary};
use crate::time::Timestamp;

/// What a bucket needs to lose nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmallestRate {
    /// At any rate: there are no more events than the bucket holds.
    Any,
    /// At this rate or a higher one. The run empties the bucket exactly.
    Rate { rate: ExactRate, critical_run: Run },
    /// At no rate: so many events at one instant, more than the bucket holds.
    Never { critical_run: Run },
}

/// The smallest rate at which a bucket of `bucket` tokens, at least 1, loses none of the events at ascending times.
///
/// A run of `m` further events within `d` forces `rate >= (m + 1 - bucket) / d`. From the rate that the most demanding run
/// forces, the next most demanding one is looked for (Newton's method on a convex curve: it rises to the root and stops).
#[must_use]
pub fn smallest_rate(times: &[Timestamp], bucket: u64) -> SmallestRate {
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return SmallestRate::Any;
    };
    if times.len() as u64 <= bucket {
        return SmallestRate::Any;
    }
    let mut run = Run { events: times.len() as u64, first: *first, last: *last };
    loop {
        let Some(rate) = ExactRate::new(run.events.saturating_sub(bucket), run.duration()) else {
            return SmallestRate::Never { critical_run: run };
        };
        match Summary::of(rate, times) {
            Some(summary) if summary.bucket() > bucket => run = summary.critical_run(),
            _ => return SmallestRate::Rate { rate, critical_run: run },
        }
    }
}
