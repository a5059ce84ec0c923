//! Two networks' solutions of one quake that the service has not linked: they share no id, so time, place and magnitude
//! have to tell.
//!
//! The rule is for sightings that share no id with anything known:
//! - A network never publishes one quake under two ids. Solutions that share a network are two quakes, however alike.
//! - Two solutions are alike if their origins, places and magnitudes lie no further apart than the rule's bounds, all
//!   inclusive. Without a magnitude nothing is alike.
//! - A quake may be known by several solutions already; a sighting belongs to it if it is alike to all of them.
//! - If it is alike to solutions of two quakes, it belongs to neither: an alert more is better than a quake lost.

use std::collections::BTreeSet;
use std::fmt;

use crate::event::{Event, EventId};
use crate::interest::{MAX_RADIUS_KM, distance_km};
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// The longest time between two origins that a rule may bridge.
pub const MAX_WITHIN: Span = Span::from_seconds(60);

/// How far apart two networks' solutions of one quake may lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeness {
    /// Between the origin times; none at all turns the rule off.
    pub within: Span,
    pub within_km: f64,
    /// Between the magnitudes.
    pub magnitudes: f64,
    /// Solutions that the service still shows side by side, unlinked, after this are two quakes.
    pub patience: Span,
}

/// Why a rule is none, by the name of its key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LikenessError {
    #[error("duplicate_within: {0} is too long for one quake, expected at most {MAX_WITHIN} (0s turns the rule off)")]
    Within(Span),
    #[error("duplicate_km: {0} is not a distance, expected 0 to {MAX_RADIUS_KM} km")]
    Km(f64),
    #[error("duplicate_magnitude: {0} is not a difference of magnitudes, expected 0 to 10")]
    Magnitude(f64),
}

/// A known solution of a quake.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution<K> {
    /// The quake that it belongs to.
    pub quake: K,
    pub event: Event,
}

/// The quake that a sighting belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Belonging<K> {
    pub quake: K,
    /// The first known of the quake's solutions.
    pub known_as: EventId,
    pub apart: Apart,
}

/// How far apart two solutions lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Apart {
    pub time: Span,
    pub km: f64,
    pub magnitude: f64,
}

impl Likeness {
    /// Checks that the bounds are ones.
    ///
    /// # Errors
    /// [`LikenessError`] naming the first that is not.
    pub fn check(&self) -> Result<(), LikenessError> {
        if self.within > MAX_WITHIN {
            return Err(LikenessError::Within(self.within));
        }
        if !(0.0..=MAX_RADIUS_KM).contains(&self.within_km) {
            return Err(LikenessError::Km(self.within_km));
        }
        if !(0.0..=10.0).contains(&self.magnitudes) {
            return Err(LikenessError::Magnitude(self.magnitudes));
        }
        Ok(())
    }

    /// The quake that `seen` belongs to although it shares no id with it. `known` are all solutions of the quakes around
    /// its origin, those of one quake in the order in which they became known.
    #[must_use]
    pub fn belongs<K: Ord + Clone>(&self, known: &[Solution<K>], seen: &Event) -> Option<Belonging<K>> {
        let alike: BTreeSet<&K> = known.iter().filter(|one| self.alike(&one.event, seen)).map(|one| &one.quake).collect();
        let [quake] = alike.into_iter().collect::<Vec<_>>()[..] else { return None };
        let mut solutions = known.iter().filter(|one| one.quake == *quake).map(|one| &one.event);
        let first = solutions.next()?;
        if !self.alike(first, seen) || !solutions.all(|other| self.alike(other, seen)) {
            return None;
        }
        Some(Belonging { quake: quake.clone(), known_as: first.id.clone(), apart: apart(first, seen)? })
    }

    /// Whether two solutions of different networks may be of one quake.
    #[must_use]
    pub fn alike(&self, a: &Event, b: &Event) -> bool {
        let close = |apart: Apart| {
            // Differences of decimals are a hair off: 5.7 - 4.9 must not be more than 0.8.
            let magnitude = (apart.magnitude * 1_000.0).round() / 1_000.0;
            apart.time <= self.within && apart.km <= self.within_km && magnitude <= self.magnitudes
        };
        self.within > Span::from_ticks(0) && of_different_networks(a, b) && apart(a, b).is_some_and(close)
    }

    /// The span of origins within which [`Likeness::belongs`] wants to know all solutions: those of one quake lie up to
    /// twice the bound apart, and the nearest of them the bound from `origin_at`.
    #[must_use]
    pub fn around(&self, origin_at: Timestamp) -> (Timestamp, Timestamp) {
        let reach = Span::from_ticks(self.within.min(MAX_WITHIN).ticks() * 3);
        (origin_at.minus(reach), origin_at.plus(reach))
    }
}

impl Default for Likeness {
    /// 8 s, 75 km and 0.8 magnitudes, for an hour. Siblings in what was captured lie up to 4 s, 34 km and 0.7 apart.
    fn default() -> Likeness {
        Likeness { within: Span::from_seconds(8), within_km: 75.0, magnitudes: 0.8, patience: Span::from_seconds(3_600) }
    }
}

/// `3.403 s, 2 km and 0.7 magnitudes apart`.
impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.time.ticks() / (TICKS_PER_SECOND.unsigned_abs() / 1_000);
        let magnitude = (self.magnitude * 100.0).round() / 100.0;
        write!(f, "{}.{:03} s, {:.0} km and {magnitude} magnitudes apart", millis / 1_000, millis % 1_000, self.km)
    }
}

/// How far apart two solutions lie, unless a magnitude is unknown.
#[must_use]
pub fn apart(a: &Event, b: &Event) -> Option<Apart> {
    Some(Apart {
        time: a.origin_at.since(b.origin_at).max(b.origin_at.since(a.origin_at)),
        km: distance_km(a.coordinates, b.coordinates),
        magnitude: (a.magnitude?.value() - b.magnitude?.value()).abs(),
    })
}

/// The networks that an event's ids come from, each once: the first two letters of an id, as `us` of `us6000qw60` and of
/// `usc000tb4f`. Longer names of catalogues are cut to two as well, so that two of them rather count as one.
#[must_use]
pub fn networks(event: &Event) -> BTreeSet<&str> {
    event.ids.iter().chain([&event.id]).filter_map(network).collect()
}

fn network(id: &EventId) -> Option<&str> {
    id.as_str().get(..2).filter(|code| code.bytes().all(|b| b.is_ascii_alphabetic()))
}

/// Whether every id of both tells its network, and none is of both.
fn of_different_networks(a: &Event, b: &Event) -> bool {
    let all_told = |event: &Event| event.ids.iter().chain([&event.id]).all(|id| network(id).is_some());
    all_told(a) && all_told(b) && networks(a).is_disjoint(&networks(b))
}
