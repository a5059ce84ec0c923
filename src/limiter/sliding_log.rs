//! The sliding log: fewer than `n` admissions in `(t - w, t]`. A stamp exactly `w` old has left the window.

use std::collections::VecDeque;

use super::decision::{Outlook, Request, Verdict};
use super::exact::count;
use super::fixed_window::window_ticks;
use crate::rate::Rate;
use crate::time::Timestamp;

/// The stamps of what was admitted in the last window, oldest first; at most `n` of them, equal ones held as one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    pub(super) rate: Rate,
    pub(super) stamps: VecDeque<Stamp>,
    /// The sum of the stamps' costs; above `n` only after the limit was lowered.
    pub(super) used: u64,
    /// The tick of the last decision.
    pub(super) last: i64,
}

/// What was admitted at one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub at: i64,
    pub cost: u32,
}

impl SlidingLog {
    /// A log without admissions.
    #[must_use]
    pub const fn new(rate: Rate) -> SlidingLog {
        SlidingLog { rate, stamps: VecDeque::new(), used: 0, last: i64::MIN }
    }

    /// The tick that counts as now.
    ///
    /// A clock that steps back by up to a window counts as standing at the last decision. One that steps back further was
    /// set: the stamps move with it, so that nothing spent is forgotten and nobody waits for a time that lies years ahead.
    fn effective(&self, now: Timestamp) -> (i64, i64) {
        let now = now.ticks();
        let back = self.last.saturating_sub(now).max(0);
        if back > window_ticks(self.rate) { (now, back) } else { (now.max(self.last), 0) }
    }

    /// Brings the log to `now`: shifts after a set clock, forgets what has left the window.
    fn advance(&mut self, now: Timestamp) {
        let (now, shift) = self.effective(now);
        if shift > 0 {
            for stamp in &mut self.stamps {
                stamp.at = stamp.at.saturating_sub(shift);
            }
        }
        self.last = now;
        let left = now.saturating_sub(window_ticks(self.rate));
        while let Some(stamp) = self.stamps.pop_front_if(|stamp| stamp.at <= left) {
            self.used -= u64::from(stamp.cost);
        }
    }

    /// Admits the request if the window before `now` has room, and records it.
    pub fn admit(&mut self, now: Timestamp, request: Request) -> Verdict {
        self.advance(now);
        let limit = u64::from(self.rate.limit());
        if request.needed() > limit {
            return Verdict::Never;
        }
        if self.used + request.needed() > limit {
            return Verdict::Refused;
        }
        self.record(request.cost);
        Verdict::Admitted
    }

    fn record(&mut self, cost: u32) {
        self.used += u64::from(cost);
        match self.stamps.back_mut() {
            // The sum within one window is then at most n, so this does not overflow.
            Some(stamp) if stamp.at == self.last => stamp.cost += cost,
            _ => self.stamps.push_back(Stamp { at: self.last, cost }),
        }
    }

    /// What would be answered next, at `now`.
    #[must_use]
    pub fn outlook(&self, now: Timestamp, request: Request) -> Outlook {
        let window = window_ticks(self.rate);
        let (effective, shift) = self.effective(now);
        let limit = u64::from(self.rate.limit());
        let leaves = |stamp: &Stamp| stamp.at.saturating_sub(shift).saturating_add(window);
        let live = || self.stamps.iter().filter(|stamp| leaves(stamp) > effective);
        let used: u64 = live().map(|stamp| u64::from(stamp.cost)).sum();
        let mut excess = (used + request.needed()).saturating_sub(limit);
        let mut retry_at = now;
        for stamp in live() {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(u64::from(stamp.cost));
            retry_at = Timestamp::saturating_from_ticks(leaves(stamp).into());
        }
        Outlook {
            remaining: count(i128::from(limit) - i128::from(used) - i128::from(request.keep)),
            retry_at: (request.needed() <= limit).then_some(retry_at),
            reset_at: live().next_back().map_or(now, |stamp| Timestamp::saturating_from_ticks(leaves(stamp).into())),
        }
    }

    pub(super) fn spent(&self, now: Timestamp) -> u64 {
        let mut seen = self.clone();
        seen.advance(now);
        seen.used
    }

    /// The same stamps under another rate; what has left its window is forgotten.
    pub(super) fn carried_over(&self, rate: Rate, now: Timestamp) -> SlidingLog {
        let mut seen = self.clone();
        seen.advance(now);
        seen.rate = rate;
        seen.advance(now);
        seen
    }

    pub(super) fn with_spent(rate: Rate, spent: u32, now: Timestamp) -> SlidingLog {
        let mut log = SlidingLog { last: now.ticks(), ..SlidingLog::new(rate) };
        if spent > 0 {
            log.record(spent);
        }
        log
    }
}
