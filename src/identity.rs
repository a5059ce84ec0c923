//! Which known event a sighting belongs to, and what it changes. Pure: rows and their order belong to the store.
//!
//! The rule:
//! - An event is known by *all* its ids. A sighting that shares an id with a known event is that event, whichever id the
//!   service prefers now; one that shares ids with several shows that they were one event all along.
//! - Of several, the earliest known survives (it is the one that was alerted), and takes in the others.
//! - The newest knowledge is kept whole. `updated_at` says which is newer; a sighting that is as old, or that does not say,
//!   is newer because it came later. An older sighting, as a cache may hand out, changes nothing but the ids.
//! - Ids are never lost: what is kept has the ids of everything that went into it. An event that the service splits again
//!   therefore stays one.
//!
//! Sightings that share no id with anything known may still be of a known quake: [`unlinked`] tells.

pub mod unlinked;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::{Event, EventId};

/// An event as known so far, with the key of its record.
///
/// Keys are in the order in which the events became known, as row numbers are.
#[derive(Clone, Debug, PartialEq)]
pub struct Known<K> {
    pub key: K,
    pub event: Event,
}

/// What a sighting is to what is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Identity<K> {
    /// No known event has any of its ids.
    New { event: Event },
    /// Nothing changed that matters. `event` may still have a newer `updated_at` or page, worth keeping.
    Same { key: K, event: Event },
    /// `event` is what is known now; `changes` is never empty.
    Revised { key: K, event: Event, changes: Vec<Change> },
    /// Several known events are one. `key` survives, `absorbed` are the others, at least one, in order. `event` is what is
    /// known now, and `changes` what that changes for the survivor: at least its ids.
    Merged { key: K, absorbed: Vec<K>, event: Event, changes: Vec<Change> },
}

/// Something that differs between two versions of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The magnitude or its scale.
    Magnitude,
    /// The coordinates or the place's name.
    Place,
    /// The origin time.
    Origin,
    Depth,
    /// The id that the service prefers.
    PreferredId,
    /// There are ids that were not known before.
    Ids,
    /// The PAGER level.
    Pager,
    Tsunami,
    Kind,
    Status,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Change::Magnitude => "magnitude",
            Change::Place => "place",
            Change::Origin => "origin",
            Change::Depth => "depth",
            Change::PreferredId => "preferred id",
            Change::Ids => "ids",
            Change::Pager => "alert level",
            Change::Tsunami => "tsunami",
            Change::Kind => "kind",
            Change::Status => "status",
        })
    }
}

impl<K> Identity<K> {
    /// What is known of the event now.
    #[must_use]
    pub fn event(&self) -> &Event {
        match self {
            Identity::New { event }
            | Identity::Same { event, .. }
            | Identity::Revised { event, .. }
            | Identity::Merged { event, .. } => event,
        }
    }
}

/// Tells what `seen` is, given the known events that share an id with it. Known events that share none are left alone.
#[must_use]
pub fn merge<K: Ord + Clone>(known: &[Known<K>], seen: &Event) -> Identity<K> {
    let mut same: Vec<&Known<K>> = known.iter().filter(|candidate| shares_an_id(&candidate.event, seen)).collect();
    same.sort_by(|a, b| a.key.cmp(&b.key));
    let Some((survivor, others)) = same.split_first() else {
        return Identity::New { event: united(seen.clone(), &[]) };
    };
    let versions: Vec<&Event> = same.iter().map(|record| &record.event).collect();
    let event = united(newest(&versions, seen).clone(), &[&versions[..], &[seen]].concat());
    let changes = changes(&survivor.event, &event);
    let key = survivor.key.clone();
    if !others.is_empty() {
        let absorbed = others.iter().map(|record| record.key.clone()).collect();
        Identity::Merged { key, absorbed, event, changes }
    } else if changes.is_empty() {
        Identity::Same { key, event }
    } else {
        Identity::Revised { key, event, changes }
    }
}

/// What of `after` differs from `before`, in the order of [`Change`]; empty if nothing that matters does.
#[must_use]
pub fn changes(before: &Event, after: &Event) -> Vec<Change> {
    let magnitude = before.magnitude != after.magnitude || before.magnitude_type != after.magnitude_type;
    let place = before.coordinates != after.coordinates || before.place != after.place;
    [
        (Change::Magnitude, magnitude),
        (Change::Place, place),
        (Change::Origin, before.origin_at != after.origin_at),
        (Change::Depth, before.depth_km != after.depth_km),
        (Change::PreferredId, before.id != after.id),
        (Change::Ids, after.ids.iter().any(|id| !before.ids.contains(id))),
        (Change::Pager, before.pager != after.pager),
        (Change::Tsunami, before.tsunami != after.tsunami),
        (Change::Kind, before.kind != after.kind),
        (Change::Status, before.status != after.status),
    ]
    .into_iter()
    .filter_map(|(change, differs)| differs.then_some(change))
    .collect()
}

fn shares_an_id(known: &Event, seen: &Event) -> bool {
    ids(seen).any(|id| ids(known).any(|other| other == id))
}

/// The preferred id and all others, some twice.
fn ids(event: &Event) -> impl Iterator<Item = &EventId> {
    std::iter::once(&event.id).chain(&event.ids)
}

/// The event with the ids of another that turned out to be the same.
#[must_use]
pub fn with_ids_of(event: Event, other: &Event) -> Event {
    let updated_at = event.updated_at;
    Event { updated_at, ..united(event, &[other]) }
}

/// The newest version: `seen` unless a known one is newer by its own word. Of known ones that are as new, the earliest known.
/// A deletion is as new as what it deleted: a copy out of a cache does not bring that back.
fn newest<'a>(known: &[&'a Event], seen: &'a Event) -> &'a Event {
    let newer = |event: &Event| seen.updated_at.is_some() && event.updated_at > seen.updated_at;
    let stays_gone = |event: &Event| event.is_withdrawn() && event.updated_at >= seen.updated_at;
    let newer_than_seen = known.iter().filter(|event| newer(event) || stays_gone(event));
    newer_than_seen.copied().reduce(|best, event| if event.updated_at > best.updated_at { event } else { best }).unwrap_or(seen)
}

/// `event` with the ids of all versions, and with the latest time of change that any of them names.
fn united(mut event: Event, versions: &[&Event]) -> Event {
    let mut all: Vec<EventId> = ids(&event).chain(versions.iter().flat_map(|version| ids(version))).cloned().collect();
    all.sort();
    all.dedup();
    event.ids = all;
    event.updated_at = versions.iter().map(|version| version.updated_at).fold(event.updated_at, Ord::max);
    event
}
