//! What is kept of the feed's polls: when the last one succeeded, how new its content was, what an outage left unknown.

use super::rows::{At, Json};
use super::sql::{OptionalExtension, params};
use super::{Store, StoreError, queries, step};
use crate::event::Event;
use crate::freshness::FeedState;
use crate::time::{Span, Timestamp};

/// A poll that found nothing new is noted no more often than this.
const NOTE_EVERY: Span = Span::from_seconds(30);

impl Store {
    /// What is known of this feed's polls; nothing of a feed that was never recorded, or not last.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn feed_state(&self, feed_url: &str) -> Result<FeedState, StoreError> {
        let sql = "SELECT polled_at, generated_at, gap_since FROM installation WHERE feed_url = ?1";
        let found = self.connection.query_row(sql, [feed_url], |row| {
            let at = |column| row.get::<_, Option<At>>(column).map(|at| at.map(|at| at.0));
            Ok(FeedState { polled_at: at(0)?, generated_at: at(1)?, gap_since: at(2)? })
        });
        Ok(found.optional().map_err(step("read the state of the feed"))?.unwrap_or_default())
    }

    /// Notes a poll at `now` that succeeded and found nothing new, unless one was noted shortly before.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn note_poll(&mut self, now: Timestamp) -> Result<(), StoreError> {
        // A clock that was set back is followed; before the first recorded poll there is nothing to note.
        let sql = "UPDATE installation SET polled_at = ?1 WHERE polled_at NOT BETWEEN ?2 AND ?1";
        let done = self.connection.execute(sql, params![At(now), At(now.minus(NOTE_EVERY))]);
        done.map(|_| ()).map_err(step("note a poll"))
    }

    /// The events with an origin at `since` or later that somebody was told of, the newest first, at most `most`.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn told_events(&self, since: Timestamp, most: usize) -> Result<Vec<Event>, StoreError> {
        let mut find = self.connection.prepare_cached(queries::TOLD_EVENTS).map_err(step("look for events that were told"))?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = find.query_map(params![At(since), most], |row| Ok(row.get::<_, Json<Event>>(0)?.0));
        rows.and_then(Iterator::collect).map_err(step("look for events that were told"))
    }

    /// Notes since when content may be missing, or that nothing is.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn note_gap(&mut self, since: Option<Timestamp>) -> Result<(), StoreError> {
        let done = self.connection.execute("UPDATE installation SET gap_since = ?1", [since.map(At)]);
        done.map(|_| ()).map_err(step("note a gap"))
    }
}
