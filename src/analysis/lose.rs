//! The smallest bucket that loses no more than is accepted.

use std::str::FromStr;

use super::needs;
use crate::limiter::{Limit, Request, TokenBucket, Verdict};
use crate::rate::Rate;
use crate::time::Timestamp;

/// The most decimals that a percentage may have.
const MAX_DECIMALS: usize = 9;

/// How much may be lost: a number of events, or an exact share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedLoss {
    /// At most so many.
    Events(u64),
    /// At most so many of each `of`; `of` is not zero.
    Share { lost: u64, of: u64 },
}

/// Why something is not an accepted loss.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an accepted loss: expected a number of events, like 10, or a percentage from 0 to 100, like 0.5%")]
pub struct AcceptedLossError(String);

impl AcceptedLoss {
    /// The most of `events` events that may be lost, rounded down.
    #[must_use]
    pub fn of(self, events: u64) -> u64 {
        match self {
            Self::Events(most) => most,
            Self::Share { lost, of } => {
                let most = u128::from(events) * u128::from(lost) / u128::from(of.max(1));
                u64::try_from(most).unwrap_or(u64::MAX)
            }
        }
    }
}

/// `10` for ten events, `0.5%` for one in two hundred.
impl FromStr for AcceptedLoss {
    type Err = AcceptedLossError;

    fn from_str(text: &str) -> Result<AcceptedLoss, AcceptedLossError> {
        let error = || AcceptedLossError(text.to_owned());
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            if plain { digits.parse::<u64>().map_err(|_| error()) } else { Err(error()) }
        };
        let Some(percent) = text.strip_suffix('%') else {
            return number(text).map(Self::Events);
        };
        let (whole, decimals) = percent.split_once('.').map_or((percent, None), |(whole, decimals)| (whole, Some(decimals)));
        let decimals = decimals.unwrap_or("0");
        if decimals.len() > MAX_DECIMALS {
            return Err(error());
        }
        let scale = (0..decimals.len()).fold(1_u64, |scale, _| scale * 10);
        let lost =
            number(whole)?.checked_mul(scale).and_then(|lost| lost.checked_add(number(decimals).ok()?)).ok_or_else(error)?;
        number(decimals)?;
        let of = 100 * scale;
        if lost > of { Err(error()) } else { Ok(Self::Share { lost, of }) }
    }
}

/// A bucket and what it loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossyBucket {
    pub bucket: u64,
    /// How many events are refused.
    pub lost: u64,
}

/// The smallest bucket that refuses at most `most` of the events at ascending times; 0 if all may be lost.
///
/// Found by bisection: no choice of events that a smaller bucket could admit is longer than what a larger one does admit,
/// so the loss never rises with the bucket.
#[must_use]
pub fn smallest_bucket(times: &[Timestamp], rate: Rate, most: u64) -> LossyBucket {
    let lossless = needs(times, &[rate]).results.first().map_or(0, |result| result.bucket);
    let (mut low, mut high) = (0, LossyBucket { bucket: lossless, lost: 0 });
    while low < high.bucket {
        let bucket = low + (high.bucket - low) / 2;
        let lost = lost(times, rate, bucket);
        if lost <= most {
            high = LossyBucket { bucket, lost };
        } else {
            low = bucket + 1;
        }
    }
    high
}

/// How many of the events at ascending times a token bucket refuses that starts full.
#[must_use]
pub fn lost(times: &[Timestamp], rate: Rate, bucket: u64) -> u64 {
    // More than the largest bucket is never needed: it would take as many events.
    let bucket = u32::try_from(bucket).unwrap_or(Limit::MAX_BUCKET).min(Limit::MAX_BUCKET);
    if bucket == 0 {
        return times.len() as u64;
    }
    let mut limiter = TokenBucket::new(rate, bucket);
    times.iter().filter(|at| limiter.admit(**at, Request::ONE) != Verdict::Admitted).count() as u64
}
