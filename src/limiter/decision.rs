//! What a limiter is asked and what it answers. How it comes to the answer is each algorithm's file.

use crate::time::{TICKS_PER_SECOND, Timestamp};

/// One question to a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How many admissions it uses up; at least 1.
    pub cost: u32,
    /// How many must still be there afterwards, kept for others.
    pub keep: u32,
}

/// The short answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Admitted,
    /// Not now; [`Outlook::retry_at`] says when.
    Refused,
    /// It asks for more than the limiter can ever hold: waiting does not help.
    Never,
}

/// What comes next if nothing else happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// How many more requests of cost 1 that keep as much would be admitted now.
    pub remaining: u64,
    /// The first tick at which the same request would be admitted, not before now; `None` is never.
    pub retry_at: Option<Timestamp>,
    /// The first tick at which nothing that was spent counts any more, not before now.
    pub reset_at: Timestamp,
}

/// The full answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub verdict: Verdict,
    /// As things stand after the verdict.
    pub outlook: Outlook,
    /// When what was admitted may leave: the moment of the decision, or its turn in the leaky bucket's queue, rounded up
    /// to a tick. Without meaning unless admitted.
    pub departs_at: Timestamp,
}

impl Request {
    /// The usual request: one admission, nothing kept.
    pub const ONE: Request = Request { cost: 1, keep: 0 };

    /// A request of this cost that keeps nothing; a cost of 0 counts as 1.
    #[must_use]
    pub const fn costing(cost: u32) -> Request {
        Request { cost: if cost == 0 { 1 } else { cost }, keep: 0 }
    }

    /// What must be there for it to be admitted.
    #[must_use]
    pub(super) const fn needed(self) -> u64 {
        self.cost as u64 + self.keep as u64
    }
}

impl Outlook {
    /// The wait until `retry_at` in whole seconds, rounded up, as `Retry-After` wants it; `None` is never.
    #[must_use]
    pub fn retry_after_s(&self, now: Timestamp) -> Option<u64> {
        self.retry_at.map(|at| at.since(now).ticks().div_ceil(TICKS_PER_SECOND.unsigned_abs()))
    }
}

impl Decision {
    /// Whether it was admitted.
    #[must_use]
    pub fn admitted(&self) -> bool {
        self.verdict == Verdict::Admitted
    }
}
