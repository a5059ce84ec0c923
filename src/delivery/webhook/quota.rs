//! `RateLimit-Policy` and `RateLimit`: the limit in the form of draft-ietf-httpapi-ratelimit-headers-11. The draft defines
//! them for responses; here the sender of a request tells of its own limit, with the same meaning.
//!
//! `q` is the burst and `w` the time in which an empty limiter is full again (burst × window / limit): for the limiters
//! without a bucket that is the rate as configured, for a bucket it is the quota with the same long-run rate, and `r` never
//! exceeds `q`. `t`, the seconds until more is available, is sent when `r` is 0; while some remain the draft lets it be left
//! out, and the body's `reset_at` tells when all are back.

use crate::alert::Explanation;
use crate::time::{TICKS_PER_SECOND, Timestamp};

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// `"default";q=74;w=53280` for 5/h and a bucket of 74.
pub(super) fn policy(explanation: &Explanation) -> String {
    let rate = explanation.rate;
    // At most 2^64 · 2^64, so it stays within 128 bits.
    let ticks = u128::from(explanation.burst) * u128::from(rate.window().ticks());
    let per_second = u128::from(rate.limit()) * u128::from(TICKS_PER_SECOND.unsigned_abs());
    let window_s = u64::try_from(ticks.div_ceil(per_second)).unwrap_or(MAX_INTEGER).clamp(1, MAX_INTEGER);
    format!("\"default\";q={};w={window_s}", explanation.burst.min(MAX_INTEGER))
}

/// `"default";r=12`, or `"default";r=0;t=720` with the seconds from `now`, rounded up.
pub(super) fn current(explanation: &Explanation, now: Timestamp) -> String {
    let remaining = explanation.remaining.min(MAX_INTEGER);
    if remaining > 0 {
        return format!("\"default\";r={remaining}");
    }
    let wait_s = explanation.retry_at.since(now).ticks().div_ceil(TICKS_PER_SECOND.unsigned_abs());
    format!("\"default\";r=0;t={wait_s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quota_has_the_long_run_rate_of_the_limit() {
        let now: Timestamp = "2025-07-30".parse().expect("date");
        for (rate, burst, remaining, retry_at, policy_value, current_value) in [
            ("5/h", 74, 12, "2025-07-30", "\"default\";q=74;w=53280", "\"default\";r=12"),
            ("5/h", 5, 0, "2025-07-30T00:11:59.000001Z", "\"default\";q=5;w=3600", "\"default\";r=0;t=720"),
            ("7/m", 1, 0, "2025-07-29", "\"default\";q=1;w=9", "\"default\";r=0;t=0"),
            ("1000/s", 1, 1, "2025-07-30", "\"default\";q=1;w=1", "\"default\";r=1"),
            (
                "1/w",
                u64::MAX,
                u64::MAX,
                "2025-07-30",
                "\"default\";q=999999999999999;w=999999999999999",
                "\"default\";r=999999999999999",
            ),
        ] {
            let explanation = Explanation {
                reason: String::new(),
                promise: String::new(),
                rate: rate.parse().expect(rate),
                burst,
                remaining,
                retry_at: retry_at.parse().expect(retry_at),
                reset_at: now,
            };
            assert_eq!((policy(&explanation).as_str(), current(&explanation, now).as_str()), (policy_value, current_value));
        }
    }
}
