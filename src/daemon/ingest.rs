//! Ingest: from the feed to the rows of events.

use std::sync::Arc;

use super::{DaemonError, Database};
use crate::clock::Clock;
use crate::feed::{Feed, Poll};
use crate::news::EventRules;
use crate::store::{Ingested, Store};

/// Polls one feed and records what it shows.
pub struct Ingester {
    pub feed: Feed,
    pub rules: EventRules,
    pub database: Database,
    pub clock: Arc<dyn Clock>,
}

impl Ingester {
    /// Polls once. `None`: the feed has not changed.
    ///
    /// # Errors
    /// [`DaemonError`] if the feed cannot be read or its content not recorded; the next poll shows the same again.
    pub async fn poll(&mut self) -> Result<Option<Ingested>, DaemonError> {
        let Poll::Fresh(snapshot) = self.feed.poll(self.clock.now()).await? else { return Ok(None) };
        for rejection in &snapshot.rejected {
            let id = rejection.id.as_ref().map_or("without a valid id", |id| id.as_str());
            tracing::warn!(feature = rejection.index, id, "left out a feature of the feed: {}", rejection.reason);
        }
        let (rules, now, url) = (self.rules, self.clock.now(), self.feed.url().to_string());
        let record = move |store: &mut Store| {
            // First, since a poll that was recorded is not looked at again.
            let mut withdrawn = 0;
            for id in &snapshot.deleted {
                withdrawn += usize::from(store.withdraw(id, now)?);
            }
            let ingested = store.record(&url, snapshot.generated_at, &snapshot.events, &rules, now)?;
            Ok(Ingested { withdrawn, ..ingested })
        };
        let ingested = self.database.with(record).await?;
        self.feed.accept();
        Ok(Some(ingested))
    }
}
