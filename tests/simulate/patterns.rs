//! The three patterns, exactly.

use throttler::limiter::Algorithm::{FixedWindow, LeakyBucket, SlidingCounter, SlidingLog, TokenBucket};
use throttler::simulate::patterns::{Pattern, patterns};

use crate::support::{fits, limit, rate};

#[test]
fn every_limiter_on_every_pattern() {
    let of = |algorithm| limit(algorithm, "10/60s", None);
    let limits =
        [of(FixedWindow), of(SlidingLog), of(SlidingCounter), fits(of(SlidingCounter)), of(TokenBucket), of(LeakyBucket)];
    let found = patterns(rate("10/60s"), None).expect("patterns");
    assert_eq!(found.len(), 18);
    for (pattern, offered, expected) in [
        (Pattern::A, 20, [20, 10, 11, 10, 10, 10]),
        (Pattern::B, 120, [20, 20, 20, 19, 29, 29]),
        // The bucket in floating point admits 19: six refills of a sixth sum to 0.9999….
        (Pattern::C, 70, [11, 11, 10, 10, 20, 20]),
    ] {
        for (limit, admitted) in limits.into_iter().zip(expected) {
            let row = found.iter().find(|row| row.pattern == pattern && row.limit == limit).expect("a row for each limiter");
            assert_eq!((row.tally.offered, row.tally.admitted), (offered, admitted), "{pattern} {limit:?}");
        }
    }
}

#[test]
fn a_bucket_in_floating_point_admits_one_less_of_pattern_c() {
    let (mut tokens, mut before, mut admitted) = (10.0_f64, 0.0, 0);
    for request in Pattern::C.requests() {
        let now = request.ticks() as f64 / 1e6;
        tokens = (tokens + (now - before) * (10.0 / 60.0)).min(10.0);
        before = now;
        if tokens >= 1.0 {
            tokens -= 1.0;
            admitted += 1;
        }
    }
    assert_eq!(admitted, 19);
}
