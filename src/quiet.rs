//! Quiet hours: when small events are not to disturb a subscriber. Pure: which instant it is comes in as an argument.
//!
//! The rule is what the clock on the subscriber's wall shows, and nothing else: it is quiet from the minute `from` to just
//! before the minute `to`, on every day, over midnight where `to` is the earlier one. So where the clock is put forward over
//! the end, quiet ends at the first instant after the gap; where over the start, it begins there; quiet hours within the
//! gap do not happen that day. Where the clock is put back, what it shows twice counts twice.

use std::fmt;
use std::str::FromStr;

use chrono::{FixedOffset, Offset, TimeZone};
use chrono_tz::{TZ_VARIANTS, Tz};
use serde::{Deserialize, Serialize};

use crate::event::Magnitude;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// Ticks in a minute, and in a day on the wall.
const MINUTE: i64 = 60 * TICKS_PER_SECOND;
const DAY: i64 = 24 * 60 * MINUTE;
/// More than the longest name of a zone; what goes beyond is not compared.
const MAX_ZONE_CHARS: usize = 64;

/// When it is quiet, where, and for which events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuietHours {
    pub hours: Hours,
    #[serde(default)]
    pub zone: Zone,
    /// Events of this magnitude or more do not wait for the end; without it all wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Magnitude>,
}

/// A span of the day on the wall, from one minute (inclusive) to another (exclusive), over midnight where `to` is earlier.
/// It is neither empty nor the whole day. Written `22:00-07:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hours {
    /// Minutes after midnight, 0 to 1,439, never the same.
    from: u16,
    to: u16,
}

/// A time zone of the IANA database, like `Asia/Kamchatka`; UTC unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(Tz);

/// Why a text is not part of quiet hours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuietError {
    #[error("'{0}' is not a span of the day: expected HH:MM-HH:MM from 00:00 to 23:59, like 22:00-07:00")]
    Hours(String),
    #[error("'{0}' begins when it ends: expected two different times of the day, like 22:00-07:00")]
    Empty(String),
    #[error("'{text}' is not a time zone of the IANA database; the nearest known one is '{nearest}'")]
    Zone { text: String, nearest: &'static str },
}

impl QuietHours {
    /// Whether an event of this magnitude waits while it is quiet. Without a magnitude it is small.
    #[must_use]
    pub fn hold(&self, magnitude: Option<Magnitude>) -> bool {
        self.below.is_none_or(|below| magnitude.is_none_or(|magnitude| magnitude < below))
    }

    /// Whether it is quiet at `now`.
    #[must_use]
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        let (shown, Hours { from, to }) = (self.zone.time_of_day(now), self.hours);
        let (from, to) = (i64::from(from) * MINUTE, i64::from(to) * MINUTE);
        if from < to { (from..to).contains(&shown) } else { shown >= from || shown < to }
    }

    /// When quiet ends that holds at `now`: the first instant after it at which it is not quiet. `None` if it is not quiet.
    #[must_use]
    pub fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.is_quiet(now).then(|| self.next_change(now))
    }

    /// The first end of quiet hours after `at`, whether or not it is quiet then.
    #[must_use]
    pub fn next_end(&self, at: Timestamp) -> Timestamp {
        self.until(at).unwrap_or_else(|| self.next_change(self.next_change(at)))
    }

    /// The first instant after `now` at which it is quiet if it is not at `now`, and the other way round; at the end of all
    /// time [`Timestamp::MAX`].
    fn next_change(&self, now: Timestamp) -> Timestamp {
        let quiet = self.is_quiet(now);
        let change = i64::from(if quiet { self.hours.to } else { self.hours.from }) * MINUTE;
        let mut at = now;
        loop {
            // Less than a day, and not zero: where the clock shows `change`, the other holds already.
            let wait = (change - self.zone.time_of_day(at)).rem_euclid(DAY);
            let reached = at.plus(Span::from_ticks(wait.unsigned_abs()));
            // Unless the clock is put forward or back before; then it shows the other at once, or there is another way to go.
            match self.zone.step(at, reached) {
                None => return reached,
                Some(step) if self.is_quiet(step) != quiet => return step,
                Some(step) => at = step,
            }
        }
    }
}

impl Zone {
    /// What the clock on the wall is ahead of UTC.
    fn offset(self, at: Timestamp) -> FixedOffset {
        self.0.offset_from_utc_datetime(&at.to_utc().naive_utc()).fix()
    }

    /// What the clock on the wall shows, in ticks after midnight.
    fn time_of_day(self, at: Timestamp) -> i64 {
        (at.ticks() + i64::from(self.offset(at).local_minus_utc()) * TICKS_PER_SECOND).rem_euclid(DAY)
    }

    /// When the clock is put forward or back after `from` and not after `to`, less than a day apart: no zone has ever done
    /// so twice in a day.
    fn step(self, from: Timestamp, to: Timestamp) -> Option<Timestamp> {
        let at = |seconds: i64| Timestamp::saturating_from_ticks(i128::from(seconds) * i128::from(TICKS_PER_SECOND));
        let before = self.offset(from);
        if self.offset(to) == before {
            return None;
        }
        // It happens at a whole second.
        let (mut old, mut new) = (from.seconds(), to.seconds());
        while new - old > 1 {
            let middle = old + (new - old) / 2;
            *(if self.offset(at(middle)) == before { &mut old } else { &mut new }) = middle;
        }
        Some(at(new))
    }

    /// What the clock on the wall shows at an instant, to the minute: `07:00`.
    #[must_use]
    pub fn clock_at(self, at: Timestamp) -> String {
        at.to_utc().with_timezone(&self.offset(at)).format("%H:%M").to_string()
    }

    /// The known zone whose name, or its last part, looks most like `text`.
    fn nearest(text: &str) -> &'static str {
        let text: String = text.to_lowercase().chars().take(MAX_ZONE_CHARS).collect();
        let likeness = |zone: &Tz| {
            let name = zone.name().to_lowercase();
            let place = name.rsplit('/').next().unwrap_or_default();
            strsim::jaro_winkler(&text, &name).max(strsim::jaro_winkler(&text, place))
        };
        let nearest = TZ_VARIANTS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        nearest.map_or("UTC", |zone| zone.name())
    }
}

impl FromStr for Hours {
    type Err = QuietError;

    fn from_str(text: &str) -> Result<Hours, QuietError> {
        let minute = |text: &str| {
            let (hour, minute) = text.split_once(':')?;
            let number = |digits: &str, below: u16| {
                let plain = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
                digits.parse::<u16>().ok().filter(|number| plain && *number < below)
            };
            Some(number(hour, 24)? * 60 + number(minute, 60)?)
        };
        let both = text.split_once('-').and_then(|(from, to)| Some((minute(from)?, minute(to)?)));
        match both {
            None => Err(QuietError::Hours(text.to_owned())),
            Some((from, to)) if from == to => Err(QuietError::Empty(text.to_owned())),
            Some((from, to)) => Ok(Hours { from, to }),
        }
    }
}

impl FromStr for Zone {
    type Err = QuietError;

    fn from_str(text: &str) -> Result<Zone, QuietError> {
        let zone = text.parse().map(Zone);
        zone.map_err(|_| QuietError::Zone { text: text.to_owned(), nearest: Zone::nearest(text) })
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Hours { from, to } = self;
        f.pad(&format!("{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name())
    }
}

/// `22:00-07:00 Asia/Kamchatka, below M 6.5`.
impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.hours, self.zone)?;
        self.below.map_or(Ok(()), |below| write!(f, ", below M {below}"))
    }
}

macro_rules! as_text {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = QuietError;

            fn try_from(text: String) -> Result<$name, QuietError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> String {
                value.to_string()
            }
        }
    )*};
}
as_text!(Hours, Zone);
