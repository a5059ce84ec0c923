//! Events that subscribers were told of and that are gone from the feed although they should still be in it: the FDSN service
//! is asked what became of them. Only its word is a deletion; a feed that shows less is none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::with_causes;
use crate::event::{Event, EventId};
use crate::feed::fdsn::Fdsn;
use crate::feed::{FeedError, FeedUrl};
use crate::time::{Span, Timestamp};

/// The most questions after one poll.
const MAX_QUESTIONS: usize = 3;
/// How long the same event is not asked about again.
const ASK_EVERY: Span = Span::from_seconds(15 * 60);
/// The most events whose last question is remembered.
const MAX_REMEMBERED: usize = 1_000;
/// An event about to leave the feed by its age may leave it a little earlier: a cache, an origin that moved.
const MARGIN: Span = Span::from_seconds(15 * 60);
/// The most events that a poll looks for in the feed.
pub(super) const MAX_LOOKED_FOR: usize = 1_000;

/// Asks about them.
#[derive(Debug, Default)]
pub struct Vanished {
    fdsn: Option<Arc<Fdsn>>,
    asked: BTreeMap<EventId, Timestamp>,
}

/// What the service said.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// Known to the service, perhaps changed.
    pub known: Vec<Event>,
    /// Deleted, by the service's word.
    pub deleted: Vec<EventId>,
}

impl Vanished {
    /// Asks this service.
    #[must_use]
    pub fn new(fdsn: Option<Arc<Fdsn>>) -> Vanished {
        Vanished { fdsn, asked: BTreeMap::new() }
    }

    /// Since when the origins lie of events that a feed at this address, read at `now`, should show. `None` if that is unknown
    /// or there is nobody to ask.
    #[must_use]
    pub fn shown_since(&self, url: &FeedUrl, now: Timestamp) -> Option<Timestamp> {
        let reach = url.reach().filter(|_| self.fdsn.is_some() && url.threshold().is_some())?;
        Some(now.minus(reach).plus(MARGIN))
    }

    /// Asks about those of `told` that `shown` has under none of their ids, at most `MAX_QUESTIONS` at a time and about each
    /// every `ASK_EVERY` at most. What the service does not answer is asked again later.
    pub async fn ask(&mut self, url: &FeedUrl, told: Vec<Event>, shown: &BTreeSet<EventId>, now: Timestamp) -> Found {
        let mut found = Found::default();
        let (Some(fdsn), Some(threshold)) = (self.fdsn.clone(), url.threshold()) else { return found };
        // A clock that was set back forgets.
        self.asked.retain(|_, at| *at <= now && now.since(*at) < ASK_EVERY);
        let should_be_there = |event: &Event| event.magnitude.is_some_and(|magnitude| magnitude.value() >= threshold);
        let is_gone = |event: &Event| !event.ids.iter().any(|id| shown.contains(id));
        let gone: Vec<EventId> = told
            .into_iter()
            .filter(|event| should_be_there(event) && is_gone(event) && !self.asked.contains_key(&event.id))
            .map(|event| event.id)
            .take(MAX_QUESTIONS.min(MAX_REMEMBERED.saturating_sub(self.asked.len())))
            .collect();
        for id in gone {
            self.asked.insert(id.clone(), now);
            match fdsn.event(&id, now).await {
                Ok(Some(snapshot)) if snapshot.deleted.contains(&id) => found.deleted.push(id),
                Ok(Some(snapshot)) => found.known.extend(snapshot.events.into_iter().filter(|event| event.ids.contains(&id))),
                Ok(None) => {
                    tracing::info!(event = %id, "gone from the feed, and unknown to the service: nothing follows from that");
                }
                Err(FeedError::Deleted { .. }) => {
                    tracing::info!(event = %id, "gone from the feed, and deleted, says the service");
                    found.deleted.push(id);
                }
                Err(fault) => {
                    tracing::warn!(event = %id, "gone from the feed, and nobody says why: {}", with_causes(&fault));
                    break;
                }
            }
        }
        found
    }
}
