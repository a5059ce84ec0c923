//! What is known of one earthquake: its ids, origin, magnitude and place.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use crate::time::Timestamp;

/// The longest event id that is accepted, in bytes. Real ones have about ten.
pub const MAX_ID_BYTES: usize = 64;
/// The status of an event that the service has withdrawn.
pub const WITHDRAWN: &str = "deleted";
/// The longest place name that is kept, in characters; the rest is cut off.
pub const MAX_PLACE_CHARS: usize = 200;

/// The raw magnitude as the service gives it, never the rounded one of a title: 4.95 is below 5.
///
/// Finite, from [`Magnitude::MIN`] to [`Magnitude::MAX`], both inclusive.
#[derive(Clone, Copy, Debug)]
pub struct Magnitude(f64);

/// An id that a network gave an event, like `us6000qw60`: 1 to [`MAX_ID_BYTES`] visible ASCII characters without a comma.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct EventId(String);

/// A place on the globe in degrees: latitude -90 to 90, longitude -180 to 180, all inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coordinates {
    latitude: f64,
    longitude: f64,
}

/// The PAGER level: how much harm the USGS expects, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PagerLevel {
    Green,
    Yellow,
    Orange,
    Red,
}

/// An event as known at one moment. It is revised, merged and withdrawn later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The id that the service prefers now; it is among `ids`.
    pub id: EventId,
    /// Every id ever associated, sorted, each once.
    pub ids: Vec<EventId>,
    pub origin_at: Timestamp,
    /// When the service last changed the event, where it says so.
    pub updated_at: Option<Timestamp>,
    /// `None` while no magnitude has been computed.
    pub magnitude: Option<Magnitude>,
    /// The scale, like `mww`, where it is given.
    pub magnitude_type: Option<String>,
    /// In words, as the service wrote it, made one line of at most [`MAX_PLACE_CHARS`] by whoever read it; may be empty.
    pub place: String,
    pub coordinates: Coordinates,
    /// Below the surface, negative above it; `None` if unknown.
    pub depth_km: Option<f64>,
    /// `earthquake`, or what else shook the ground, like `volcanic eruption`.
    pub kind: String,
    /// `automatic`, `reviewed`, … in lower case.
    pub status: String,
    /// A large event in an oceanic region; not a tsunami warning.
    pub tsunami: bool,
    pub pager: Option<PagerLevel>,
    /// The event's page, where one is given.
    pub url: Option<String>,
}

/// Why a value is not part of an event.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EventError {
    #[error("'{0}' is not a magnitude: expected a number from {min} to {max}", min = Magnitude::MIN, max = Magnitude::MAX)]
    Magnitude(String),
    #[error("'{0}' is not an event id: expected 1 to {MAX_ID_BYTES} visible ASCII characters without a comma")]
    Id(String),
    #[error("{0} is not a latitude: expected -90 to 90 degrees")]
    Latitude(f64),
    #[error("{0} is not a longitude: expected -180 to 180 degrees")]
    Longitude(f64),
    #[error("'{0}' is not an alert level: expected green, yellow, orange or red")]
    Pager(String),
}

impl Magnitude {
    /// Far below the smallest that is ever reported.
    pub const MIN: f64 = -10.0;
    /// Above anything the Earth can do; more is a typing error.
    pub const MAX: f64 = 12.0;

    /// A magnitude of this value.
    ///
    /// # Errors
    /// [`EventError::Magnitude`] if it is not a number from [`Magnitude::MIN`] to [`Magnitude::MAX`].
    pub fn new(value: f64) -> Result<Magnitude, EventError> {
        if (Self::MIN..=Self::MAX).contains(&value) {
            // Adding zero turns -0.0 into 0.0, so that equal magnitudes compare equal.
            Ok(Magnitude(value + 0.0))
        } else {
            Err(EventError::Magnitude(value.to_string()))
        }
    }

    /// The raw value.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl PartialEq for Magnitude {
    fn eq(&self, other: &Magnitude) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Magnitude {}

impl PartialOrd for Magnitude {
    fn partial_cmp(&self, other: &Magnitude) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Magnitude {
    fn cmp(&self, other: &Magnitude) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl FromStr for Magnitude {
    type Err = EventError;

    fn from_str(text: &str) -> Result<Magnitude, EventError> {
        let value: f64 = text.parse().map_err(|_| EventError::Magnitude(text.to_owned()))?;
        Magnitude::new(value).map_err(|_| EventError::Magnitude(text.to_owned()))
    }
}

/// One decimal at least, two where the value has them: `8.8`, `5.0`, `4.95`.
impl fmt::Display for Magnitude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let two = format!("{:.2}", self.0);
        f.pad(two.strip_suffix('0').unwrap_or(&two))
    }
}

impl Serialize for Magnitude {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl<'de> Deserialize<'de> for Magnitude {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Magnitude, D::Error> {
        Magnitude::new(f64::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl EventId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EventId {
    type Err = EventError;

    fn from_str(text: &str) -> Result<EventId, EventError> {
        let well_formed = (1..=MAX_ID_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic() && b != b',');
        if well_formed { Ok(EventId(text.to_owned())) } else { Err(EventError::Id(text.chars().take(MAX_ID_BYTES).collect())) }
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<EventId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Coordinates {
    /// The place at these degrees.
    ///
    /// # Errors
    /// [`EventError::Latitude`] or [`EventError::Longitude`] outside the globe or not a number.
    pub fn new(latitude: f64, longitude: f64) -> Result<Coordinates, EventError> {
        if !(-90.0..=90.0).contains(&latitude) {
            return Err(EventError::Latitude(latitude));
        }
        if !(-180.0..=180.0).contains(&longitude) {
            return Err(EventError::Longitude(longitude));
        }
        Ok(Coordinates { latitude, longitude })
    }

    /// Degrees north of the equator.
    #[must_use]
    pub const fn latitude(self) -> f64 {
        self.latitude
    }

    /// Degrees east of Greenwich.
    #[must_use]
    pub const fn longitude(self) -> f64 {
        self.longitude
    }
}

impl<'de> Deserialize<'de> for Coordinates {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Coordinates, D::Error> {
        #[derive(Deserialize)]
        struct Raw {
            latitude: f64,
            longitude: f64,
        }
        let raw = Raw::deserialize(deserializer)?;
        Coordinates::new(raw.latitude, raw.longitude).map_err(de::Error::custom)
    }
}

impl FromStr for PagerLevel {
    type Err = EventError;

    fn from_str(text: &str) -> Result<PagerLevel, EventError> {
        match text.to_ascii_lowercase().as_str() {
            "green" => Ok(PagerLevel::Green),
            "yellow" => Ok(PagerLevel::Yellow),
            "orange" => Ok(PagerLevel::Orange),
            "red" => Ok(PagerLevel::Red),
            _ => Err(EventError::Pager(text.to_owned())),
        }
    }
}

impl fmt::Display for PagerLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PagerLevel::Green => "green",
            PagerLevel::Yellow => "yellow",
            PagerLevel::Orange => "orange",
            PagerLevel::Red => "red",
        })
    }
}

impl Event {
    /// An event that never happened, for trying out a subscription; its place says so.
    #[must_use]
    pub fn exercise(now: Timestamp) -> Event {
        let id = EventId("exercise".to_owned());
        Event {
            ids: vec![id.clone()],
            id,
            origin_at: now,
            updated_at: None,
            magnitude: Some(Magnitude(6.0)),
            magnitude_type: None,
            place: "no real earthquake, a test of this subscription".to_owned(),
            coordinates: Coordinates { latitude: 0.0, longitude: 0.0 },
            depth_km: Some(10.0),
            kind: "earthquake".to_owned(),
            status: "exercise".to_owned(),
            tsunami: false,
            pager: None,
            url: None,
        }
    }

    /// The event's name for people: `M 8.8 - 2025 Kamchatka Peninsula, Russia Earthquake`, `M ? - …` without a magnitude.
    #[must_use]
    pub fn title(&self) -> String {
        let magnitude = self.magnitude.map_or_else(|| "?".to_owned(), |m| m.to_string());
        let place = if self.place.is_empty() { "unnamed place" } else { &self.place };
        format!("M {magnitude} - {place}")
    }

    /// Whether the service has withdrawn it.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.status == WITHDRAWN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_magnitude_is_kept_and_compared() {
        let noisy: Magnitude = "6.7000000000000002".parse().expect("float noise");
        assert_eq!(noisy.to_string(), "6.7");
        let below: Magnitude = "4.95".parse().expect("two decimals");
        assert!(below < Magnitude::new(5.0).expect("five"));
        assert_eq!((below.to_string(), Magnitude::new(-0.0).expect("zero").to_string()), ("4.95".into(), "0.0".into()));
        for text in ["", "NaN", "inf", "13", "-11", "five", "5,1"] {
            assert_eq!(text.parse::<Magnitude>(), Err(EventError::Magnitude(text.to_owned())));
        }
    }

    #[test]
    fn ids_hold_no_space_control_or_comma() {
        assert!("us6000qw60".parse::<EventId>().is_ok());
        for text in ["", "a b", "a,b", "a\nb", "é", &"x".repeat(65)] {
            assert!(text.parse::<EventId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_ends_of_the_globe_are_on_it() {
        assert!(Coordinates::new(-90.0, 180.0).is_ok());
        assert_eq!(Coordinates::new(90.1, 0.0), Err(EventError::Latitude(90.1)));
        assert_eq!(Coordinates::new(0.0, -180.5), Err(EventError::Longitude(-180.5)));
        assert!(Coordinates::new(f64::NAN, 0.0).is_err());
    }
}
