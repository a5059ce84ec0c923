//! Quiet hours: when small events are not to disturb a subscriber. Pure: which instant it is comes in as an argument.
//!
//! The rule is what the clock on the subscriber's wall shows, and nothing else: it is quiet from the minute `from` to just
//! before the minute `to`, on every day, over midnight where `to` is the earlier one. So where the clock is put forward over
//! the end, quiet ends at the first instant after the gap; where over the start, it begins there; quiet hours within the
//! gap do not happen that day. Where the clock is put back, what it shows twice counts twice.

use std::fmt;
use std::str::FromStr;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};

use crate::event::Magnitude;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// Ticks in a minute, and in a day on the wall.
const MINUTE: i64 = 60 * TICKS_PER_SECOND;
const DAY: i64 = 24 * 60 * MINUTE;
/// More than the longest name of a zone; what goes beyond is not compared.
const MAX_ZONE_CHARS: usize = 64;
/// The instants at which jiff knows what the clock shows, in seconds: half a day on either side less than years 1 to 9999.
const KNOWN_SECONDS: (i64, i64) = (-62_135_596_800, 253_402_207_200);

/// When it is quiet, where, and for which events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// A time zone of the IANA database, like `Asia/Kamchatka`; UTC unless said otherwise. Read in any case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Zone(TimeZone);

/// Why a text is not part of quiet hours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuietError {
    #[error("'{0}' is not a span of the day: expected HH:MM-HH:MM from 00:00 to 23:59, like 22:00-07:00")]
    Hours(String),
    #[error("'{0}' begins when it ends: expected two different times of the day, like 22:00-07:00")]
    Empty(String),
    #[error("'{text}' is not a time zone of the IANA database; the nearest known one is '{nearest}'")]
    Zone { text: String, nearest: String },
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
    /// What the clock on the wall is ahead of UTC, in seconds.
    fn offset(&self, at: Timestamp) -> i64 {
        i64::from(self.0.to_offset(instant(at)).seconds())
    }

    /// What the clock on the wall shows, in ticks after midnight.
    fn time_of_day(&self, at: Timestamp) -> i64 {
        (at.ticks() + self.offset(at) * TICKS_PER_SECOND).rem_euclid(DAY)
    }

    /// When the clock is first put forward or back after `from` and not after `to`.
    fn step(&self, from: Timestamp, to: Timestamp) -> Option<Timestamp> {
        let before = self.offset(from);
        // There are transitions that change the zone's name alone.
        let following = self.0.following(instant(from)).map(|step| step.timestamp().as_second());
        let step =
            following.take_while(|second| *second <= to.seconds()).map(at_second).find(|step| self.offset(*step) != before);
        step.filter(|step| (from..=to).contains(step))
    }

    /// What the clock on the wall shows at an instant, to the minute: `07:00`.
    #[must_use]
    pub fn clock_at(&self, at: Timestamp) -> String {
        let minutes = self.time_of_day(at) / MINUTE;
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    }

    /// The known zone whose name, or its last part, looks most like `text`.
    fn nearest(text: &str) -> String {
        let text: String = text.to_lowercase().chars().take(MAX_ZONE_CHARS).collect();
        let likeness = |name: &str| {
            let name = name.to_lowercase();
            let place = name.rsplit('/').next().unwrap_or_default();
            strsim::jaro_winkler(&text, &name).max(strsim::jaro_winkler(&text, place))
        };
        let known = TimeZoneDatabase::bundled();
        let nearest = known.available().max_by(|a, b| likeness(a.as_str()).total_cmp(&likeness(b.as_str())));
        nearest.map_or_else(|| "UTC".to_owned(), |name| name.to_string())
    }
}

/// UTC.
impl Default for Zone {
    fn default() -> Zone {
        Zone(TimeZone::UTC)
    }
}

/// An instant as jiff has it, whole seconds downwards; before and after all that it knows, the nearest.
fn instant(at: Timestamp) -> jiff::Timestamp {
    let (first, last) = KNOWN_SECONDS;
    jiff::Timestamp::from_second(at.seconds().clamp(first, last)).unwrap_or_default()
}

fn at_second(seconds: i64) -> Timestamp {
    Timestamp::saturating_from_ticks(i128::from(seconds) * i128::from(TICKS_PER_SECOND))
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
        let zone = TimeZoneDatabase::bundled().get(text).ok().filter(|zone| !zone.is_unknown());
        zone.map(Zone).ok_or_else(|| QuietError::Zone { text: text.to_owned(), nearest: Zone::nearest(text) })
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
        f.pad(self.0.iana_name().unwrap_or("UTC"))
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
