//! What is looked at rather than worked on: the last messages, the quakes of some days, when a subscriber's messages were made. Every
//! answer has a bound.

use rusqlite::params;

use super::messages::alert_from_row;
use super::outbox::outbox_row;
use super::queries;
use super::rows::{At, Json, Word};
use super::subscribers::SubscriberKey;
use super::{OutboxRow, Store, StoreError, step};
use crate::alert::Content;
use crate::event::Event;
use crate::plan::Outcome;
use crate::time::Timestamp;

/// When a message was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageMoment {
    pub created_at: Timestamp,
    /// When it was or is due: later only out of a leaky bucket, or to be tried again.
    pub due_at: Timestamp,
    /// How many more the limiter would have admitted after it.
    pub remaining: u64,
    /// Whether the limit counts it: a withdrawal costs nothing.
    pub counts: bool,
}

/// An earthquake, and what was decided on it for one subscriber.
#[derive(Clone, Debug)]
pub struct Quake {
    pub event: Event,
    /// `None`: nothing, since it does not match its interest, or was not news.
    pub outcome: Option<Outcome>,
}

impl Store {
    /// The last `most` messages that were made, the last first.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn last_messages(&self, most: usize) -> Result<Vec<OutboxRow>, StoreError> {
        let read = || -> rusqlite::Result<Vec<OutboxRow>> {
            let mut statement = self.connection.prepare_cached(queries::LAST_MESSAGES)?;
            let rows = statement.query_map([bound(most)], |row| outbox_row(row, row.get::<_, Word<_>>("status")?.0))?;
            rows.collect()
        };
        read().map_err(step("read the last messages"))
    }

    /// The quakes with origins from `from` (inclusive) to `to` (exclusive), in their order, and what was decided on them for a
    /// subscriber; where they are more than `most`, the last of them. What was merged, taken for another or withdrawn is left out.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn quakes_between(
        &self,
        from: Timestamp,
        to: Timestamp,
        subscriber: Option<SubscriberKey>,
        most: usize,
    ) -> Result<Vec<Quake>, StoreError> {
        let read = || -> rusqlite::Result<Vec<Quake>> {
            let mut statement = self.connection.prepare_cached(queries::QUAKES_BETWEEN)?;
            let parameters = params![At(from), At(to), subscriber.map(|key| key.0), bound(most)];
            let rows = statement.query_map(parameters, |row| {
                let outcome = row.get::<_, Option<Word<Outcome>>>("outcome")?.map(|word| word.0);
                Ok(Quake { event: row.get::<_, Json<Event>>("body")?.0, outcome })
            })?;
            rows.collect()
        };
        let mut quakes = read().map_err(step("read the quakes"))?;
        quakes.reverse();
        Ok(quakes)
    }

    /// When a subscriber's messages were made, from `from` (inclusive) to `to` (exclusive), in order; where they are more than `most`,
    /// the last of them. One that cannot be read is left out.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn messages_between(
        &self,
        key: SubscriberKey,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<MessageMoment>, StoreError> {
        let read = || -> rusqlite::Result<Vec<MessageMoment>> {
            let mut statement = self.connection.prepare_cached(queries::MESSAGES_BETWEEN)?;
            let mut rows = statement.query(params![key.0, At(from), At(to), bound(most)])?;
            let mut moments = Vec::new();
            while let Some(row) = rows.next()? {
                let Ok(alert) = alert_from_row(row) else { continue };
                moments.push(MessageMoment {
                    created_at: row.get::<_, At>("created_at")?.0,
                    due_at: row.get::<_, At>("due_at")?.0,
                    remaining: alert.explanation.remaining,
                    counts: !matches!(alert.content, Content::Withdrawal { .. }),
                });
            }
            Ok(moments)
        };
        let mut moments = read().map_err(step("read when messages were made"))?;
        moments.reverse();
        Ok(moments)
    }
}

fn bound(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}
