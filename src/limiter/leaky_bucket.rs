//! The leaky bucket as a queue: admits what a token bucket of `b` admits, and lets each leave in its turn, `w / n` apart.
//!
//! The next departure and the token bucket's theoretical arrival time are the same number, so this file holds only what
//! differs: when the admitted one leaves.

use super::decision::{Outlook, Request, Verdict};
use super::exact::ceil_div;
use super::token_bucket::TokenBucket;
use crate::rate::Rate;
use crate::time::Timestamp;

/// A queue with `b` places that serves `n` per `w`, evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    queue: TokenBucket,
}

/// An exact time of departure, which may fall between two ticks: `scaled / limit` ticks after the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Departure {
    /// Ticks times the rate's `n`.
    pub scaled: i128,
}

impl LeakyBucket {
    /// An empty queue with `bucket` places (at least 1), the one being served included.
    #[must_use]
    pub const fn new(rate: Rate, bucket: u32) -> LeakyBucket {
        LeakyBucket { queue: TokenBucket::new(rate, bucket) }
    }

    pub(super) const fn over(queue: TokenBucket) -> LeakyBucket {
        LeakyBucket { queue }
    }

    pub(super) fn limit(&self) -> u32 {
        self.queue.rate().limit()
    }

    pub(super) const fn queue(&self) -> &TokenBucket {
        &self.queue
    }

    /// Admits the request if there is a place in the queue.
    pub fn admit(&mut self, now: Timestamp, request: Request) -> Verdict {
        self.queue.admit(now, request)
    }

    /// When a request that is admitted at `now` leaves: ask before admitting it.
    #[must_use]
    pub fn departure(&self, now: Timestamp) -> Departure {
        Departure { scaled: self.queue.turn(now) }
    }

    /// What would be answered next, at `now`.
    #[must_use]
    pub fn outlook(&self, now: Timestamp, request: Request) -> Outlook {
        self.queue.outlook(now, request)
    }
}

impl Departure {
    /// Rounded up to a tick, for a rate of `limit` per window.
    #[must_use]
    pub fn at(self, limit: u32) -> Timestamp {
        Timestamp::saturating_from_ticks(ceil_div(self.scaled, u64::from(limit)))
    }
}
