//! The region of an interest: a circle round a place, or a box that may cross the date line.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, de};

use super::InterestError;
use crate::event::Coordinates;

/// The mean radius of the Earth, (2a + b) / 3 of the WGS 84 ellipsoid.
pub const MEAN_EARTH_RADIUS_KM: f64 = 6_371.008_8;
/// The largest radius of a circle. The far side of the globe is 20,015 km away; more would say nothing.
pub const MAX_RADIUS_KM: f64 = 20_016.0;

/// Where on the globe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Region {
    /// At most `within_km` from a place, inclusive, along the surface of a sphere.
    Near {
        coordinates: Coordinates,
        within_km: Radius,
    },
    Box(BoundingBox),
}

/// A distance in kilometres, more than 0 and at most [`MAX_RADIUS_KM`].
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct Radius(f64);

/// From a western to an eastern meridian and from a southern to a northern parallel, all inclusive.
///
/// With `west` greater than `east` it crosses the date line. -180 and 180 are the same meridian. A pole lies on every
/// meridian, so it is in each box that reaches its latitude.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Edges", into = "Edges")]
pub struct BoundingBox(Edges);

/// In degrees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edges {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}

/// The distance along the surface of a sphere of the Earth's mean radius, by the haversine formula
/// (R. W. Sinnott, "Virtues of the Haversine", Sky and Telescope 68, 1984). Within 0.6 % of the ellipsoid's.
#[must_use]
pub fn distance_km(a: Coordinates, b: Coordinates) -> f64 {
    let (lat_a, lat_b) = (a.latitude().to_radians(), b.latitude().to_radians());
    let half_lat = ((lat_b - lat_a) / 2.0).sin();
    let half_lon = ((b.longitude() - a.longitude()).to_radians() / 2.0).sin();
    let haversine = half_lat * half_lat + lat_a.cos() * lat_b.cos() * half_lon * half_lon;
    // Rounding may carry it a hair beyond 1 for opposite places.
    2.0 * MEAN_EARTH_RADIUS_KM * haversine.min(1.0).sqrt().asin()
}

impl Region {
    /// Whether the place lies in it.
    #[must_use]
    pub fn contains(self, place: Coordinates) -> bool {
        match self {
            Region::Near { coordinates, within_km } => distance_km(coordinates, place) <= within_km.km(),
            Region::Box(bounds) => bounds.contains(place),
        }
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Region::Near { coordinates, within_km } => {
                write!(f, "within {within_km} km of {}, {}", coordinates.latitude(), coordinates.longitude())
            }
            Region::Box(BoundingBox(Edges { west, south, east, north })) => {
                let crossing = if west > east { " across the date line" } else { "" };
                write!(f, "between latitudes {south} and {north} and longitudes {west} and {east}{crossing}")
            }
        }
    }
}

impl Radius {
    /// A radius of so many kilometres.
    ///
    /// # Errors
    /// [`InterestError::Radius`] outside the bounds or not a number.
    pub fn new(km: f64) -> Result<Radius, InterestError> {
        if km > 0.0 && km <= MAX_RADIUS_KM { Ok(Radius(km)) } else { Err(InterestError::Radius(km.to_string())) }
    }

    /// The radius in kilometres.
    #[must_use]
    pub const fn km(self) -> f64 {
        self.0
    }
}

impl FromStr for Radius {
    type Err = InterestError;

    fn from_str(text: &str) -> Result<Radius, InterestError> {
        let wrong = || InterestError::Radius(text.to_owned());
        Radius::new(text.parse().map_err(|_| wrong())?).map_err(|_| wrong())
    }
}

impl fmt::Display for Radius {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for Radius {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Radius, D::Error> {
        Radius::new(f64::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl BoundingBox {
    /// The box with these edges in degrees.
    ///
    /// # Errors
    /// [`InterestError::Box`] if an edge is not on the globe, or the south lies north of the north.
    pub fn new(west: f64, south: f64, east: f64, north: f64) -> Result<BoundingBox, InterestError> {
        let wrong = |fault: String| InterestError::Box { text: format!("{west},{south},{east},{north}"), fault };
        for (latitude, longitude) in [(south, west), (north, east)] {
            Coordinates::new(latitude, longitude).map_err(|error| wrong(format!("; {error}")))?;
        }
        if south > north {
            return Err(wrong(format!("; the south edge {south} lies north of the north edge {north}")));
        }
        Ok(BoundingBox(Edges { west, south, east, north }))
    }

    /// Whether the place lies in it.
    #[must_use]
    pub fn contains(self, place: Coordinates) -> bool {
        let Edges { west, south, east, north } = self.0;
        let (latitude, longitude) = (place.latitude(), place.longitude());
        let between = |longitude: f64| {
            if west <= east { west <= longitude && longitude <= east } else { longitude >= west || longitude <= east }
        };
        let at_a_pole = latitude.abs() >= 90.0;
        let on_date_line = longitude.abs() >= 180.0;
        (south..=north).contains(&latitude) && (at_a_pole || between(longitude) || on_date_line && between(-longitude))
    }
}

/// `W,S,E,N` in degrees.
impl FromStr for BoundingBox {
    type Err = InterestError;

    fn from_str(text: &str) -> Result<BoundingBox, InterestError> {
        let wrong = |fault: String| InterestError::Box { text: text.to_owned(), fault };
        let [west, south, east, north] = degrees(text).ok_or_else(|| wrong(String::new()))?;
        BoundingBox::new(west, south, east, north).map_err(|error| match error {
            InterestError::Box { fault, .. } => wrong(fault),
            other => other,
        })
    }
}

impl TryFrom<Edges> for BoundingBox {
    type Error = InterestError;

    fn try_from(edges: Edges) -> Result<BoundingBox, InterestError> {
        BoundingBox::new(edges.west, edges.south, edges.east, edges.north)
    }
}

impl From<BoundingBox> for Edges {
    fn from(bounds: BoundingBox) -> Edges {
        bounds.0
    }
}

/// `LAT,LON` in degrees.
impl FromStr for Coordinates {
    type Err = InterestError;

    fn from_str(text: &str) -> Result<Coordinates, InterestError> {
        let wrong = |fault: String| InterestError::Point { text: text.to_owned(), fault };
        let [latitude, longitude] = degrees(text).ok_or_else(|| wrong(String::new()))?;
        Coordinates::new(latitude, longitude).map_err(|error| wrong(format!("; {error}")))
    }
}

/// Exactly `N` numbers with commas between, spaces round them allowed.
fn degrees<const N: usize>(text: &str) -> Option<[f64; N]> {
    let numbers: Vec<f64> = text.split(',').map(|part| part.trim().parse().ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}
