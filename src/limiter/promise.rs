//! What a limit promises: one sentence, and one number, the most that can pass in any half-open stretch of its window.

use std::fmt;

use super::{Algorithm, CounterRule, Limit, Policy};
use crate::rate::Rate;

/// The promise of a limit or a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The most admissions in any stretch `[t, t + w)`: attained by some traffic, exceeded by none. For the leaky bucket
    /// these are departures.
    pub most_in_any_window: u64,
    sentence: String,
}

/// The promise in one sentence, without a full stop.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl Limit {
    /// What it promises.
    #[must_use]
    pub fn promise(self) -> Promise {
        let most = self.most_in_any_window();
        let (n, window) = (self.rate().limit(), in_words(self.rate()));
        let sentence = match self.algorithm() {
            Algorithm::FixedWindow => format!("at most {n} in each clock window of {window}, up to {most} across a boundary"),
            Algorithm::SlidingLog => format!("at most {n} in any {window}"),
            Algorithm::SlidingCounter => format!("about {n} in any {window}, at the very most {most}"),
            Algorithm::TokenBucket => {
                format!("up to {} at once and {n} per {window} on average, at most {most} in any {window}", self.burst())
            }
            Algorithm::LeakyBucket => {
                format!("at most {n} in any {window}, evenly spaced, up to {} waiting their turn", self.burst() - 1)
            }
        };
        Promise { most_in_any_window: most, sentence }
    }

    fn most_in_any_window(self) -> u64 {
        let (n, ticks) = (u64::from(self.rate().limit()), self.rate().window().ticks());
        // In a window of one tick there is no stretch that spans two clock windows.
        let spans_two = u64::from(ticks > 1);
        match self.algorithm() {
            Algorithm::FixedWindow => n + n * spans_two,
            Algorithm::SlidingLog | Algorithm::LeakyBucket => n,
            // A flood on the last tick of a window, then as much as the estimate lets pass by the second last tick of the
            // next: n + n (w - 2) / w, rounded up where the estimate may stay below n, down where it must fit.
            Algorithm::SlidingCounter => match self.rule() {
                CounterRule::Below => n + (n - (2 * n / ticks).min(n)) * spans_two,
                CounterRule::Fits => n + (n - (2 * n).div_ceil(ticks).min(n)) * spans_two,
            },
            Algorithm::TokenBucket => most_from_bucket(u64::from(self.burst()), n, ticks),
        }
    }
}

/// The most that a full bucket of `b` with refill `n` per `w` ticks passes within `w` ticks.
///
/// With at most one token a tick it is `b + n - 1`. Faster refills reach a small bucket's brim between two ticks, and what
/// would overflow is lost.
fn most_from_bucket(b: u64, n: u64, w: u64) -> u64 {
    let (whole, rest) = (n / w, n % w);
    if b <= whole {
        // Full again at every tick.
        b.saturating_mul(w)
    } else if b == whole + 1 && rest > 0 {
        // Each tick brings `whole` and a fraction; whenever the fractions add up to one, the bucket is full and what is
        // over is lost.
        let cycle = w.div_ceil(rest);
        b + (w - 1) * whole + (w - 1) / cycle
    } else {
        b + n - n.div_ceil(w)
    }
}

impl Policy {
    /// What it promises: the limit's promise, what is kept for large events, and what passes besides.
    #[must_use]
    pub fn promise(&self) -> Promise {
        let mut promise = self.limit.promise();
        if !self.costs.is_empty() {
            let steps: Vec<_> = self.costs.iter().map(|step| format!("{} from M {}", step.cost, step.from)).collect();
            promise.sentence = format!("{}, where an event counts {}", promise.sentence, steps.join(", "));
        }
        if let Some(reserve) = self.reserve {
            promise.sentence = format!("{}; {} kept for events of M {} or more", promise.sentence, reserve.keep, reserve.from);
        }
        if let Some(from) = self.always_from {
            promise.sentence = format!("{}; plus every event of M {from} or more", promise.sentence);
        }
        promise
    }
}

/// The window for people: `hour`, `90m`.
fn in_words(rate: Rate) -> String {
    match rate.window().to_string().as_str() {
        "1w" => "week".to_owned(),
        "1d" => "day".to_owned(),
        "1h" => "hour".to_owned(),
        "1m" => "minute".to_owned(),
        "1s" => "second".to_owned(),
        other => other.to_owned(),
    }
}
