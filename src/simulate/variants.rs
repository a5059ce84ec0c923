//! Limiters that exist only in the laboratory: none of them decides anything in the product.

use std::collections::VecDeque;

use crate::limiter::{Algorithm, Limit, LimitError, Limiter, Request, Verdict};
use crate::rate::Rate;
use crate::time::{Span, Timestamp};

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

/// What a log or a counter writes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// What it admitted: the product's limiters.
    Admitted,
    /// Refused requests too: the fault.
    AdmittedAndRefused,
}

/// FAULTY: a sliding log or counter that may also record what it refuses, so that asking keeps the door shut.
#[derive(Clone, Debug)]
pub struct CountsRefused {
    limiter: Limiter,
    recording: Recording,
    request: Request,
}

impl CountsRefused {
    /// The variant of a log's or a counter's limit; of another algorithm it is the limiter itself.
    ///
    /// # Errors
    /// [`LimitError`] never in practice: the same limit with room for more is one.
    pub fn new(limit: Limit, recording: Recording) -> Result<CountsRefused, LimitError> {
        let windowed = matches!(limit.algorithm(), Algorithm::SlidingLog | Algorithm::SlidingCounter);
        if !windowed || recording == Recording::Admitted {
            return Ok(CountsRefused { limiter: Limiter::new(limit), recording: Recording::Admitted, request: Request::ONE });
        }
        // It takes down as much as can be counted, and admits while that leaves all but `n` of it.
        let most = Rate::from_checked(Rate::MAX_LIMIT, limit.rate().window());
        let limiter = Limiter::new(Limit::new(limit.algorithm(), most, None)?.with_rule(limit.rule())?);
        Ok(CountsRefused { limiter, recording, request: Request { cost: 1, keep: Rate::MAX_LIMIT - limit.rate().limit() } })
    }

    /// Admits or refuses, and records the request as its kind does.
    pub fn admit(&mut self, now: Timestamp) -> bool {
        let admitted = self.limiter.admit(now, self.request) == Verdict::Admitted;
        if !admitted && self.recording == Recording::AdmittedAndRefused {
            self.limiter.admit(now, Request::ONE);
        }
        admitted
    }
}

/// How a server uses a limiter that several share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Reads, decides and writes in one step.
    Atomic,
    /// Reads, decides and writes one after the other, so that what others wrote meanwhile is lost: the fault.
    Separate,
}

/// FAULTY unless atomic: a limiter in a store that several servers share, each request taking its server `gap` from reading
/// the state to writing it back. A server handles one request at a time.
#[derive(Clone, Debug)]
pub struct SharedLimiter {
    stored: Limiter,
    sharing: Sharing,
    gap: Span,
    /// When each server is free again.
    free_at: Vec<Timestamp>,
    /// Written back at these times, in order: no two requests that begin one after the other end the other way round.
    writes: VecDeque<(Timestamp, Limiter)>,
}

impl SharedLimiter {
    /// A limiter of which nothing is spent, shared by so many servers.
    #[must_use]
    pub fn new(limit: Limit, sharing: Sharing, servers: usize, gap: Span) -> SharedLimiter {
        let free_at = vec![Timestamp::MIN; servers];
        SharedLimiter { stored: Limiter::new(limit), sharing, gap, free_at, writes: VecDeque::new() }
    }

    /// When this server begins with a request that reaches it at `at`: at once, or when it is done with the one before.
    pub fn begin(&mut self, server: usize, at: Timestamp) -> Timestamp {
        let begins_at = at.max(self.free_at[server]);
        self.free_at[server] = begins_at.plus(self.gap);
        begins_at
    }

    /// Decides on a request that a server begins with now. Called in the order of the beginnings.
    pub fn admit(&mut self, now: Timestamp) -> bool {
        if self.sharing == Sharing::Atomic {
            return self.stored.admit(now, Request::ONE) == Verdict::Admitted;
        }
        while let Some((_, written)) = self.writes.pop_front_if(|(at, _)| *at <= now) {
            self.stored = written;
        }
        let mut read = self.stored.clone();
        let admitted = read.admit(now, Request::ONE) == Verdict::Admitted;
        if admitted {
            self.writes.push_back((now.plus(self.gap), read));
        }
        admitted
    }
}
