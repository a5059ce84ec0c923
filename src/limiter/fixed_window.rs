//! The fixed window: fewer than `n` admissions so far in the clock window `floor(t / w)`, aligned to the Unix epoch.

use super::decision::{Outlook, Request, Verdict};
use super::exact::count;
use crate::rate::Rate;
use crate::time::Timestamp;

/// One counter and the number of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    pub(super) rate: Rate,
    /// The number of the window that is counted.
    pub(super) window: i64,
    /// Admissions in it; above `n` only after the limit was lowered.
    pub(super) used: u32,
}

impl FixedWindow {
    /// A window without admissions.
    #[must_use]
    pub const fn new(rate: Rate) -> FixedWindow {
        FixedWindow { rate, window: i64::MIN, used: 0 }
    }

    /// The counter as it stands at `now`.
    ///
    /// A clock that steps back into the window before finds this one's counter; one that steps back further takes what
    /// was spent along, so that it neither mints an allowance nor waits for a window that lies years ahead.
    fn seen_at(&self, now: Timestamp) -> FixedWindow {
        let window = window_number(now, self.rate);
        match window.saturating_sub(self.window) {
            0 | -1 => *self,
            later if later > 0 => FixedWindow { window, used: 0, ..*self },
            _ => FixedWindow { window, ..*self },
        }
    }

    /// Admits the request if the window has room, and counts its cost.
    pub fn admit(&mut self, now: Timestamp, request: Request) -> Verdict {
        *self = self.seen_at(now);
        let limit = u64::from(self.rate.limit());
        if request.needed() > limit {
            Verdict::Never
        } else if u64::from(self.used) + request.needed() <= limit {
            self.used += request.cost;
            Verdict::Admitted
        } else {
            Verdict::Refused
        }
    }

    /// What would be answered next, at `now`.
    #[must_use]
    pub fn outlook(&self, now: Timestamp, request: Request) -> Outlook {
        let seen = self.seen_at(now);
        let limit = u64::from(seen.rate.limit());
        let next =
            Timestamp::saturating_from_ticks(window_start(seen.window, seen.rate) + i128::from(seen.rate.window().ticks()));
        let fits = u64::from(seen.used) + request.needed() <= limit;
        Outlook {
            remaining: count(i128::from(limit) - i128::from(seen.used) - i128::from(request.keep)),
            retry_at: (request.needed() <= limit).then_some(if fits { now } else { next }),
            reset_at: if seen.used == 0 { now } else { next },
        }
    }

    pub(super) fn spent(&self, now: Timestamp) -> u64 {
        u64::from(self.seen_at(now).used)
    }

    /// The same counter under another limit, for a window of the same length.
    pub(super) fn carried_over(&self, rate: Rate, now: Timestamp) -> FixedWindow {
        FixedWindow { rate, ..self.seen_at(now) }
    }

    pub(super) fn with_spent(rate: Rate, spent: u32, now: Timestamp) -> FixedWindow {
        FixedWindow { rate, window: window_number(now, rate), used: spent }
    }
}

/// The number of the clock window that `at` lies in.
pub(super) fn window_number(at: Timestamp, rate: Rate) -> i64 {
    at.ticks().div_euclid(window_ticks(rate))
}

/// The first tick of a window.
pub(super) fn window_start(window: i64, rate: Rate) -> i128 {
    i128::from(window) * i128::from(window_ticks(rate))
}

/// A rate's window is at most ten years, far within 63 bits.
pub(super) fn window_ticks(rate: Rate) -> i64 {
    i64::try_from(rate.window().ticks()).unwrap_or(i64::MAX)
}
