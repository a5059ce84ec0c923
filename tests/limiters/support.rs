//! Short names for making limits and times, and the strategies that draw them.

use proptest::prelude::*;
use throttler::limiter::{Algorithm, CounterRule, Limit, Limiter, Request, Verdict};
use throttler::rate::Rate;
use throttler::time::{Span, Timestamp};

/// Ticks in a second.
pub const SECOND: i64 = 1_000_000;

/// The instant so many ticks after the epoch.
pub fn at(ticks: i64) -> Timestamp {
    Timestamp::from_ticks(ticks).expect("a tick within the years 0001 to 9999")
}

/// A limit of `n` per `window` ticks; the bucket is ignored where the algorithm has none.
pub fn limit_of(algorithm: Algorithm, n: u64, window: u64, bucket: u64) -> Limit {
    let rate = Rate::new(n, Span::from_ticks(window)).expect("a valid rate");
    Limit::new(algorithm, rate, algorithm.has_bucket().then_some(bucket)).expect("a valid limit")
}

/// The six limiters there are: five algorithms, and the sliding counter's second rule.
pub fn all_limits(n: u64, window: u64, bucket: u64) -> Vec<Limit> {
    let mut limits: Vec<_> = Algorithm::ALL.into_iter().map(|algorithm| limit_of(algorithm, n, window, bucket)).collect();
    limits.insert(3, fits(limit_of(Algorithm::SlidingCounter, n, window, bucket)));
    limits
}

/// The same sliding counter with the stricter rule.
pub fn fits(limit: Limit) -> Limit {
    limit.with_rule(CounterRule::Fits).expect("a sliding counter")
}

/// A limit from a text as on the command line, like `5/h`.
pub fn parsed(algorithm: Algorithm, rate: &str, bucket: Option<u64>) -> Limit {
    Limit::new(algorithm, rate.parse().expect("a rate"), bucket).expect("a limit")
}

/// Which of the requests of cost 1 at these times are admitted.
pub fn admitted(limit: Limit, times: &[Timestamp]) -> Vec<Timestamp> {
    let mut limiter = Limiter::new(limit);
    times.iter().copied().filter(|&t| limiter.admit(t, Request::ONE) == Verdict::Admitted).collect()
}

/// The most of these ascending times in any half-open stretch as long as `window`.
pub fn busiest(times: &[i128], window: i128) -> usize {
    let mut first = 0;
    let counts = times.iter().enumerate().map(|(i, t)| {
        while times[first] <= t - window {
            first += 1;
        }
        i + 1 - first
    });
    counts.max().unwrap_or(0)
}

/// A number from `low` to `high`, every order of magnitude as likely as another.
pub fn any_size(low: u64, high: u64) -> impl Strategy<Value = u64> {
    let bits = u64::BITS - high.leading_zeros();
    (0..=bits, any::<u64>()).prop_map(move |(bits, random)| {
        let below = if bits == u64::BITS { u64::MAX } else { (1 << bits) - 1 };
        (random & below).clamp(low, high)
    })
}

/// Any limit of the contract: 1 to 10^9 per one tick to ten years, buckets to 10^9.
pub fn any_limit() -> impl Strategy<Value = Limit> {
    let window = prop_oneof![1 => any_size(1, 12), 4 => any_size(1_000, Rate::MAX_WINDOW.ticks())];
    let limit = prop_oneof![1 => any_size(1, 12), 2 => any_size(1, u64::from(Rate::MAX_LIMIT))];
    let bucket = prop_oneof![1 => any_size(1, 12), 2 => any_size(1, u64::from(Limit::MAX_BUCKET))];
    (0..6_usize, limit, window, bucket).prop_map(|(which, n, window, bucket)| all_limits(n, window, bucket)[which])
}

/// Settings of the properties: so many cases, and no file written beside the sources.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
