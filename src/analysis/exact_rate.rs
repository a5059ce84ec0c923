//! A rate without the bounds of [`Rate`]: what comes out of an analysis, where any two times may set it.

use std::fmt;

use crate::rate::Rate;
use crate::time::{Span, TICKS_PER_MILLISECOND};

/// The largest limit, and the largest window in ticks.
const MAX_SIDE: i64 = 1 << 60;

/// Exactly `limit` events per `window`: neither side above 2^60, which is 36,000 years of ticks, and the window not zero.
///
/// In lowest terms, but a window of whole milliseconds stays one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactRate {
    limit: i64,
    window: i64,
}

impl ExactRate {
    /// `limit` per `window`; `None` if the window is zero or a side too large.
    #[must_use]
    pub fn new(limit: u64, window: Span) -> Option<ExactRate> {
        let bounded = |side: u64| i64::try_from(side).ok().filter(|side| *side <= MAX_SIDE);
        let (limit, ticks) = (bounded(limit)?, bounded(window.ticks())?);
        if ticks == 0 {
            return None;
        }
        let unit = if ticks % TICKS_PER_MILLISECOND == 0 { TICKS_PER_MILLISECOND } else { 1 };
        let divisor = greatest_common_divisor(ticks / unit, limit);
        Some(ExactRate { limit: limit / divisor, window: ticks / divisor })
    }

    /// Events per window.
    #[must_use]
    pub const fn limit(self) -> u64 {
        self.limit.unsigned_abs()
    }

    /// The window.
    #[must_use]
    pub const fn window(self) -> Span {
        Span::from_ticks(self.window.unsigned_abs())
    }

    /// Both sides divided by their greatest common divisor, the window in ticks.
    pub(super) const fn lowest_terms(self) -> (i64, i64) {
        let divisor = greatest_common_divisor(self.window, self.limit);
        (self.limit / divisor, self.window / divisor)
    }

    /// How many events it gives per other window, for display.
    #[must_use]
    pub fn per(self, window: Span) -> f64 {
        self.limit as f64 * (window.ticks() as f64 / self.window as f64)
    }

    /// The same as a rate that limiters take; `None` beyond its bounds.
    #[must_use]
    pub fn as_rate(self) -> Option<Rate> {
        Rate::new(self.limit(), self.window()).ok()
    }
}

impl From<Rate> for ExactRate {
    fn from(rate: Rate) -> ExactRate {
        // A rate's window is at most ten years.
        let window = i64::try_from(rate.window().ticks()).unwrap_or(MAX_SIDE);
        ExactRate { limit: rate.limit().into(), window }
    }
}

/// As a [`Rate`]: `31/22339203ms`.
impl fmt::Display for ExactRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_rate() {
            Some(rate) => rate.fmt(f),
            None => f.pad(&format!("{}/{}", self.limit, self.window())),
        }
    }
}

/// The greatest number that divides both; the first is not zero.
const fn greatest_common_divisor(first: i64, second: i64) -> i64 {
    let (mut divisor, mut rest) = (first, second);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    divisor
}
