//! A limiter's state as bytes for a row: versioned, and telling the limit under which it was recorded, so that no reader
//! can take it for another's. Bytes that cannot be read are an error, never a fresh allowance.

use super::fixed_window::{window_number, window_ticks};
use super::sliding_log::Stamp;
use super::{
    Algorithm, CounterRule, FixedWindow, LeakyBucket, Limit, LimitError, Limiter, SlidingCounter, SlidingLog, TokenBucket,
};
use crate::rate::{Rate, RateError};
use crate::time::{Span, Timestamp};

/// The version that is written, the first byte.
pub const STATE_VERSION: u8 = 1;

/// Why stored bytes are not a limiter's state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error("the limiter state has version {0}, this program reads version {STATE_VERSION}")]
    Version(u8),
    #[error("the limiter state ends after {0} bytes, where more were expected")]
    Short(usize),
    #[error("the limiter state has {0} bytes more than expected")]
    Long(usize),
    #[error("the limiter state names an unknown algorithm ({0})")]
    Algorithm(u8),
    #[error("the limiter state contradicts itself: {0}")]
    Inconsistent(&'static str),
    #[error("the limiter state holds no valid rate")]
    Rate(#[from] RateError),
    #[error("the limiter state holds no valid limit")]
    Limit(#[from] LimitError),
}

impl Limiter {
    /// The state as bytes: the version, the algorithm, the limit, then what is spent, all little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let limit = self.limit();
        let mut bytes = vec![STATE_VERSION, tag(limit)];
        bytes.extend(limit.rate().limit().to_le_bytes());
        bytes.extend(limit.rate().window().ticks().to_le_bytes());
        match self {
            Limiter::FixedWindow(l) => {
                bytes.extend(l.window.to_le_bytes());
                bytes.extend(l.used.to_le_bytes());
            }
            Limiter::SlidingLog(l) => {
                bytes.extend(l.last.to_le_bytes());
                // Every stamp is an admission within one window, at most 10^9 of them.
                bytes.extend(u32::try_from(l.stamps.len()).unwrap_or(u32::MAX).to_le_bytes());
                for stamp in &l.stamps {
                    bytes.extend(stamp.at.to_le_bytes());
                    bytes.extend(stamp.cost.to_le_bytes());
                }
            }
            Limiter::SlidingCounter(l) => {
                bytes.extend(l.window.to_le_bytes());
                bytes.extend(l.previous.to_le_bytes());
                bytes.extend(l.current.to_le_bytes());
                bytes.extend(l.last.to_le_bytes());
            }
            Limiter::TokenBucket(bucket) => write_bucket(&mut bytes, bucket),
            Limiter::LeakyBucket(queue) => write_bucket(&mut bytes, queue.queue()),
        }
        bytes
    }

    /// Reads what [`Limiter::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`StateError`] for another version, missing or surplus bytes, an unknown algorithm, or values that no limiter has.
    pub fn from_bytes(bytes: &[u8]) -> Result<Limiter, StateError> {
        let mut rest = Reader { all: bytes, at: 0 };
        let [version] = rest.take()?;
        if version != STATE_VERSION {
            return Err(StateError::Version(version));
        }
        let [tag] = rest.take()?;
        let rate = Rate::new(u32::from_le_bytes(rest.take()?).into(), Span::from_ticks(u64::from_le_bytes(rest.take()?)))?;
        let limiter = match tag {
            0 => Limiter::FixedWindow(read_window(rate, &mut rest)?),
            1 => Limiter::SlidingLog(read_log(rate, &mut rest)?),
            2 | 3 => {
                let rule = if tag == 2 { CounterRule::Below } else { CounterRule::Fits };
                Limiter::SlidingCounter(read_counter(rate, rule, &mut rest)?)
            }
            4 => Limiter::TokenBucket(read_bucket(rate, &mut rest)?),
            5 => Limiter::LeakyBucket(LeakyBucket::over(read_bucket(rate, &mut rest)?)),
            other => return Err(StateError::Algorithm(other)),
        };
        match rest.all.len() - rest.at {
            0 => Ok(limiter),
            surplus => Err(StateError::Long(surplus)),
        }
    }
}

fn tag(limit: Limit) -> u8 {
    match (limit.algorithm(), limit.rule()) {
        (Algorithm::FixedWindow, _) => 0,
        (Algorithm::SlidingLog, _) => 1,
        (Algorithm::SlidingCounter, CounterRule::Below) => 2,
        (Algorithm::SlidingCounter, CounterRule::Fits) => 3,
        (Algorithm::TokenBucket, _) => 4,
        (Algorithm::LeakyBucket, _) => 5,
    }
}

fn write_bucket(bytes: &mut Vec<u8>, bucket: &TokenBucket) {
    bytes.extend(bucket.bucket().to_le_bytes());
    bytes.extend(bucket.tat().to_le_bytes());
}

fn read_bucket(rate: Rate, rest: &mut Reader) -> Result<TokenBucket, StateError> {
    let bucket = rest.u32()?;
    Limit::new(Algorithm::TokenBucket, rate, Some(bucket.into()))?;
    let read = TokenBucket::at(rate, bucket, i128::from_le_bytes(rest.take()?));
    if read.is_of_some_time() { Ok(read) } else { Err(StateError::Inconsistent("its arrival time is outside all time")) }
}

fn read_window(rate: Rate, rest: &mut Reader) -> Result<FixedWindow, StateError> {
    let read = FixedWindow { rate, window: rest.i64()?, used: rest.u32()? };
    let windows = window_number(Timestamp::MIN, rate)..=window_number(Timestamp::MAX, rate);
    if windows.contains(&read.window) || read == FixedWindow::new(rate) {
        Ok(read)
    } else {
        Err(StateError::Inconsistent("its window is outside all time"))
    }
}

fn read_log(rate: Rate, rest: &mut Reader) -> Result<SlidingLog, StateError> {
    let mut log = SlidingLog { last: rest.i64()?, ..SlidingLog::new(rate) };
    for _ in 0..rest.u32()? {
        let stamp = Stamp { at: rest.i64()?, cost: rest.u32()? };
        let after_all = log.stamps.back().is_none_or(|before| before.at < stamp.at);
        let in_window = stamp.at <= log.last && stamp.at > log.last.saturating_sub(window_ticks(rate));
        if stamp.cost == 0 || !after_all || !in_window {
            return Err(StateError::Inconsistent("its stamps are not in order or not of one window"));
        }
        log.used += u64::from(stamp.cost);
        log.stamps.push_back(stamp);
    }
    if Timestamp::from_ticks(log.last).is_ok() || log == SlidingLog::new(rate) {
        Ok(log)
    } else {
        Err(StateError::Inconsistent("its last decision is outside all time"))
    }
}

fn read_counter(rate: Rate, rule: CounterRule, rest: &mut Reader) -> Result<SlidingCounter, StateError> {
    let read = SlidingCounter { rate, rule, window: rest.i64()?, previous: rest.u32()?, current: rest.u32()?, last: rest.i64()? };
    let in_window = Timestamp::from_ticks(read.last).is_ok_and(|last| window_number(last, rate) == read.window);
    if in_window || read == SlidingCounter::new(rate, rule) {
        Ok(read)
    } else {
        Err(StateError::Inconsistent("its last decision is outside its window"))
    }
}

/// Takes fixed pieces off the front and knows how far it is.
struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], StateError> {
        let piece = self.all.get(self.at..).and_then(|rest| rest.first_chunk::<N>()).ok_or(StateError::Short(self.all.len()))?;
        self.at += N;
        Ok(*piece)
    }

    fn i64(&mut self) -> Result<i64, StateError> {
        self.take().map(i64::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, StateError> {
        self.take().map(u32::from_le_bytes)
    }
}
