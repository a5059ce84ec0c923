//! Reads the times of a column, one after another, in one of the formats that logs and catalogues use.

use std::str::FromStr;

use chrono::NaiveDate;

use super::error::CatalogueError;
use crate::time::{Span, TICKS_PER_MILLISECOND, Timestamp};

/// How the times of a column are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// What [`Timestamp`] reads: RFC 3339 with any offset, or a date.
    #[default]
    Rfc3339,
    /// Seconds since 1970, with up to six decimals.
    EpochSeconds,
    /// Milliseconds since 1970, with up to three decimals.
    EpochMillis,
    /// Microseconds since 1970.
    EpochMicros,
}

impl TimeFormat {
    /// What a value should have been, for a message.
    pub(super) const fn expected(self) -> &'static str {
        match self {
            Self::Rfc3339 => "a time: expected RFC 3339, like 2015-01-01T08:49:53.200Z",
            Self::EpochSeconds => "a time: expected seconds since 1970 with at most 6 decimals, like 1420102193.2",
            Self::EpochMillis => "a time: expected milliseconds since 1970 with at most 3 decimals, like 1420102193200",
            Self::EpochMicros => "a time: expected whole microseconds since 1970, like 1420102193200000",
        }
    }
}

/// `rfc3339`, `epoch-s`, `epoch-ms` or `epoch-us`.
impl FromStr for TimeFormat {
    type Err = CatalogueError;

    fn from_str(text: &str) -> Result<TimeFormat, CatalogueError> {
        match text {
            "rfc3339" => Ok(Self::Rfc3339),
            "epoch-s" => Ok(Self::EpochSeconds),
            "epoch-ms" => Ok(Self::EpochMillis),
            "epoch-us" => Ok(Self::EpochMicros),
            _ => Err(CatalogueError::TimeFormat(text.to_owned())),
        }
    }
}

/// Reads times of one format and remembers the last date, because neighbours mostly share it.
#[derive(Clone)]
pub(super) struct StampReader {
    format: TimeFormat,
    date: [u8; 10],
    /// The first tick of `date`.
    day_start: Timestamp,
}

impl StampReader {
    pub(super) fn new(format: TimeFormat) -> StampReader {
        StampReader { format, date: *b"0001-01-01", day_start: Timestamp::MIN }
    }

    /// The time that an unquoted field states, if it does.
    #[inline]
    pub(super) fn read(&mut self, field: &[u8]) -> Option<Timestamp> {
        match self.format {
            TimeFormat::Rfc3339 => {
                let usual = field.try_into().ok().and_then(|stamp| self.read_usual(stamp));
                usual.or_else(|| std::str::from_utf8(field).ok()?.parse().ok())
            }
            TimeFormat::EpochSeconds => decimal(field, 6),
            TimeFormat::EpochMillis => decimal(field, 3),
            TimeFormat::EpochMicros => decimal(field, 0),
        }
    }

    /// The time at the start of a row, if it stands there in the usual form of [`TimeFormat::Rfc3339`] and alone in its field.
    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    pub(super) fn read_at_start(&mut self, row: &[u8]) -> Option<Timestamp> {
        let (stamp, rest) = row.split_first_chunk()?;
        if rest.first().is_none_or(|byte| *byte == b',') { self.read_usual(stamp) } else { None }
    }

    /// `2015-01-01T08:49:53.200Z`, the form of the USGS. Anything unusual in it is left to the general way.
    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    fn read_usual(&mut self, stamp: &[u8; 24]) -> Option<Timestamp> {
        let (date, time) = stamp.split_first_chunk::<10>()?;
        if *date != self.date {
            self.day_start = day_start(date)?;
            self.date = *date;
        }
        // Eight bytes at a time: what is left of each after subtracting the form, a digit or nothing.
        let early = u64::from_le_bytes(*time.first_chunk()?) ^ u64::from_le_bytes(*b"T00:00:0");
        let late = u64::from_le_bytes(*time.last_chunk()?) ^ u64::from_le_bytes(*b":00.000Z");
        // Adding lifts the top bit of each byte that is more than nine, or more than zero where no digit belongs.
        let wrong = early | early.wrapping_add(0x767f_7676_7f76_767f) | late | late.wrapping_add(0x7f76_7676_7f76_767f);
        if wrong & 0x8080_8080_8080_8080 != 0 {
            return None;
        }
        // Each byte ten times and its neighbour: no sum is above 99, so none runs over into the next byte.
        let pairs = |digits: u64| (digits * 10).wrapping_add(digits >> 8).to_le_bytes();
        let ([_, hours, _, _, minutes, ..], [_, seconds, _, _, centis, ..]) = (pairs(early), pairs(late));
        if hours > 23 || minutes > 59 || seconds > 59 {
            return None;
        }
        let millis = u64::from(centis) * 10 + u64::from(late.to_le_bytes()[6]);
        let seconds = (u64::from(hours) * 60 + u64::from(minutes)) * 60 + u64::from(seconds);
        Some(self.day_start.plus(Span::from_ticks((seconds * 1_000 + millis) * TICKS_PER_MILLISECOND.unsigned_abs())))
    }
}

/// The first tick of a date like `2015-01-01`.
fn day_start(date: &[u8; 10]) -> Option<Timestamp> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else {
        return None;
    };
    let digits = [y1, y2, y3, y4, m1, m2, d1, d2];
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let [y1, y2, y3, y4, m1, m2, d1, d2] = digits.map(|byte| u32::from(byte - b'0'));
    let year = y1 * 1_000 + y2 * 100 + y3 * 10 + y4;
    let day = NaiveDate::from_ymd_opt(year.cast_signed(), m1 * 10 + m2, d1 * 10 + d2)?;
    Timestamp::from_ticks(day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_micros()).ok()
}

/// A decimal number, exactly: `units` of `10^-6 * 10^(6 - places)` seconds, with at most `places` decimals.
fn decimal(field: &[u8], places: usize) -> Option<Timestamp> {
    let (negative, digits) = match field.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, field),
    };
    let (whole, fraction) = match memchr::memchr(b'.', digits) {
        Some(point) => (&digits[..point], &digits[point + 1..]),
        None => (digits, &b"0"[..]),
    };
    // The point is for a fraction: `5.` is no number, and microseconds have none.
    let point = whole.len() < digits.len();
    if whole.is_empty() || fraction.is_empty() || (point && fraction.len() > places) {
        return None;
    }
    let shift = |count: usize| u32::try_from(count).ok().and_then(|count| 10_i64.checked_pow(count));
    let whole = number(whole)?.checked_mul(shift(places)?)?;
    let fraction = number(fraction)?.checked_mul(shift(places.saturating_sub(fraction.len()))?)?;
    let ticks = whole.checked_add(fraction)?;
    Timestamp::from_ticks(if negative { -ticks } else { ticks }).ok()
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0_i64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(i64::from(digit)) }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ticks(format: TimeFormat, text: &str) -> Option<i64> {
        StampReader::new(format).read(text.as_bytes()).map(Timestamp::ticks)
    }

    #[test]
    fn epoch_numbers_are_read_exactly() {
        use TimeFormat::{EpochMicros, EpochMillis, EpochSeconds};
        for (format, text, expected) in [
            (EpochSeconds, "0", Some(0)),
            (EpochSeconds, "1420102193.2", Some(1_420_102_193_200_000)),
            (EpochSeconds, "1420102193.000001", Some(1_420_102_193_000_001)),
            (EpochSeconds, "-0.000001", Some(-1)),
            (EpochSeconds, "-62135596800", Some(-62_135_596_800_000_000)),
            (EpochSeconds, "-62135596801", None),
            (EpochSeconds, "1420102193.0000001", None),
            (EpochSeconds, "1420102193.", None),
            (EpochSeconds, ".5", None),
            (EpochSeconds, "1e9", None),
            (EpochSeconds, "+5", None),
            (EpochSeconds, "", None),
            (EpochSeconds, "-", None),
            (EpochSeconds, "99999999999999999999", None),
            (EpochMillis, "-1", Some(-1_000)),
            (EpochMillis, "1420102193200", Some(1_420_102_193_200_000)),
            (EpochMillis, "5.25", Some(5_250)),
            (EpochMillis, "5.0001", None),
            (EpochMicros, "1420102193200001", Some(1_420_102_193_200_001)),
            (EpochMicros, "5.0", None),
        ] {
            assert_eq!(ticks(format, text), expected, "{format:?} {text}");
        }
    }

    #[test]
    fn the_usual_stamp_is_judged_as_strictly_as_any_other() {
        for text in [
            "2015-02-29T00:00:00.000Z",
            "2015-13-01T00:00:00.000Z",
            "0000-01-01T00:00:00.000Z",
            "2015-01-01T24:00:00.000Z",
            "2015-01-01T00:60:00.000Z",
            "2015-01-01T00:00:61.000Z",
            "2015-01-01T00:00:00:000Z",
            "2015-01-01T00:00:00.0x0Z",
            "2015-01-01 00:00:00.000X",
            "2015_01-01T00:00:00.000Z",
            "2016-12-31T23:59:60.000Z",
            "2015-01-01t00:00:00.000z",
            "2015-01-01 00:00:00.000Z",
        ] {
            assert_eq!(ticks(TimeFormat::Rfc3339, text), text.parse().ok().map(Timestamp::ticks), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_fast_way_reads_what_the_general_way_reads(
            times in prop::collection::vec(Timestamp::MIN.ticks() / 1_000..=Timestamp::MAX.ticks() / 1_000, 1..20),
            garbled in any::<prop::sample::Index>(),
            byte in prop::sample::select(b"0123456789-T:.Z ".to_vec()),
        ) {
            let mut reader = StampReader::new(TimeFormat::Rfc3339);
            for time in times {
                let mut text = Timestamp::from_millis(time).expect("within bounds").to_string().into_bytes();
                prop_assert_eq!(reader.read(&text).map(Timestamp::millis), Some(time));
                let place = garbled.index(text.len());
                text[place] = byte;
                let general = std::str::from_utf8(&text).expect("ASCII").parse().ok();
                prop_assert_eq!(reader.read(&text), general, "{}", String::from_utf8_lossy(&text));
            }
        }
    }
}
