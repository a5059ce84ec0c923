//! The token bucket as GCRA: one stored number, the theoretical arrival time, in ticks times `n` so that it stays whole.
//!
//! Source: ITU-T I.371 (generic cell rate algorithm, virtual scheduling), which admits exactly what a bucket of `b` tokens
//! does that starts full and refills `n` per `w`.

use super::decision::{Outlook, Request, Verdict};
use super::exact::{ceil_div, count, floor_div};
use crate::rate::Rate;
use crate::time::{Span, Timestamp};

/// The theoretical arrival time of a bucket that was never used: long before any timestamp, far from overflow.
const FULL: i128 = i128::MIN / 4;

/// A bucket of `b` tokens with refill `n` per `w`, and how far it is spent. 32 bytes.
///
/// In units of ticks times `n` one token is worth `w`, and `tat - now * n` is the *debt*: 0 in a full bucket, `b * w` in
/// an empty one. With `n` to 10^9, `w` to ten years and `b` to 10^9 every product stays below 2^100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    tat: i128,
    window: u64,
    limit: u32,
    bucket: u32,
}

impl TokenBucket {
    /// A full bucket of `bucket` tokens (at least 1).
    #[must_use]
    pub const fn new(rate: Rate, bucket: u32) -> TokenBucket {
        TokenBucket { tat: FULL, window: rate.window().ticks(), limit: rate.limit(), bucket }
    }

    /// A bucket at a stored theoretical arrival time, in ticks times `n`.
    pub(super) const fn at(rate: Rate, bucket: u32, tat: i128) -> TokenBucket {
        TokenBucket { tat, ..TokenBucket::new(rate, bucket) }
    }

    /// Whether use at some timestamp leads to its arrival time, or it was never used.
    pub(super) fn is_of_some_time(&self) -> bool {
        let times = self.scaled(Timestamp::MIN)..=self.scaled(Timestamp::MAX) + self.capacity();
        self.tat == FULL || times.contains(&self.tat)
    }

    pub(super) const fn tat(&self) -> i128 {
        self.tat
    }

    fn scaled(&self, now: Timestamp) -> i128 {
        i128::from(now.ticks()) * i128::from(self.limit)
    }

    fn capacity(&self) -> i128 {
        i128::from(self.bucket) * i128::from(self.window)
    }

    /// A theoretical arrival time more than a full bucket ahead comes from a clock that stepped back: it counts as empty.
    fn debt(&self, now: Timestamp) -> i128 {
        (self.tat - self.scaled(now)).clamp(0, self.capacity())
    }

    /// Admits the request if the tokens are there, and takes its cost. A refused request costs nothing.
    #[inline]
    pub fn admit(&mut self, now: Timestamp, request: Request) -> Verdict {
        let (now, capacity) = (self.scaled(now), self.capacity());
        let most_debt = capacity - i128::from(request.needed()) * i128::from(self.window);
        if most_debt >= 0 && self.tat - now <= most_debt {
            self.tat = self.tat.max(now) + i128::from(request.cost) * i128::from(self.window);
            return Verdict::Admitted;
        }
        // Keeps the clamp, so that a clock that stepped back locks nobody out for longer than a refill.
        if self.tat > now + capacity {
            self.tat = now + capacity;
        }
        if most_debt < 0 { Verdict::Never } else { Verdict::Refused }
    }

    /// What would be answered next, at `now`.
    #[must_use]
    #[inline]
    pub fn outlook(&self, now: Timestamp, request: Request) -> Outlook {
        let (capacity, debt) = (self.capacity(), self.debt(now));
        let (free, needed) = (capacity - debt, i128::from(request.needed()) * i128::from(self.window));
        let tokens = if free < i128::from(self.window) { 0 } else { floor_div(free, self.window) };
        Outlook {
            remaining: count(tokens - i128::from(request.keep)),
            retry_at: (needed <= capacity).then(|| self.refilled_at(now, needed - free)),
            reset_at: self.refilled_at(now, debt),
        }
    }

    /// The first tick, from `now` on, by which so much is refilled.
    fn refilled_at(&self, now: Timestamp, missing: i128) -> Timestamp {
        if missing <= 0 {
            return now;
        }
        Timestamp::saturating_from_ticks(i128::from(now.ticks()) + ceil_div(missing, u64::from(self.limit)))
    }

    /// The time at which a queue that serves one request every `w / n` would serve the next, in ticks times `n`.
    pub(super) fn turn(&self, now: Timestamp) -> i128 {
        self.scaled(now) + self.debt(now)
    }

    /// Tokens that are spent at `now`, a begun one counted whole.
    pub(super) fn spent(&self, now: Timestamp) -> u64 {
        count(ceil_div(self.debt(now), self.window))
    }

    /// The same number of spent tokens, fractions rounded up, in a bucket of another size and rate.
    pub(super) fn carried_over(&self, rate: Rate, bucket: u32, now: Timestamp) -> TokenBucket {
        let mut next = TokenBucket::new(rate, bucket);
        let (debt, old, new) = (self.debt(now), self.window, next.window);
        let (whole, rest) = (floor_div(debt, old), debt.rem_euclid(i128::from(old)));
        let carried = whole * i128::from(new) + ceil_div(rest * i128::from(new), old);
        next.tat = next.scaled(now) + carried.min(next.capacity());
        next
    }

    /// A bucket of which `spent` tokens are gone, at most all.
    pub(super) fn with_spent(rate: Rate, bucket: u32, spent: u32, now: Timestamp) -> TokenBucket {
        let mut next = TokenBucket::new(rate, bucket);
        next.tat = next.scaled(now) + (i128::from(spent) * i128::from(next.window)).min(next.capacity());
        next
    }

    /// Tokens left at `now`, fractions included, for a picture's token line; not for decisions.
    #[must_use]
    pub fn level(&self, now: Timestamp) -> f64 {
        (self.capacity() - self.debt(now)) as f64 / self.window as f64
    }

    /// The rate it was made with.
    #[must_use]
    pub(super) fn rate(&self) -> Rate {
        Rate::from_checked(self.limit, Span::from_ticks(self.window))
    }

    pub(super) const fn bucket(&self) -> u32 {
        self.bucket
    }
}
