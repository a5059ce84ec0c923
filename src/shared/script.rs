//! The script that decides, what it is asked, and what it answers.

use redis::{Cmd, Value};

use super::{EXACT, MAX_REQUESTS, SharedError};
use crate::limiter::{Algorithm, CounterRule, Limit, Verdict};
use crate::time::{Span, Timestamp};

/// One script of the four algorithms and what they have in common: it is sent once, and after that named.
pub(super) const SCRIPT: &str = concat!(
    include_str!("arithmetic.lua"),
    include_str!("fixed_window.lua"),
    include_str!("sliding_log.lua"),
    include_str!("sliding_counter.lua"),
    include_str!("gcra.lua"),
    include_str!("decide.lua"),
);

/// Many requests at once, each asking one limit or several together.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Algorithm, N, window, capacity, cost, strictness.
    kinds: Vec<[i64; 6]>,
    keys: Vec<(String, usize)>,
    /// Each asks these keys together; none: each key is asked by itself.
    requests: Vec<Vec<usize>>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Admitted and charged, or refused and charged nowhere.
    pub verdict: Verdict,
    /// Which of the limits that it asked refuses it for longest, by its place among all of the question.
    pub refused_by: Option<usize>,
    /// How many requests of cost 1 the limit that has least would admit now.
    pub remaining: u64,
    /// How long until the same request would be admitted, by the server's clock.
    pub wait: Span,
    /// When it was decided, by the server's clock.
    pub at: Timestamp,
}

impl Question {
    /// A kind of limit, of which one request costs so much (at least 1, and at most what it ever admits).
    ///
    /// # Errors
    /// [`SharedError::Leaky`] for a leaky bucket; [`SharedError::Beyond`] where products would leave what is exact.
    pub fn kind(&mut self, limit: Limit, cost: u32) -> Result<usize, SharedError> {
        exact(limit)?;
        let (n, window) = (i64::from(limit.rate().limit()), i64::try_from(limit.rate().window().ticks()).unwrap_or(i64::MAX));
        let algorithm = match limit.algorithm() {
            Algorithm::FixedWindow => 1,
            Algorithm::SlidingLog => 2,
            Algorithm::SlidingCounter => 3,
            Algorithm::TokenBucket | Algorithm::LeakyBucket => 4,
        };
        // Within what is exact, as was looked at.
        let capacity = limit.bucket().map_or(0, |bucket| i64::from(bucket).saturating_mul(window));
        let strict = i64::from(limit.rule() == CounterRule::Below);
        self.kinds.push([algorithm, n, window, capacity, cost.max(1).into(), strict]);
        Ok(self.kinds.len() - 1)
    }

    /// A limit of this kind, whose state is under `key`: its place.
    pub fn key(&mut self, key: String, kind: usize) -> usize {
        self.keys.push((key, kind));
        self.keys.len() - 1
    }

    /// A request to these limits together; without any, each limit is asked once by itself.
    pub fn request(&mut self, keys: Vec<usize>) {
        self.requests.push(keys);
    }

    /// One of its limits' keys; on a cluster all of them are in the same slot.
    pub(super) fn first_key(&self) -> Option<&str> {
        self.keys.first().map(|(key, _)| key.as_str())
    }

    fn count(&self) -> usize {
        if self.requests.is_empty() { self.keys.len() } else { self.requests.len() }
    }

    /// The command that asks it of the script of this name, by the server's time unless one is given.
    pub(super) fn command(&self, script: &str, now: Option<Timestamp>) -> Result<Cmd, SharedError> {
        if self.count() > MAX_REQUESTS {
            return Err(SharedError::TooMany(self.count()));
        }
        let mut command = redis::cmd("EVALSHA");
        command.arg(script).arg(self.keys.len());
        for (key, _) in &self.keys {
            command.arg(key);
        }
        command.arg(now.map_or(0, Timestamp::ticks)).arg(self.kinds.len());
        for kind in &self.kinds {
            for number in kind {
                command.arg(*number);
            }
        }
        if self.kinds.len() > 1 {
            for (_, kind) in &self.keys {
                command.arg(kind + 1);
            }
        }
        for request in &self.requests {
            command.arg(request.len());
            for key in request {
                command.arg(key + 1);
            }
        }
        Ok(command)
    }

    /// What the script's answer says of each request; `None` if it says something else.
    pub(super) fn answers(&self, value: &Value) -> Option<Vec<Answer>> {
        let Value::Array(values) = value else { return None };
        let number = |value: &Value| if let Value::Int(number) = value { Some(*number) } else { None };
        let (at, rest) = values.split_first()?;
        let at = Timestamp::from_ticks(number(at)?).ok()?;
        if rest.len() != 3 * self.count() {
            return None;
        }
        let answer = |three: &[Value]| {
            let refused_by = usize::try_from(number(&three[0])?).ok()?.checked_sub(1);
            Some(Answer {
                verdict: if refused_by.is_some() { Verdict::Refused } else { Verdict::Admitted },
                refused_by,
                remaining: u64::try_from(number(&three[1])?).ok()?,
                wait: Span::from_ticks(u64::try_from(number(&three[2])?).ok()?),
                at,
            })
        };
        rest.chunks_exact(3).map(answer).collect()
    }
}

/// Looks whether a limit's products stay within what is exact in a script.
///
/// # Errors
/// [`SharedError::Leaky`] or [`SharedError::Beyond`].
pub fn exact(limit: Limit) -> Result<(), SharedError> {
    let window = u128::from(limit.rate().window().ticks());
    let of = match limit.algorithm() {
        Algorithm::LeakyBucket => return Err(SharedError::Leaky),
        Algorithm::FixedWindow | Algorithm::SlidingLog => 1,
        Algorithm::SlidingCounter => u128::from(limit.rate().limit()) + 1,
        Algorithm::TokenBucket => u128::from(limit.burst().max(limit.rate().limit())) + 1,
    };
    if of * window < EXACT {
        Ok(())
    } else {
        Err(SharedError::Beyond { rate: limit.rate().to_string(), algorithm: limit.algorithm() })
    }
}
