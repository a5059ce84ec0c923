//! Limits on deliveries: layers of them, named, each covering a part of what leaves. All that cover a delivery are checked before
//! any is charged, and nothing is dropped: what is refused waits. Pure: what another process decides comes in as an answer.

mod covers;
mod fallback;
mod layers;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use crate::limiter::{Algorithm, Limit, Request};
use crate::plain::one_line;

pub use covers::{Covers, Kind};
pub use fallback::{FallbackError, FallbackPolicy, Leftover, StandIn, share};
pub use layers::{Layers, Openings, Refusal, Standing};

/// The most limits.
pub const MAX_LIMITS: usize = 64;
/// The largest N of a sliding log, which remembers as many admissions.
pub const MAX_LOG: u32 = 100_000;
/// The longest name of a limit, in bytes.
pub const MAX_NAME_BYTES: usize = 40;

/// What a limit is called: 1 to [`MAX_NAME_BYTES`] small letters, digits, `_` or `-`, the first a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LimitName(String);

/// One limit on deliveries. All that it covers share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryLimit {
    pub name: LimitName,
    pub covers: Covers,
    pub limit: Limit,
    /// How many admissions a delivery uses up; at least 1.
    pub cost: u32,
    /// How it is kept when its state lies in a store that several instances share; `None`: in this instance's memory.
    pub shared: Option<Shared>,
}

/// What is done without the shared store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    pub outage: FallbackPolicy,
    /// How many instances there are; at least 1.
    pub instances: u32,
}

/// Why limits are none. Each message begins with the limit's name, where it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitsError {
    #[error(
        "'{0}' is no name of a limit: expected 1 to {MAX_NAME_BYTES} small letters, digits, '_' or '-', starting with a letter or digit"
    )]
    Name(String),
    #[error("{0} limits are too many: expected at most {MAX_LIMITS}")]
    TooMany(usize),
    #[error("'{0}': there are two limits of this name")]
    Twice(LimitName),
    #[error("'{0}' covers nothing: expected channel, host, tag or all = true")]
    NoCover(LimitName),
    #[error("'{0}' says twice what it covers: expected one of channel, host, tag and all")]
    SeveralCovers(LimitName),
    #[error("'{name}' covers nothing: '{text}' is no channel; expected email or webhook, and the nearest is '{nearest}'")]
    Channel { name: LimitName, text: String, nearest: &'static str },
    #[error(
        "'{0}': a leaky-bucket makes deliveries wait, which they do under every limit; for even spacing expected a token-bucket of bucket = 1"
    )]
    Leaky(LimitName),
    #[error("'{0}': a sliding-log remembers each admission, and {1} are too many; expected at most {MAX_LOG}")]
    Log(LimitName, u32),
    #[error("'{name}' never lets anything pass: a delivery costs {cost}, and it admits at most {burst} at once")]
    Cost { name: LimitName, cost: u32, burst: u32 },
    #[error(
        "'{name}': local-share leaves one of {instances} instances nothing of {of}; expected at least {instances}, or another outage"
    )]
    NoShare { name: LimitName, instances: u32, of: String },
    #[error("'{name}': {fault}")]
    Share { name: LimitName, fault: FallbackError },
    #[error("'{0}': outage and instances belong to a limit in a shared store, and this one's is local")]
    LocalOutage(LimitName),
    #[error("'{0}': expected instances, how many there are, for local-share")]
    Instances(LimitName),
}

impl LimitName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LimitName {
    type Err = LimitsError;

    fn from_str(text: &str) -> Result<LimitName, LimitsError> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let first = text.bytes().next().is_some_and(plain);
        if first && text.bytes().all(|b| plain(b) || b"_-".contains(&b)) && text.len() <= MAX_NAME_BYTES {
            Ok(LimitName(text.to_owned()))
        } else {
            Err(LimitsError::Name(one_line(text, 2 * MAX_NAME_BYTES)))
        }
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for LimitName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<LimitName, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl DeliveryLimit {
    /// What one delivery asks of it.
    #[must_use]
    pub fn request(&self) -> Request {
        Request::costing(self.cost)
    }

    /// What nobody may use in an outage, since the limit does not divide by its instances.
    #[must_use]
    pub fn leftover(&self) -> Option<Leftover> {
        let Some(Shared { outage: FallbackPolicy::LocalShare, instances }) = self.shared else { return None };
        Leftover::of(self.limit, instances)
    }

    /// Looks whether it can be kept: whether it ever lets a delivery pass, also in an outage.
    ///
    /// # Errors
    /// [`LimitsError`] that says what is wrong with it.
    pub fn check(&self) -> Result<(), LimitsError> {
        let name = || self.name.clone();
        if self.limit.algorithm() == Algorithm::LeakyBucket {
            return Err(LimitsError::Leaky(name()));
        }
        if self.limit.algorithm() == Algorithm::SlidingLog && self.limit.rate().limit() > MAX_LOG {
            return Err(LimitsError::Log(name(), self.limit.rate().limit()));
        }
        let fits = |limit: Limit| {
            let burst = limit.burst();
            if self.cost <= burst { Ok(()) } else { Err(LimitsError::Cost { name: name(), cost: self.cost, burst }) }
        };
        fits(self.limit)?;
        let Some(Shared { outage: FallbackPolicy::LocalShare, instances }) = self.shared else { return Ok(()) };
        if self.limit.burst() < instances {
            let of = match self.limit.bucket() {
                Some(bucket) => format!("a bucket of {bucket}"),
                None => self.limit.rate().to_string(),
            };
            return Err(LimitsError::NoShare { name: name(), instances, of });
        }
        fits(share(self.limit, instances).map_err(|fault| LimitsError::Share { name: name(), fault })?)
    }
}

/// Looks whether these limits can be kept together.
///
/// # Errors
/// [`LimitsError`] for the first that is wrong.
pub fn check(limits: &[DeliveryLimit]) -> Result<(), LimitsError> {
    if limits.len() > MAX_LIMITS {
        return Err(LimitsError::TooMany(limits.len()));
    }
    for (at, limit) in limits.iter().enumerate() {
        if limits[..at].iter().any(|before| before.name == limit.name) {
            return Err(LimitsError::Twice(limit.name.clone()));
        }
        limit.check()?;
    }
    Ok(())
}
