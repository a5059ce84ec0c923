//! Reading `Retry-After` (RFC 9110, section 10.2.3): seconds, or a date in any of the three forms that HTTP allows.

use std::time::UNIX_EPOCH;

use crate::delivery::outcome::MAX_RETRY_AFTER;
use crate::time::{Span, Timestamp};

/// How long to wait from `now`, at most [`MAX_RETRY_AFTER`]; zero for a date that is past, `None` if it is neither form.
pub(super) fn read(value: &[u8], now: Timestamp) -> Option<Span> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        Span::from_seconds(text.parse().unwrap_or(u64::MAX))
    } else {
        let since_epoch = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        let ticks = i128::try_from(since_epoch.as_micros()).ok()?;
        Timestamp::saturating_from_ticks(ticks).since(now)
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_bounded() {
        let now: Timestamp = "2025-07-30T00:00:00.250Z".parse().expect("time");
        for (value, wait) in [
            ("0", Some(Span::ZERO)),
            (" 120 ", Some(Span::from_seconds(120))),
            ("86401", Some(MAX_RETRY_AFTER)),
            ("99999999999999999999999", Some(MAX_RETRY_AFTER)),
            ("Wed, 30 Jul 2025 00:02:00 GMT", Some(Span::from_millis(119_750))),
            ("Wednesday, 30-Jul-25 00:02:00 GMT", Some(Span::from_millis(119_750))),
            ("Wed Jul 30 00:02:00 2025", Some(Span::from_millis(119_750))),
            ("Tue, 29 Jul 2025 00:02:00 GMT", Some(Span::ZERO)),
            ("Fri, 30 Jul 2055 00:02:00 GMT", Some(MAX_RETRY_AFTER)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            assert_eq!(read(value.as_bytes(), now), wait, "{value}");
        }
        assert_eq!(read(b"\xff", now), None);
    }
}
