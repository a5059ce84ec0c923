//! The limiters: which request is admitted, exactly. One implementation for the daemon, the replay and the simulator.
//!
//! Each algorithm is one file with its parameters, its state, `admit` (the short answer) and `outlook` (what comes next).
//! A limiter records only what it admitted; time comes in as an argument and may step back. No step mints an admission, and
//! none locks out for longer than a full refill after the last decision: windows treat `now` as no earlier than that, and
//! where it lies more than a window ahead, so that the clock was set, they and buckets count from `now` what was spent.

mod decision;
mod exact;
mod fixed_window;
mod leaky_bucket;
mod policy;
mod promise;
mod several;
mod sliding_counter;
mod sliding_log;
mod state;
mod token_bucket;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use decision::{Decision, Outlook, Request, Verdict};
pub use fixed_window::FixedWindow;
pub use leaky_bucket::{Departure, LeakyBucket};
pub use policy::{CostStep, Passage, Policy, PolicyError, Reserve, Ruling};
pub use promise::Promise;
pub use several::decide_all;
pub use sliding_counter::{CounterRule, SlidingCounter};
pub use sliding_log::SlidingLog;
pub use state::{STATE_VERSION, StateError};
pub use token_bucket::TokenBucket;

use crate::rate::Rate;
use crate::time::Timestamp;

/// The algorithms, in the order in which they are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    FixedWindow,
    SlidingLog,
    SlidingCounter,
    TokenBucket,
    LeakyBucket,
}

/// A limiter's configuration: an algorithm, a rate, a bucket where the algorithm has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "LimitParts", into = "LimitParts")]
pub struct Limit {
    algorithm: Algorithm,
    rate: Rate,
    bucket: u32,
    rule: CounterRule,
}

/// A configured limiter with its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limiter {
    FixedWindow(FixedWindow),
    SlidingLog(SlidingLog),
    SlidingCounter(SlidingCounter),
    TokenBucket(TokenBucket),
    LeakyBucket(LeakyBucket),
}

/// Why a configuration is not a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    #[error("'{0}' is not a limiter: expected fixed-window, sliding-log, sliding-counter, token-bucket or leaky-bucket")]
    Algorithm(String),
    #[error("'{0}' is not a counter rule: expected below or fits")]
    Rule(String),
    #[error("a bucket holds 1 to {max}, not {0}", max = Limit::MAX_BUCKET)]
    Bucket(u64),
    #[error("a {0} has no bucket: it is given by its rate alone")]
    NoBucket(Algorithm),
    #[error("a counter rule belongs to a sliding-counter, not to a {0}")]
    NoRule(Algorithm),
}

impl Algorithm {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::FixedWindow,
        Algorithm::SlidingLog,
        Algorithm::SlidingCounter,
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::FixedWindow => "fixed-window",
            Algorithm::SlidingLog => "sliding-log",
            Algorithm::SlidingCounter => "sliding-counter",
            Algorithm::TokenBucket => "token-bucket",
            Algorithm::LeakyBucket => "leaky-bucket",
        }
    }

    /// Whether it has a bucket beside its rate.
    #[must_use]
    pub const fn has_bucket(self) -> bool {
        matches!(self, Algorithm::TokenBucket | Algorithm::LeakyBucket)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Algorithm, LimitError> {
        let known = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        known.ok_or_else(|| LimitError::Algorithm(text.to_owned()))
    }
}

impl FromStr for CounterRule {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<CounterRule, LimitError> {
        match text {
            "below" => Ok(CounterRule::Below),
            "fits" => Ok(CounterRule::Fits),
            _ => Err(LimitError::Rule(text.to_owned())),
        }
    }
}

impl Limit {
    /// The largest bucket.
    pub const MAX_BUCKET: u32 = 1_000_000_000;

    /// A limit of this algorithm. Where it has a bucket and none is given, the bucket is the rate's N.
    ///
    /// # Errors
    /// [`LimitError::Bucket`] outside 1 to [`Limit::MAX_BUCKET`]; [`LimitError::NoBucket`] where the algorithm has none.
    pub fn new(algorithm: Algorithm, rate: Rate, bucket: Option<u64>) -> Result<Limit, LimitError> {
        let bucket = match bucket {
            Some(_) if !algorithm.has_bucket() => return Err(LimitError::NoBucket(algorithm)),
            Some(given) => {
                let small = u32::try_from(given).ok().filter(|b| (1..=Self::MAX_BUCKET).contains(b));
                small.ok_or(LimitError::Bucket(given))?
            }
            None => rate.limit(),
        };
        Ok(Limit { algorithm, rate, bucket, rule: CounterRule::default() })
    }

    /// The same limit with another rule of comparison.
    ///
    /// # Errors
    /// [`LimitError::NoRule`] where the algorithm is not the sliding counter.
    pub fn with_rule(self, rule: CounterRule) -> Result<Limit, LimitError> {
        if self.algorithm == Algorithm::SlidingCounter || rule == CounterRule::default() {
            Ok(Limit { rule, ..self })
        } else {
            Err(LimitError::NoRule(self.algorithm))
        }
    }

    /// What it is called beside its rate and its bucket: `token-bucket`, `sliding-counter (fits)`.
    #[must_use]
    pub fn name(self) -> String {
        if self.rule == CounterRule::default() {
            self.algorithm.to_string()
        } else {
            format!("{} ({})", self.algorithm, self.rule)
        }
    }

    /// The algorithm.
    #[must_use]
    pub const fn algorithm(self) -> Algorithm {
        self.algorithm
    }

    /// The rate.
    #[must_use]
    pub const fn rate(self) -> Rate {
        self.rate
    }

    /// The bucket, where the algorithm has one.
    #[must_use]
    pub const fn bucket(self) -> Option<u32> {
        if self.algorithm.has_bucket() { Some(self.bucket) } else { None }
    }

    /// The rule of comparison; only the sliding counter has another than the default.
    #[must_use]
    pub const fn rule(self) -> CounterRule {
        self.rule
    }

    /// The most that it ever admits at once: the bucket, or the rate's N. A request that needs more is never admitted.
    #[must_use]
    pub const fn burst(self) -> u32 {
        if self.algorithm.has_bucket() { self.bucket } else { self.rate.limit() }
    }
}

/// The limit as it is written in JSON, checked when read.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitParts {
    algorithm: Algorithm,
    rate: Rate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bucket: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    counter_rule: CounterRule,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl TryFrom<LimitParts> for Limit {
    type Error = LimitError;

    fn try_from(parts: LimitParts) -> Result<Limit, LimitError> {
        Limit::new(parts.algorithm, parts.rate, parts.bucket)?.with_rule(parts.counter_rule)
    }
}

impl From<Limit> for LimitParts {
    fn from(limit: Limit) -> LimitParts {
        let Limit { algorithm, rate, rule, .. } = limit;
        LimitParts { algorithm, rate, bucket: limit.bucket().map(u64::from), counter_rule: rule }
    }
}

/// Calls the algorithm's own function.
macro_rules! each {
    ($limiter:expr, $inner:ident => $call:expr) => {
        match $limiter {
            Limiter::FixedWindow($inner) => $call,
            Limiter::SlidingLog($inner) => $call,
            Limiter::SlidingCounter($inner) => $call,
            Limiter::TokenBucket($inner) => $call,
            Limiter::LeakyBucket($inner) => $call,
        }
    };
}

impl Limiter {
    /// A limiter of which nothing is spent.
    #[must_use]
    pub fn new(limit: Limit) -> Limiter {
        match limit.algorithm {
            Algorithm::FixedWindow => Limiter::FixedWindow(FixedWindow::new(limit.rate)),
            Algorithm::SlidingLog => Limiter::SlidingLog(SlidingLog::new(limit.rate)),
            Algorithm::SlidingCounter => Limiter::SlidingCounter(SlidingCounter::new(limit.rate, limit.rule)),
            Algorithm::TokenBucket => Limiter::TokenBucket(TokenBucket::new(limit.rate, limit.bucket)),
            Algorithm::LeakyBucket => Limiter::LeakyBucket(LeakyBucket::new(limit.rate, limit.bucket)),
        }
    }

    /// Decides and records, without working out what comes next.
    pub fn admit(&mut self, now: Timestamp, request: Request) -> Verdict {
        each!(self, limiter => limiter.admit(now, request))
    }

    /// What the same request would be answered next, at `now`. Changes nothing, so that a clock that was set back is
    /// noticed only by the next decision.
    #[must_use]
    pub fn outlook(&self, now: Timestamp, request: Request) -> Outlook {
        each!(self, limiter => limiter.outlook(now, request))
    }

    /// When a request that is admitted at `now` may leave (see [`Decision::departs_at`]): ask before admitting it.
    #[must_use]
    pub fn departure(&self, now: Timestamp) -> Timestamp {
        match self {
            Limiter::LeakyBucket(queue) => queue.departure(now).at(queue.limit()),
            _ => now,
        }
    }

    /// Decides and records, and tells when what was admitted may leave (see [`Decision::departs_at`]).
    pub fn admit_departing(&mut self, now: Timestamp, request: Request) -> (Verdict, Timestamp) {
        let departs_at = self.departure(now);
        (self.admit(now, request), departs_at)
    }

    /// Decides, records, and answers in full.
    pub fn decide(&mut self, now: Timestamp, request: Request) -> Decision {
        let (verdict, departs_at) = self.admit_departing(now, request);
        Decision { verdict, outlook: self.outlook(now, request), departs_at }
    }

    /// What is spent at `now`, in whole admissions, fractions rounded up.
    #[must_use]
    pub fn spent(&self, now: Timestamp) -> u64 {
        match self {
            Limiter::FixedWindow(limiter) => limiter.spent(now),
            Limiter::SlidingLog(limiter) => limiter.spent(now),
            Limiter::SlidingCounter(limiter) => limiter.spent(now),
            Limiter::TokenBucket(bucket) => bucket.spent(now),
            Limiter::LeakyBucket(queue) => queue.queue().spent(now),
        }
    }

    /// What a bucket has left at `now`, tokens or places in the queue, fractions included: for pictures, not for decisions.
    #[must_use]
    pub fn level(&self, now: Timestamp) -> Option<f64> {
        match self {
            Limiter::TokenBucket(bucket) => Some(bucket.level(now)),
            Limiter::LeakyBucket(queue) => Some(queue.queue().level(now)),
            _ => None,
        }
    }

    /// The limiter after its limit was changed at `now`: what was spent stays spent, and is back after the new limit's own
    /// full refill at the latest. No change gives a fresh allowance.
    ///
    /// Windows take over all that was spent, also more than the new limit; a bucket at most all it holds, because it would
    /// take longer than its own refill to forget more.
    #[must_use]
    pub fn carried_over(&self, limit: Limit, now: Timestamp) -> Limiter {
        let (rate, bucket) = (limit.rate, limit.bucket);
        let same_window = self.limit().rate.window() == rate.window();
        match (self, limit.algorithm) {
            (Limiter::FixedWindow(window), Algorithm::FixedWindow) if same_window => {
                Limiter::FixedWindow(window.carried_over(rate, now))
            }
            (Limiter::SlidingLog(log), Algorithm::SlidingLog) => Limiter::SlidingLog(log.carried_over(rate, now)),
            (Limiter::SlidingCounter(counter), Algorithm::SlidingCounter) if same_window => {
                Limiter::SlidingCounter(counter.carried_over(rate, limit.rule, now))
            }
            (Limiter::TokenBucket(old), Algorithm::TokenBucket) => Limiter::TokenBucket(old.carried_over(rate, bucket, now)),
            (Limiter::LeakyBucket(old), Algorithm::LeakyBucket) => {
                Limiter::LeakyBucket(LeakyBucket::over(old.queue().carried_over(rate, bucket, now)))
            }
            _ => Limiter::with_spent(limit, self.spent(now), now),
        }
    }

    /// A limiter of which so many admissions were spent at `now`.
    fn with_spent(limit: Limit, spent: u64, now: Timestamp) -> Limiter {
        let (rate, bucket) = (limit.rate, limit.bucket);
        let spent = u32::try_from(spent).unwrap_or(u32::MAX);
        match limit.algorithm {
            Algorithm::FixedWindow => Limiter::FixedWindow(FixedWindow::with_spent(rate, spent, now)),
            Algorithm::SlidingLog => Limiter::SlidingLog(SlidingLog::with_spent(rate, spent, now)),
            Algorithm::SlidingCounter => Limiter::SlidingCounter(SlidingCounter::with_spent(rate, limit.rule, spent, now)),
            Algorithm::TokenBucket => Limiter::TokenBucket(TokenBucket::with_spent(rate, bucket, spent, now)),
            Algorithm::LeakyBucket => Limiter::LeakyBucket(LeakyBucket::over(TokenBucket::with_spent(rate, bucket, spent, now))),
        }
    }

    /// The limit under which its state was recorded.
    #[must_use]
    pub fn limit(&self) -> Limit {
        let windowed = |algorithm, rate: Rate, rule| Limit { algorithm, rate, bucket: rate.limit(), rule };
        let bucketed = |algorithm, bucket: &TokenBucket| Limit {
            algorithm,
            rate: bucket.rate(),
            bucket: bucket.bucket(),
            rule: CounterRule::default(),
        };
        match self {
            Limiter::FixedWindow(l) => windowed(Algorithm::FixedWindow, l.rate, CounterRule::default()),
            Limiter::SlidingLog(l) => windowed(Algorithm::SlidingLog, l.rate, CounterRule::default()),
            Limiter::SlidingCounter(l) => windowed(Algorithm::SlidingCounter, l.rate, l.rule),
            Limiter::TokenBucket(bucket) => bucketed(Algorithm::TokenBucket, bucket),
            Limiter::LeakyBucket(queue) => bucketed(Algorithm::LeakyBucket, queue.queue()),
        }
    }
}
