//! Instants and lengths of time as whole ticks of one microsecond. What time it *is* comes from `clock`; nothing here asks.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, NaiveDate, SecondsFormat, TimeDelta, Utc};
use serde::{Deserialize, Serialize, de};

/// Ticks in one second. A tick is the unit of all exact arithmetic on time.
pub const TICKS_PER_SECOND: i64 = 1_000_000;
/// Ticks in one millisecond, the resolution of the catalogues.
pub const TICKS_PER_MILLISECOND: i64 = 1_000;

/// An instant: whole microseconds since 1970-01-01T00:00:00Z, negative before it, leap seconds not counted.
///
/// Always between [`Timestamp::MIN`] and [`Timestamp::MAX`], both inclusive, so that it can be written as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A length of time in whole microseconds, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// Why a text or a number is not a time. The message names the text and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    #[error("'{0}' is not a time: expected RFC 3339 (2025-07-29T12:00:00Z) or a date (2025-07-29)")]
    Text(String),
    #[error("{0} is outside the years 0001 to 9999")]
    Range(i64),
    #[error("'{0}' is not a duration: expected a whole number and a unit, like 90s, 15m, 24h or 7d")]
    Span(String),
}

/// A span of time with nothing in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the span from {from} to {to} is empty: from is inclusive, to exclusive")]
pub struct EmptySpan {
    pub from: Timestamp,
    pub to: Timestamp,
}

impl EmptySpan {
    /// Looks whether there is anything from `from`, inclusive, to `to`, exclusive; without either it reaches as far as there is time.
    ///
    /// # Errors
    /// [`EmptySpan`] if there is not.
    pub fn check(from: Option<Timestamp>, to: Option<Timestamp>) -> Result<(), EmptySpan> {
        match (from, to) {
            (Some(from), Some(to)) if from >= to => Err(EmptySpan { from, to }),
            _ => Ok(()),
        }
    }
}

impl Timestamp {
    /// The first instant of year 1.
    pub const MIN: Timestamp = Timestamp(-62_135_596_800 * TICKS_PER_SECOND);
    /// The last tick of year 9999.
    pub const MAX: Timestamp = Timestamp(253_402_300_800 * TICKS_PER_SECOND - 1);

    /// The instant so many ticks after the epoch.
    ///
    /// # Errors
    /// [`TimeError::Range`] outside [`Timestamp::MIN`] to [`Timestamp::MAX`].
    pub fn from_ticks(ticks: i64) -> Result<Timestamp, TimeError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&ticks) { Ok(Timestamp(ticks)) } else { Err(TimeError::Range(ticks)) }
    }

    /// The instant so many milliseconds after the epoch.
    ///
    /// # Errors
    /// [`TimeError::Range`] outside the years 0001 to 9999.
    pub fn from_millis(millis: i64) -> Result<Timestamp, TimeError> {
        let ticks = millis.checked_mul(TICKS_PER_MILLISECOND).ok_or(TimeError::Range(millis))?;
        Self::from_ticks(ticks)
    }

    /// The nearest instant to so many ticks after the epoch: beyond the ends it is [`Timestamp::MIN`] or [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_from_ticks(ticks: i128) -> Timestamp {
        let end = if ticks < 0 { Self::MIN.0 } else { Self::MAX.0 };
        Timestamp(i64::try_from(ticks).unwrap_or(end).clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Ticks since the epoch.
    #[must_use]
    pub const fn ticks(self) -> i64 {
        self.0
    }

    /// Milliseconds since the epoch, rounded down.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0.div_euclid(TICKS_PER_MILLISECOND)
    }

    /// Whole seconds since the epoch, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(TICKS_PER_SECOND)
    }

    /// This instant and `span` more, at most [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_add_unsigned(span.0).min(Self::MAX.0))
    }

    /// This instant less `span`, at least [`Timestamp::MIN`].
    #[must_use]
    pub fn minus(self, span: Span) -> Timestamp {
        Timestamp(self.0.saturating_sub_unsigned(span.0).max(Self::MIN.0))
    }

    /// The time from `earlier` to this instant; zero if `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Span {
        Span(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This instant in chrono's terms, for its calendar and formats.
    #[must_use]
    pub fn to_utc(self) -> DateTime<Utc> {
        // Within MIN..=MAX chrono always answers; the fallback is never reached.
        DateTime::from_timestamp_micros(self.0).unwrap_or(DateTime::UNIX_EPOCH)
    }
}

/// RFC 3339 in UTC with milliseconds, or with microseconds where they are not zero: `2025-07-29T23:24:52.483Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = if self.0 % TICKS_PER_MILLISECOND == 0 { SecondsFormat::Millis } else { SecondsFormat::Micros };
        f.pad(&self.to_utc().to_rfc3339_opts(format, true))
    }
}

/// RFC 3339 with any offset, or a date (its first instant in UTC). Digits beyond microseconds are cut off.
impl FromStr for Timestamp {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Timestamp, TimeError> {
        let utc = if let Ok(date) = NaiveDate::parse_from_str(text, "%Y-%m-%d") {
            date.and_time(chrono::NaiveTime::MIN).and_utc()
        } else {
            DateTime::parse_from_rfc3339(text).map_err(|_| TimeError::Text(text.to_owned()))?.to_utc()
        };
        // A leap second counts as the second after it.
        Self::from_ticks(utc.timestamp_micros()).map_err(|_| TimeError::Text(text.to_owned()))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// So many ticks.
    #[must_use]
    pub const fn from_ticks(ticks: u64) -> Span {
        Span(ticks)
    }

    /// So many milliseconds, at most what the type holds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(TICKS_PER_MILLISECOND as u64))
    }

    /// So many seconds, at most what the type holds.
    #[must_use]
    pub const fn from_seconds(seconds: u64) -> Span {
        Span(seconds.saturating_mul(TICKS_PER_SECOND as u64))
    }

    /// Its length in ticks.
    #[must_use]
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// Its length in seconds, for display and JSON only: above 2^53 ticks the last digits are rounded.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / TICKS_PER_SECOND as f64
    }

    /// For people, with its unit: `1 hour`, `90 minutes`.
    #[must_use]
    pub fn counted(self) -> String {
        let short = self.to_string();
        let (count, unit) = short.split_at(short.find(|c: char| !c.is_ascii_digit()).unwrap_or(short.len()));
        let unit = match unit {
            "w" => "week",
            "d" => "day",
            "h" => "hour",
            "m" => "minute",
            "s" => "second",
            "ms" => "millisecond",
            _ => "microsecond",
        };
        format!("{count} {unit}{}", if count == "1" { "" } else { "s" })
    }

    /// For people, to be put behind "any" or "per": `hour`, `90 minutes`.
    #[must_use]
    pub fn in_words(self) -> String {
        let counted = self.counted();
        counted.strip_prefix("1 ").map_or(counted.clone(), str::to_owned)
    }

    /// The same length for the standard library's timers.
    #[must_use]
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_micros(self.0)
    }
}

/// The units a duration or a window may have, longest first, in ticks.
const UNITS: [(&str, u64); 7] = [
    ("w", 7 * 86_400_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
];

/// Reads `90s`; the number may be left out only where `bare_unit` says so (`h` is then one hour). `None` if it is neither.
pub(crate) fn parse_span(text: &str, bare_unit: bool) -> Option<Span> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let count: u64 = match number {
        "" if bare_unit => 1,
        _ => number.parse().ok()?,
    };
    let (_, ticks) = UNITS.iter().find(|(name, _)| *name == unit)?;
    count.checked_mul(*ticks).map(Span)
}

/// `90s`, `15m`, `24h`, `7d`, `500ms`, `2w`: a whole number and a unit.
impl FromStr for Span {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Span, TimeError> {
        parse_span(text, false).ok_or_else(|| TimeError::Span(text.to_owned()))
    }
}

/// The shortest exact form, in the largest unit that divides it: `24h` is `1d`, 90 seconds `90s`. Microseconds as `µs`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(name, ticks)| *name != "min" && self.0 != 0 && self.0.is_multiple_of(*ticks));
        match unit {
            Some((name, ticks)) => f.pad(&format!("{}{name}", self.0 / ticks)),
            None if self.0 == 0 => f.pad("0s"),
            None => f.pad(&format!("{}µs", self.0)),
        }
    }
}

impl From<TimeDelta> for Span {
    /// Negative differences count as none.
    fn from(delta: TimeDelta) -> Span {
        Span(delta.num_microseconds().and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(0))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_in_utc() {
        for (text, written) in [
            ("2025-07-29T23:24:52.483Z", "2025-07-29T23:24:52.483Z"),
            ("2025-07-30T11:24:52.483+12:00", "2025-07-29T23:24:52.483Z"),
            ("2025-07-29", "2025-07-29T00:00:00.000Z"),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
            ("9999-12-31", "9999-12-31T00:00:00.000Z"),
        ] {
            assert_eq!(text.parse::<Timestamp>().expect(text).to_string(), written);
        }
        for text in ["", "yesterday", "2025-13-01", "2025-07-29T25:00:00Z", "2025-07-29T12:00:00", "10000-01-01", "0000-12-31"] {
            assert_eq!(text.parse::<Timestamp>(), Err(TimeError::Text(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn adding_and_taking_away_is_exact_and_stops_at_the_ends() {
        let instants = [Timestamp::MIN.0, Timestamp::MIN.0 + 5, -1, 0, 7, Timestamp::MAX.0 - 5, Timestamp::MAX.0];
        for (ticks, span) in instants.into_iter().flat_map(|ticks| [0, 1, 5, 6, u64::MAX / 2, u64::MAX].map(|span| (ticks, span)))
        {
            let (at, wide) = (Timestamp(ticks), i128::from(ticks));
            assert_eq!(at.plus(Span(span)), Timestamp::saturating_from_ticks(wide + i128::from(span)), "{ticks} + {span}");
            assert_eq!(at.minus(Span(span)), Timestamp::saturating_from_ticks(wide - i128::from(span)), "{ticks} - {span}");
        }
    }

    #[test]
    fn durations_need_a_number_and_a_known_unit() {
        for (text, seconds, shown) in
            [("90s", 90, "90s"), ("15m", 900, "15m"), ("24h", 86_400, "1d"), ("7d", 604_800, "1w"), ("90min", 5_400, "90m")]
        {
            let span: Span = text.parse().expect(text);
            assert_eq!((span, span.to_string().as_str()), (Span::from_seconds(seconds), shown));
        }
        for text in ["", "s", "5", "-5s", "5 s", "1.5h", "5y", "99999999999999999w"] {
            assert_eq!(text.parse::<Span>(), Err(TimeError::Span(text.to_owned())), "{text}");
        }
    }
}
