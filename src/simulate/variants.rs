//! Limiters that exist only in the laboratory: none of them decides anything in the product.

use crate::limiter::Limit;
use crate::time::Timestamp;

/// FOR COMPARISON: a bucket that counts its tokens, exactly, in units of one token divided by `w`.
///
/// The product's token bucket is GCRA, which stores one time instead. That both admit the same is shown, not assumed.
#[derive(Clone, Debug)]
pub struct CountedTokens {
    tokens: i128,
    full: i128,
    refill_a_tick: i128,
    token: i128,
    counted_at: Option<Timestamp>,
}

impl CountedTokens {
    /// A full bucket of this limit's size and rate.
    #[must_use]
    pub fn new(limit: Limit) -> CountedTokens {
        let token = i128::from(limit.rate().window().ticks());
        let full = i128::from(limit.burst()) * token;
        CountedTokens { tokens: full, full, refill_a_tick: limit.rate().limit().into(), token, counted_at: None }
    }

    /// Admits if a token is there, and takes it. `now` is not earlier than before.
    pub fn admit(&mut self, now: Timestamp) -> bool {
        let passed = self.counted_at.map_or(0, |before| now.since(before).ticks());
        self.counted_at = Some(now);
        self.tokens = (self.tokens + i128::from(passed) * self.refill_a_tick).min(self.full);
        let admitted = self.tokens >= self.token;
        if admitted {
            self.tokens -= self.token;
        }
        admitted
    }
}
