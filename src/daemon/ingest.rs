//! Ingest: from the feed to the rows of events.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::gap::{Closed, GapCloser};
use super::settings::Polling;
use super::vanished::{MAX_LOOKED_FOR, Vanished};
use super::{DaemonError, Database, with_causes};
use crate::clock::Clock;
use crate::event::EventId;
use crate::feed::{Feed, Poll, Rejection, Snapshot};
use crate::freshness::FeedState;
use crate::news::EventRules;
use crate::store::{Ingested, Store};
use crate::time::Timestamp;

/// Polls one feed and records what it shows.
pub struct Ingester {
    pub feed: Feed,
    pub rules: EventRules,
    pub database: Database,
    pub clock: Arc<dyn Clock>,
    /// Whom to ask for what an outage swallowed.
    pub gaps: GapCloser,
    /// Whom to ask for what is gone from the feed.
    pub vanished: Vanished,
}

impl Ingester {
    /// Takes over other settings: whether they are of another feed.
    pub fn take_over(&mut self, polling: Polling) -> bool {
        let is_other = polling.feed.url() != self.feed.url();
        self.feed = polling.feed.carrying_on(&self.feed);
        (self.rules, self.gaps, self.vanished) = (polling.rules, polling.gaps, polling.vanished);
        is_other
    }

    /// Polls once, and closes a gap if there is one. `None`: the feed has not changed. Of several daemons one polls.
    ///
    /// # Errors
    /// [`DaemonError`] if another daemon polls, the feed cannot be read or its content not recorded; the next poll shows the same
    /// again.
    pub async fn poll(&mut self) -> Result<Option<Ingested>, DaemonError> {
        if !self.database.with(Store::polls).await? {
            return Err(DaemonError::PollsElsewhere);
        }
        let now = self.clock.now();
        let polled = self.feed.poll(now).await?;
        let state = self.state().await?;
        let snapshot = match polled {
            Poll::Fresh(snapshot) => Some(snapshot),
            Poll::Unchanged => None,
        };
        let since = self.gap(&state, snapshot.is_some(), now).await?;
        let closed = match since {
            Some(since) => self.close(since, now).await,
            None => None,
        };
        let is_closed = closed.is_some();
        let shown = snapshot.as_ref().map(ids);
        if snapshot.is_none() && !is_closed {
            self.database.with(move |store| store.note_poll(now)).await?;
            return Ok(None);
        }
        let ingested = self.record(closed.map(|closed| closed.snapshot), snapshot).await?;
        self.feed.accept();
        if is_closed {
            self.database.with(|store| store.note_gap(None)).await?;
        }
        if let Some(shown) = shown {
            self.look_for_vanished(&shown, now).await?;
        }
        Ok(Some(ingested))
    }

    /// What is known of the feed's polls.
    ///
    /// # Errors
    /// [`DaemonError::Store`] if the database cannot be read.
    pub async fn state(&self) -> Result<FeedState, DaemonError> {
        let url = self.feed.url().to_string();
        Ok(self.database.with(move |store| store.feed_state(&url)).await?)
    }

    /// Since when content may be missing. A new gap is noted before what comes after it is recorded.
    async fn gap(&self, state: &FeedState, is_fresh: bool, now: Timestamp) -> Result<Option<Timestamp>, DaemonError> {
        if state.gap_since.is_some() || !is_fresh {
            return Ok(state.gap_since);
        }
        let Some(since) = state.known_until().filter(|since| GapCloser::is_gap(self.feed.url(), *since, now)) else {
            return Ok(None);
        };
        let told = format!("the feed was last known at {since}, which is longer ago than it reaches back");
        if !self.gaps.can_ask(self.feed.url()) {
            tracing::warn!("{told}: what came between stays unknown; feed.fdsn names a service to ask");
            return Ok(None);
        }
        tracing::warn!("{told}: asking for what came between");
        self.database.with(move |store| store.note_gap(Some(since))).await?;
        Ok(Some(since))
    }

    /// Asks for what the gap swallowed. A failure is logged, and does not keep the feed itself from being recorded.
    async fn close(&mut self, since: Timestamp, now: Timestamp) -> Option<Closed> {
        match self.gaps.close(self.feed.url(), since, self.rules.min_magnitude, now).await {
            Ok(closed) => {
                if let Some(closed) = &closed {
                    let events = closed.snapshot.events.len();
                    tracing::info!("what came since {since} was asked of {}: {events} events", closed.asked);
                }
                closed
            }
            Err(fault) => {
                tracing::error!("what came since {since} is still unknown: {}", with_causes(&fault));
                None
            }
        }
    }

    /// Asks what became of events that subscribers were told of and that the feed should still show.
    async fn look_for_vanished(&mut self, shown: &BTreeSet<EventId>, now: Timestamp) -> Result<(), DaemonError> {
        let Some(since) = self.vanished.shown_since(self.feed.url(), now) else { return Ok(()) };
        let told = self.database.with(move |store| store.told_events(since, MAX_LOOKED_FOR)).await?;
        let found = self.vanished.ask(self.feed.url(), told, shown, now).await;
        if !found.known.is_empty() || !found.deleted.is_empty() {
            let snapshot = Snapshot { events: found.known, deleted: found.deleted, ..Snapshot::default() };
            self.record(None, Some(snapshot)).await?;
        }
        Ok(())
    }

    /// Records the older content and the feed's own as one, so that of all of it the largest event is decided first.
    async fn record(&self, older: Option<Snapshot>, newest: Option<Snapshot>) -> Result<Ingested, DaemonError> {
        let generated_at = newest.as_ref().and_then(|snapshot| snapshot.generated_at);
        let (mut events, mut deleted) = (Vec::new(), Vec::new());
        for snapshot in older.into_iter().chain(newest) {
            snapshot.rejected.iter().for_each(log_rejection);
            events.extend(snapshot.events);
            deleted.extend(snapshot.deleted);
        }
        let (rules, now, url) = (self.rules, self.clock.now(), self.feed.url().to_string());
        let record = move |store: &mut Store| {
            // First, since a poll that was recorded is not looked at again.
            let mut withdrawn = 0;
            for id in &deleted {
                withdrawn += usize::from(store.withdraw(id, now)?);
            }
            let ingested = store.record(&url, generated_at, &events, &rules, now)?;
            Ok(Ingested { withdrawn, ..ingested })
        };
        Ok(self.database.with(record).await?)
    }
}

/// Every id that the feed shows.
fn ids(snapshot: &Snapshot) -> BTreeSet<EventId> {
    snapshot
        .events
        .iter()
        .flat_map(|event| event.ids.iter().cloned())
        .chain(snapshot.deleted.iter().cloned())
        .chain(snapshot.rejected.iter().filter_map(|rejection| rejection.id.clone()))
        .collect()
}

fn log_rejection(rejection: &Rejection) {
    let id = rejection.id.as_ref().map_or("without a valid id", |id| id.as_str());
    tracing::warn!(feature = rejection.index, id, "left out a feature of the feed: {}", rejection.reason);
}
