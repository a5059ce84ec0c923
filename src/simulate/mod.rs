//! The laboratory: what each limiter does with traffic made to order. The same seed gives the same result on every machine
//! and with any number of threads.
//!
//! Every decision is the limiters' own; what is not a limiter of the product, but is shown here for its fault or for
//! comparison, is in `variants` and says so. Each experiment is one file with its set-up, which is checked before any work,
//! and its results. Nothing here prints or reads a clock: time is simulated, in ticks from 0.

pub mod attack;
pub mod clients;
mod error;
pub mod lockout;
pub mod outage;
mod parallel;
pub mod patterns;
mod random;
pub mod split;
pub mod statistics;
mod tally;
pub mod traffic;
pub mod variants;

pub use error::SetupError;
pub use parallel::Work;
pub use random::Stream;
pub use tally::{Tally, tally, tally_each};

use crate::limiter::{Limit, Limiter};
use crate::time::{Span, Timestamp};

/// The most requests that one run may be expected to have: 8 bytes each, held at once by every thread.
pub const MAX_REQUESTS_A_RUN: u64 = 10_000_000;
/// The most decisions that one experiment may be expected to take: minutes of work.
pub const MAX_DECISIONS: u64 = 20_000_000_000;
/// The most runs.
pub const MAX_RUNS: u32 = 10_000;
/// The longest run: then every time of it is a timestamp.
pub const MAX_LENGTH: Span = crate::rate::Rate::MAX_WINDOW;

/// The instant so many ticks after the beginning of a simulation.
fn tick(ticks: u64) -> Timestamp {
    Timestamp::saturating_from_ticks(ticks.into())
}

/// When a request that is admitted now passes, in ticks times the rate's `n`: at once, or in its turn in the leaky bucket's
/// queue, exactly. Ask before admitting it.
fn passes_at(limiter: &Limiter, limit: u32, now: Timestamp) -> i128 {
    match limiter {
        Limiter::LeakyBucket(queue) => queue.departure(now).scaled,
        _ => i128::from(now.ticks()) * i128::from(limit),
    }
}

/// The most of these times, ascending and in ticks times the rate's `n`, in any half-open stretch of the rate's window.
fn busiest(limit: Limit, passed: &[i128]) -> u64 {
    let rate = limit.rate();
    crate::replay::busiest_window(passed, i128::from(rate.window().ticks()) * i128::from(rate.limit()))
}

/// The buckets that are compared where none is given: a half and three quarters of the rate's `n`.
fn usual_buckets(rate: crate::rate::Rate) -> Vec<u64> {
    let n = u64::from(rate.limit());
    let mut buckets = vec![n.div_ceil(2), (3 * n).div_ceil(4)];
    buckets.dedup();
    buckets
}
