//! The interest: which events a subscriber wants to hear of. Whether an alert then goes is the limiter's business.

mod region;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use crate::event::{Event, Magnitude, PagerLevel};

pub use region::{BoundingBox, MAX_RADIUS_KM, MEAN_EARTH_RADIUS_KM, Radius, Region, distance_km};

/// The most kinds that one interest lists.
pub const MAX_KINDS: usize = 32;
/// The longest name of a kind, in bytes. The longest real one has about thirty.
pub const MAX_KIND_BYTES: usize = 64;

/// Which events a subscriber wants: all conditions must hold. The default is M 5.0 or more, earthquakes, anywhere.
///
/// A condition that is set asks for a known value: without magnitude nothing matches, without depth no `max_depth_km`,
/// without PAGER level no `min_pager`. A later revision may bring the value, and the match with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Interest {
    /// The smallest raw magnitude, inclusive.
    pub min_magnitude: Magnitude,
    /// The greatest depth, inclusive.
    pub max_depth_km: Option<Depth>,
    pub region: Option<Region>,
    pub kinds: Kinds,
    /// Only events that the service flags for a tsunami.
    pub tsunami: bool,
    /// The lowest PAGER level, inclusive.
    pub min_pager: Option<PagerLevel>,
}

/// A depth in kilometres below the surface, negative above it: [`Depth::MIN_KM`] to [`Depth::MAX_KM`], both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct Depth(f64);

/// The kinds of event that match: any, or those listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kinds(Choice);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Choice {
    Any(AnyKind),
    /// Lower case, sorted, each once, 1 to [`MAX_KINDS`].
    Listed(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum AnyKind {
    #[serde(rename = "any")]
    Any,
}

/// Why something is not part of an interest.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InterestError {
    #[error("'{0}' is not a depth: expected {min} to {max} km", min = Depth::MIN_KM, max = Depth::MAX_KM)]
    Depth(String),
    #[error("'{0}' is not a radius: expected more than 0 and at most {MAX_RADIUS_KM} km")]
    Radius(String),
    #[error("'{text}' is not a place: expected LAT,LON in degrees, like 52.5,160.5{fault}")]
    Point { text: String, fault: String },
    #[error("'{text}' is not a box: expected W,S,E,N in degrees, like 150,45,170,60{fault}")]
    Box { text: String, fault: String },
    #[error(
        "'{0}' is not a list of event types: expected any, or up to {MAX_KINDS} names with commas between, like earthquake,volcanic eruption"
    )]
    Kinds(String),
}

impl Interest {
    /// Whether the event, as known now, is one that the subscriber wants.
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        let shallow_enough = |max: Depth| event.depth_km.is_some_and(|depth_km| depth_km <= max.km());
        event.magnitude.is_some_and(|magnitude| magnitude >= self.min_magnitude)
            && self.kinds.contain(&event.kind)
            && (!self.tsunami || event.tsunami)
            && self.min_pager.is_none_or(|min| event.pager.is_some_and(|level| level >= min))
            && self.max_depth_km.is_none_or(shallow_enough)
            && self.region.is_none_or(|region| region.contains(event.coordinates))
    }
}

impl Default for Interest {
    fn default() -> Interest {
        Interest {
            // 5 lies between Magnitude::MIN and Magnitude::MAX.
            min_magnitude: Magnitude::new(5.0).expect("5 is a magnitude"),
            max_depth_km: None,
            region: None,
            kinds: Kinds::default(),
            tsunami: false,
            min_pager: None,
        }
    }
}

/// `M 5.0 or more, earthquakes, within 300 km of 52.5, 160.5`.
impl fmt::Display for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "M {} or more, {}", self.min_magnitude, self.kinds.in_words())?;
        if let Some(max) = self.max_depth_km {
            write!(f, ", at most {max} km deep")?;
        }
        if let Some(region) = self.region {
            write!(f, ", {region}")?;
        }
        if self.tsunami {
            f.write_str(", flagged for a tsunami")?;
        }
        match self.min_pager {
            None => Ok(()),
            Some(PagerLevel::Red) => f.write_str(", PAGER level red"),
            Some(level) => write!(f, ", PAGER level {level} or higher"),
        }
    }
}

impl Depth {
    /// The least depth, as the FDSN event service has it.
    pub const MIN_KM: f64 = -100.0;
    /// The greatest depth, as the FDSN event service has it.
    pub const MAX_KM: f64 = 1_000.0;

    /// A depth of so many kilometres.
    ///
    /// # Errors
    /// [`InterestError::Depth`] outside the bounds or not a number.
    pub fn new(km: f64) -> Result<Depth, InterestError> {
        if (Self::MIN_KM..=Self::MAX_KM).contains(&km) { Ok(Depth(km)) } else { Err(InterestError::Depth(km.to_string())) }
    }

    /// The depth in kilometres.
    #[must_use]
    pub const fn km(self) -> f64 {
        self.0
    }
}

impl FromStr for Depth {
    type Err = InterestError;

    fn from_str(text: &str) -> Result<Depth, InterestError> {
        let wrong = || InterestError::Depth(text.to_owned());
        Depth::new(text.parse().map_err(|_| wrong())?).map_err(|_| wrong())
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Depth {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Depth, D::Error> {
        Depth::new(f64::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl Kinds {
    /// Every kind of event.
    #[must_use]
    pub const fn any() -> Kinds {
        Kinds(Choice::Any(AnyKind::Any))
    }

    /// The kinds of these names, in any case and order, twice or not.
    ///
    /// # Errors
    /// [`InterestError::Kinds`] if there is none or more than [`MAX_KINDS`], or one that is not 1 to [`MAX_KIND_BYTES`]
    /// letters, spaces and hyphens.
    pub fn listed<T: AsRef<str>>(names: &[T]) -> Result<Kinds, InterestError> {
        let mut kinds: Vec<String> = names.iter().map(|name| name.as_ref().trim().to_ascii_lowercase()).collect();
        let well_formed = |kind: &String| {
            (1..=MAX_KIND_BYTES).contains(&kind.len())
                && kind.bytes().all(|b| b.is_ascii_lowercase() || b" -_".contains(&b))
                && kind != "any"
        };
        if !(1..=MAX_KINDS).contains(&kinds.len()) || !kinds.iter().all(well_formed) {
            return Err(InterestError::Kinds(kinds.join(",").chars().take(MAX_KIND_BYTES).collect()));
        }
        kinds.sort();
        kinds.dedup();
        Ok(Kinds(Choice::Listed(kinds)))
    }

    /// Whether events of this kind match; upper and lower case are the same.
    #[must_use]
    pub fn contain(&self, kind: &str) -> bool {
        match &self.0 {
            Choice::Any(_) => true,
            Choice::Listed(kinds) => kinds.iter().any(|listed| listed.eq_ignore_ascii_case(kind)),
        }
    }

    /// In the plural: `earthquakes and volcanic eruptions`.
    fn in_words(&self) -> String {
        match &self.0 {
            Choice::Any(_) => "events of any type".to_owned(),
            Choice::Listed(kinds) => {
                let plurals: Vec<String> = kinds.iter().map(|kind| format!("{kind}s")).collect();
                match plurals.split_last() {
                    Some((last, [])) => last.clone(),
                    Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
                    None => String::new(),
                }
            }
        }
    }
}

/// Only earthquakes.
impl Default for Kinds {
    fn default() -> Kinds {
        Kinds(Choice::Listed(vec!["earthquake".to_owned()]))
    }
}

/// `any`, or names with commas between.
impl FromStr for Kinds {
    type Err = InterestError;

    fn from_str(text: &str) -> Result<Kinds, InterestError> {
        if text.trim().eq_ignore_ascii_case("any") {
            return Ok(Kinds::any());
        }
        Kinds::listed(&text.split(',').collect::<Vec<_>>())
    }
}

/// The form that is read: `any`, or names with commas between.
impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Choice::Any(_) => f.pad("any"),
            Choice::Listed(kinds) => f.pad(&kinds.join(",")),
        }
    }
}

/// `"any"`, or a list of names.
impl Serialize for Kinds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Kinds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Kinds, D::Error> {
        match Choice::deserialize(deserializer) {
            Ok(Choice::Any(_)) => Ok(Kinds::any()),
            Ok(Choice::Listed(names)) => Kinds::listed(&names).map_err(de::Error::custom),
            Err(_) => Err(de::Error::custom("expected \"any\" or a list of event types")),
        }
    }
}
