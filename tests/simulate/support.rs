//! Short names, and how near is near enough.

use throttler::limiter::{Algorithm, CounterRule, Limit};
use throttler::rate::Rate;
use throttler::simulate::statistics::Estimate;

pub fn rate(text: &str) -> Rate {
    text.parse().expect("a rate")
}

/// The rate of the published experiments.
pub fn published_rate() -> Rate {
    rate("100/60s")
}

pub fn limit(algorithm: Algorithm, text: &str, bucket: Option<u64>) -> Limit {
    Limit::new(algorithm, rate(text), bucket).expect("a limit")
}

pub fn fits(limit: Limit) -> Limit {
    limit.with_rule(CounterRule::Fits).expect("a sliding counter")
}

/// Holds a share against a published one in percent: within three standard errors of the difference, the published one's
/// being taken as large as ours, and at least 0.3 points.
pub fn assert_published(what: &str, found: Estimate, published_percent: f64) {
    let tolerance = (3.0 * found.stderr * 2.0_f64.sqrt()).max(0.003);
    let difference = (found.mean - published_percent / 100.0).abs();
    assert!(difference <= tolerance, "{what}: {found:?}, published {published_percent} %, tolerance {tolerance}");
}
