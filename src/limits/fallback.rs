//! What an instance does with a shared limit while the store that holds it is away. Pure: the caller says when that is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limiter::{Limit, LimitError, Limiter, Request, Verdict};
use crate::rate::{Rate, RateError};
use crate::time::{Span, Timestamp};

/// The rule for the time without the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackPolicy {
    /// Admits everything.
    FailOpen,
    /// Admits nothing.
    FailClosed,
    /// Each instance keeps the full rate and bucket on its own, starting full: `K` instances pass up to `K` times as much.
    LocalFull,
    /// Each instance keeps its share of the rate and of the bucket on its own, starting full.
    LocalShare,
}

/// Why there is no such rule, or no share of the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FallbackError {
    #[error("'{0}' is not a policy: expected fail-open, fail-closed, local-full or local-share")]
    Policy(String),
    #[error("the share of one instance is no rate")]
    Rate(#[from] RateError),
    #[error("the share of one instance is no limit")]
    Limit(#[from] LimitError),
}

impl FallbackPolicy {
    /// All of them, in the order in which they are shown.
    pub const ALL: [FallbackPolicy; 4] =
        [FallbackPolicy::FailOpen, FallbackPolicy::FailClosed, FallbackPolicy::LocalFull, FallbackPolicy::LocalShare];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FallbackPolicy::FailOpen => "fail-open",
            FallbackPolicy::FailClosed => "fail-closed",
            FallbackPolicy::LocalFull => "local-full",
            FallbackPolicy::LocalShare => "local-share",
        }
    }

    /// What one of `instances` (at least 1) decides with from the moment it loses the store.
    ///
    /// # Errors
    /// [`FallbackError::Rate`] where the share's window would be longer than a rate allows.
    pub fn stand_in(self, limit: Limit, instances: u32) -> Result<StandIn, FallbackError> {
        Ok(match self {
            FallbackPolicy::FailOpen => StandIn::Open,
            FallbackPolicy::FailClosed => StandIn::Closed,
            FallbackPolicy::LocalFull => StandIn::Local(Limiter::new(limit)),
            FallbackPolicy::LocalShare => StandIn::Local(Limiter::new(share(limit, instances)?)),
        })
    }
}

impl fmt::Display for FallbackPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FallbackPolicy {
    type Err = FallbackError;

    fn from_str(text: &str) -> Result<FallbackPolicy, FallbackError> {
        let known = FallbackPolicy::ALL.into_iter().find(|policy| policy.name() == text);
        known.ok_or_else(|| FallbackError::Policy(text.to_owned()))
    }
}

/// One instance's stand-in for the shared limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandIn {
    Open,
    Closed,
    Local(Limiter),
}

impl StandIn {
    /// Decides in place of the shared limiter.
    pub fn admit(&mut self, now: Timestamp, request: Request) -> Verdict {
        match self {
            StandIn::Open => Verdict::Admitted,
            StandIn::Closed => Verdict::Refused,
            StandIn::Local(limiter) => limiter.admit(now, request),
        }
    }
}

/// One instance's share of a limit.
///
/// A bucket refills `n` per `K` windows, which is exactly its share, and holds `b / K`, at least 1. A window has room for
/// `n / K`, rounded down, or for 1 in so many windows that all instances together stay within `n` per window.
///
/// # Errors
/// [`FallbackError::Rate`] where its window would be longer than a rate allows.
pub fn share(limit: Limit, instances: u32) -> Result<Limit, FallbackError> {
    let instances = instances.max(1);
    let (n, window) = (limit.rate().limit(), limit.rate().window().ticks());
    let longer = |times: u32| Span::from_ticks(window.saturating_mul(times.into()));
    let (rate, bucket) = match limit.bucket() {
        Some(bucket) => (Rate::new(n.into(), longer(instances))?, Some(u64::from(bucket / instances).max(1))),
        None if n >= instances => (Rate::new((n / instances).into(), longer(1))?, None),
        None => (Rate::new(1, longer(instances.div_ceil(n)))?, None),
    };
    Ok(Limit::new(limit.algorithm(), rate, bucket)?.with_rule(limit.rule())?)
}

/// What `local-share` leaves to nobody, where a bucket, or the N of a window, does not divide by the instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    limit: Limit,
    instances: u32,
    each: u32,
    /// How much less all instances together admit at once than the limit; at least 1.
    unused: u32,
}

impl Leftover {
    /// `None` where nothing is left over, or there is no share.
    #[must_use]
    pub fn of(limit: Limit, instances: u32) -> Option<Leftover> {
        let each = share(limit, instances).ok()?.burst();
        let unused = limit.burst().checked_sub(each.checked_mul(instances)?)?;
        (unused > 0).then_some(Leftover { limit, instances, each, unused })
    }
}

/// Words that go on after the limit's name.
impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Leftover { limit, instances, each, unused } = self;
        let of = limit.bucket().map_or_else(|| limit.rate().to_string(), |bucket| format!("a bucket of {bucket}"));
        let are = if *unused == 1 { "is" } else { "are" };
        write!(f, "local-share gives each of {instances} instances {each} of {of}, and {unused} {are} left over")
    }
}
