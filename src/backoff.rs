//! How long to wait after a failure: exponential backoff with full jitter, and what `Retry-After` asks for.
//! Chance and the time come in as arguments; who waits, and how often, is the caller's business.

use chrono::NaiveDateTime;

use crate::time::{Span, Timestamp};

/// The longest wait that a server's `Retry-After` is granted: one day.
pub const MAX_RETRY_AFTER: Span = Span::from_seconds(86_400);

/// The wait before the next try after `failures` failures in a row: uniform from zero to the ceiling, both inclusive.
///
/// The ceiling is `base` after the first failure, doubles with every further one, and is never above `max`. `random` is one
/// draw from all 64-bit numbers; 0 gives no wait, `u64::MAX` the ceiling. Without a failure there is no wait.
/// Full jitter after M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
#[must_use]
pub fn delay(failures: u32, base: Span, max: Span, random: u64) -> Span {
    let Some(doublings) = failures.checked_sub(1) else { return Span::ZERO };
    // Beyond 63 doublings every base but zero is above what a span holds.
    let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
    let ceiling = base.ticks().saturating_mul(factor).min(max.ticks());
    // The high half of a product below 2^128: at most the ceiling, and no remainder to favour small waits.
    let scaled = (u128::from(random) * (u128::from(ceiling) + 1)) >> 64;
    Span::from_ticks(u64::try_from(scaled).unwrap_or(ceiling))
}

/// The longer of the two: a server that asks for a pause is not tried before its end, chance or not.
#[must_use]
pub fn at_least(delay: Span, retry_after: Option<Span>) -> Span {
    delay.max(retry_after.unwrap_or(Span::ZERO))
}

/// Reads a `Retry-After` header: whole seconds, or an HTTP date in any of its three forms (RFC 9110, 5.6.7 and 10.2.3).
///
/// At most [`MAX_RETRY_AFTER`]; zero for a date that has passed at `now`. `None` if it is neither form.
#[must_use]
pub fn parse_retry_after(header: &str, now: Timestamp) -> Option<Span> {
    let text = header.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // Digits only, so that a failure means more seconds than 64 bits hold.
        let seconds = text.parse().unwrap_or(u64::MAX);
        return Some(Span::from_seconds(seconds).min(MAX_RETRY_AFTER));
    }
    let formats = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
    let date = formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())?;
    let at = Timestamp::from_ticks(date.and_utc().timestamp_micros()).ok()?;
    Some(at.since(now).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Span = Span::from_seconds(1);
    const MINUTE: Span = Span::from_seconds(60);

    #[test]
    fn the_ceiling_doubles_up_to_the_maximum() {
        let ceilings: Vec<u64> = (0..10).map(|n| delay(n, SECOND, MINUTE, u64::MAX).ticks() / 1_000_000).collect();
        assert_eq!(ceilings, [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        for failures in [64, 65, 1_000, u32::MAX] {
            assert_eq!(delay(failures, SECOND, MINUTE, u64::MAX), MINUTE);
            assert_eq!(delay(failures, Span::ZERO, MINUTE, u64::MAX), Span::ZERO);
        }
        let all = Span::from_ticks(u64::MAX);
        assert_eq!(delay(u32::MAX, all, all, u64::MAX), all);
    }

    #[test]
    fn chance_spreads_the_wait_evenly_from_zero_to_the_ceiling() {
        let three = Span::from_ticks(3);
        let quarters = [0, u64::MAX / 4, u64::MAX / 4 + 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX / 4 * 3, u64::MAX];
        let waits: Vec<u64> = quarters.iter().map(|&random| delay(1, three, MINUTE, random).ticks()).collect();
        assert_eq!(waits, [0, 0, 1, 1, 2, 2, 3], "four equal parts for the waits 0, 1, 2 and 3");
    }

    #[test]
    fn a_server_is_not_tried_before_the_time_it_asks_for() {
        assert_eq!(at_least(SECOND, Some(MINUTE)), MINUTE);
        assert_eq!(at_least(MINUTE, Some(SECOND)), MINUTE);
        assert_eq!(at_least(SECOND, None), SECOND);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = "1994-11-06T08:48:37Z".parse().expect("an instant");
        for (header, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("99999999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(60)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(60)),
            ("Sun Nov  6 08:49:37 1994", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400)),
            ("", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ] {
            assert_eq!(parse_retry_after(header, now), seconds.map(Span::from_seconds), "{header:?}");
        }
    }
}
