//! The sliding counter: the clock window's count plus the part of the previous one that the sliding window still covers,
//! `previous * (1 - elapsed / w) + current`, compared in whole numbers after multiplying by `w`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::decision::{Outlook, Request, Verdict};
use super::exact::{ceil_div, count, floor_div};
use super::fixed_window::{window_number, window_start};
use crate::rate::Rate;
use crate::time::Timestamp;

/// How the estimate is compared with the limit; published systems use both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterRule {
    /// Admit while the estimate is below `n`.
    #[default]
    Below,
    /// Admit while the estimate and the request fit: `estimate + 1 <= n`.
    Fits,
}

impl fmt::Display for CounterRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            CounterRule::Below => "below",
            CounterRule::Fits => "fits",
        })
    }
}

/// Two counters and the number of their window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingCounter {
    pub(super) rate: Rate,
    pub(super) rule: CounterRule,
    /// The number of the clock window that `current` counts.
    pub(super) window: i64,
    /// Admissions in the window before, 0 unless the windows are adjacent.
    pub(super) previous: u32,
    pub(super) current: u32,
    /// The tick of the last decision.
    pub(super) last: i64,
}

impl SlidingCounter {
    /// Counters without admissions.
    #[must_use]
    pub const fn new(rate: Rate, rule: CounterRule) -> SlidingCounter {
        SlidingCounter { rate, rule, window: i64::MIN, previous: 0, current: 0, last: i64::MIN }
    }

    /// The counters as they stand at `now`, which counts as no earlier than the last decision.
    ///
    /// A clock that steps back by more than a window was set: what the estimate held then is spent in the window it was
    /// set to, so that nothing is forgotten and nobody waits for a window that lies years ahead.
    fn seen_at(&self, now: Timestamp) -> SlidingCounter {
        let back = i128::from(self.last) - i128::from(now.ticks());
        if back > i128::from(self.rate.window().ticks()) {
            let spent = u32::try_from(self.estimate_rounded_up()).unwrap_or(u32::MAX);
            return SlidingCounter::with_spent(self.rate, self.rule, spent, now);
        }
        let last = now.ticks().max(self.last);
        // Both are timestamps' ticks: `last` is `now` or was one.
        let window = window_number(Timestamp::saturating_from_ticks(last.into()), self.rate);
        let (previous, current) = match window.saturating_sub(self.window) {
            0 => (self.previous, self.current),
            1 => (self.current, 0),
            _ => (0, 0),
        };
        SlidingCounter { window, previous, current, last, ..*self }
    }

    /// Ticks since the window began, at the last decision.
    fn elapsed(&self) -> i128 {
        (i128::from(self.last) - window_start(self.window, self.rate)).clamp(0, self.ticks())
    }

    fn ticks(&self) -> i128 {
        i128::from(self.rate.window().ticks())
    }

    /// The part of the estimate that comes from the previous window, times `w`.
    fn carried(&self) -> i128 {
        i128::from(self.previous) * (self.ticks() - self.elapsed())
    }

    fn estimate_rounded_up(&self) -> u64 {
        count(ceil_div(self.carried(), self.rate.window().ticks()) + i128::from(self.current))
    }

    /// How many more may be counted in a window that holds `current`, so that `needed` are admitted: the previous window's
    /// part must be below it (`below`), or at most it (`fits`).
    fn room(&self, current: u32, needed: u64) -> i128 {
        let strict = i128::from(self.rule == CounterRule::Below);
        i128::from(self.rate.limit()) - i128::from(current) - i128::from(needed) + strict
    }

    fn fits(&self, carried: i128, room: i128) -> bool {
        match self.rule {
            CounterRule::Below => carried < room * self.ticks(),
            CounterRule::Fits => carried <= room * self.ticks(),
        }
    }

    /// Admits the request if the estimate leaves room, and counts its cost.
    pub fn admit(&mut self, now: Timestamp, request: Request) -> Verdict {
        *self = self.seen_at(now);
        if request.needed() > u64::from(self.rate.limit()) {
            Verdict::Never
        } else if self.fits(self.carried(), self.room(self.current, request.needed())) {
            self.current += request.cost;
            Verdict::Admitted
        } else {
            Verdict::Refused
        }
    }

    /// What would be answered next, at `now`.
    #[must_use]
    pub fn outlook(&self, now: Timestamp, request: Request) -> Outlook {
        let seen = self.seen_at(now);
        let window = seen.rate.window().ticks();
        let free = i128::from(seen.rate.limit()) * seen.ticks() - seen.carried();
        let whole = match seen.rule {
            CounterRule::Below => ceil_div(free, window),
            CounterRule::Fits => floor_div(free, window),
        };
        Outlook {
            remaining: count(whole - i128::from(seen.current) - i128::from(request.keep)),
            retry_at: (request.needed() <= u64::from(seen.rate.limit())).then(|| seen.first_admission(now, request.needed())),
            reset_at: match (seen.previous, seen.current) {
                (0, 0) => now,
                (_, 0) => seen.start_of(1),
                _ => seen.start_of(2),
            },
        }
    }

    /// The start of the window so many after this one.
    fn start_of(&self, ahead: i64) -> Timestamp {
        Timestamp::saturating_from_ticks(window_start(self.window + ahead, self.rate))
    }

    /// The first tick at which `needed`, at most `n`, would be admitted: in this window, the next, or the one after.
    fn first_admission(&self, now: Timestamp, needed: u64) -> Timestamp {
        if self.fits(self.carried(), self.room(self.current, needed)) {
            return now;
        }
        let ahead = [(0, self.previous, self.current), (1, self.current, 0)];
        for (window, previous, current) in ahead {
            if let Some(elapsed) = self.first_elapsed(previous, self.room(current, needed)) {
                let at = window_start(self.window + window, self.rate) + elapsed;
                return Timestamp::saturating_from_ticks(at);
            }
        }
        self.start_of(2)
    }

    /// The fewest ticks into a window after which the previous one's part leaves room; `None` if not within the window.
    fn first_elapsed(&self, previous: u32, room: i128) -> Option<i128> {
        let strict = i128::from(self.rule == CounterRule::Below);
        if room < strict {
            return None;
        }
        if previous == 0 {
            return Some(0);
        }
        let previous = u64::from(previous);
        // The most ticks of the previous window that may still be covered.
        let covered = match self.rule {
            CounterRule::Below => ceil_div(room * self.ticks(), previous) - 1,
            CounterRule::Fits => floor_div(room * self.ticks(), previous),
        };
        let elapsed = (self.ticks() - covered).max(0);
        (elapsed < self.ticks()).then_some(elapsed)
    }

    pub(super) fn spent(&self, now: Timestamp) -> u64 {
        self.seen_at(now).estimate_rounded_up()
    }

    /// The same counters under another limit or rule, for a window of the same length.
    pub(super) fn carried_over(&self, rate: Rate, rule: CounterRule, now: Timestamp) -> SlidingCounter {
        SlidingCounter { rate, rule, ..self.seen_at(now) }
    }

    pub(super) fn with_spent(rate: Rate, rule: CounterRule, spent: u32, now: Timestamp) -> SlidingCounter {
        SlidingCounter { rate, rule, window: window_number(now, rate), previous: 0, current: spent, last: now.ticks() }
    }
}
