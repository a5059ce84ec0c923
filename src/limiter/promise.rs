//! What a limit promises: one sentence, and one number, the most that can pass in any half-open stretch of its window.

use std::fmt;

use super::{Algorithm, CounterRule, Limit, Policy, Reserve};
use crate::time::Span;

/// The promise of a limit or a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The most that the limiter admits in any stretch `[t, t + w)`: attained by some traffic, exceeded by none. For the
    /// leaky bucket these are departures; what a policy passes beyond its limiter is not in it.
    pub most_in_any_window: u64,
    sentence: String,
}

/// The promise in one sentence, without a full stop.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.sentence)
    }
}

impl Limit {
    /// What it promises.
    #[must_use]
    pub fn promise(self) -> Promise {
        let most = self.most_in_any_window();
        let (n, window) = (self.rate().limit(), self.rate().window().in_words());
        let sentence = match self.algorithm() {
            Algorithm::FixedWindow => format!("at most {n} in each {window} by the clock, at most {most} in any {window}"),
            Algorithm::SlidingLog => format!("at most {most} in any {window}"),
            Algorithm::SlidingCounter => format!("about {n} in any {window}, never more than {most}"),
            Algorithm::TokenBucket => {
                let burst = match self.burst() {
                    1 => "one at a time".to_owned(),
                    burst => format!("up to {burst} at once"),
                };
                format!("{burst}, {n} per {window} on average, at most {most} in any {window}")
            }
            Algorithm::LeakyBucket => {
                let wait = self.longest_wait().counted();
                let queue = match self.burst() {
                    1 => "none waits".to_owned(),
                    2 => format!("one may wait its turn, at most {wait}"),
                    places => format!("up to {} wait their turn, at most {wait}", places - 1),
                };
                format!("at most {most} leave in any {window}, evenly spaced; {queue}")
            }
        };
        Promise { most_in_any_window: most, sentence }
    }

    /// The longest wait in a leaky bucket's queue, `(b - 1) * w / n`, rounded up to a second, from two minutes on to a
    /// minute.
    fn longest_wait(self) -> Span {
        let ticks = u128::from(self.burst() - 1) * u128::from(self.rate().window().ticks());
        // At most 10^9 windows of ten years: more than 64 bits hold, but then no number that anyone reads.
        let ticks = u64::try_from(ticks.div_ceil(self.rate().limit().into())).unwrap_or(u64::MAX);
        let unit = if ticks <= TWO_MINUTES { 1_000_000 } else { 60_000_000 };
        Span::from_ticks(ticks.div_ceil(unit).saturating_mul(unit))
    }

    fn most_in_any_window(self) -> u64 {
        let (n, ticks) = (u64::from(self.rate().limit()), self.rate().window().ticks());
        // In a window of one tick there is no stretch that spans two clock windows.
        let spans_two = u64::from(ticks > 1);
        match self.algorithm() {
            Algorithm::FixedWindow => n + n * spans_two,
            Algorithm::SlidingLog => n,
            // A flood on the last tick of a window, then as much as the estimate lets pass by the second last tick of the
            // next: n + n (w - 2) / w, rounded up where the estimate may stay below n, down where it must fit.
            Algorithm::SlidingCounter => match self.rule() {
                CounterRule::Below => n + (n - (2 * n / ticks).min(n)) * spans_two,
                CounterRule::Fits => n + (n - (2 * n).div_ceil(ticks).min(n)) * spans_two,
            },
            Algorithm::TokenBucket => most_from_bucket(u64::from(self.burst()), n, ticks),
            // Less than n where the queue is so short that it runs empty between two ticks.
            Algorithm::LeakyBucket => most_from_bucket(u64::from(self.burst()), n, ticks).min(n),
        }
    }
}

const TWO_MINUTES: u64 = 120_000_000;

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
        let Promise { most_in_any_window, sentence } = self.limit.promise();
        let mut clauses = vec![sentence];
        if !self.costs.is_empty() {
            let steps: Vec<_> = self.costs.iter().map(|step| format!("M {} or more as {}", step.from, step.cost)).collect();
            clauses.push(format!("counting an event of {}", steps.join(", of ")));
        }
        if let Some(Reserve { keep, from }) = self.reserve {
            let last = if keep == 1 { "one is".to_owned() } else { format!("{keep} are") };
            clauses.push(format!("the last {last} kept for events of M {from} or more"));
        }
        if let Some(from) = self.always_from {
            clauses.push(format!("plus every event of M {from} or more"));
        }
        Promise { most_in_any_window, sentence: clauses.join("; ") }
    }
}
