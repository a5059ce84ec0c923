//! Reading the ledger: what was decided, why, and what became of it.

use super::queries::{self, ledger_columns, quake_of};
use super::rows::{At, Json, Word, optional_at};
use super::sql::{self, OptionalExtension, Row};
use super::subscribers::SubscriberKey;
use super::{Store, StoreError, step};
use crate::event::{Event, EventId};
use crate::plan::{Outcome, UpdateOutcome};
use crate::time::Timestamp;

/// One decision with its delivery.
#[derive(Clone, Debug)]
pub struct LedgerRow {
    pub subscriber: String,
    pub event: Event,
    pub decided_at: Timestamp,
    pub outcome: Outcome,
    pub reason: String,
    /// What the limiter said, whatever became of it.
    pub refused: bool,
    /// How many more like it the limiter would have admitted after the decision; `None` where it was not asked.
    pub remaining: Option<u64>,
    pub retry_at: Option<Timestamp>,
    /// The id of the alert or digest that tells of it, where there is one, and its status in the outbox.
    pub alert_id: Option<String>,
    pub delivery: Option<String>,
    /// When that message was made, and when it was or is due: later only out of a leaky bucket, or to be tried again.
    pub told_at: Option<Timestamp>,
    pub due_at: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    /// What the last attempt said, or why the delivery was ended.
    pub delivery_detail: Option<String>,
}

/// One version that was worth telling a subscriber, with its delivery.
#[derive(Clone, Debug)]
pub struct UpdateRow {
    pub subscriber: String,
    /// The event in this version.
    pub event: Event,
    pub withdrawal: bool,
    pub decided_at: Timestamp,
    pub outcome: UpdateOutcome,
    pub reason: String,
    /// What the limiter said, whatever became of it.
    pub refused: bool,
    pub retry_at: Option<Timestamp>,
    /// The id of the message, where there is one, and its status in the outbox.
    pub alert_id: Option<String>,
    pub delivery: Option<String>,
    pub settled_at: Option<Timestamp>,
}

/// What became known of an event at one moment.
#[derive(Clone, Debug)]
pub struct HistoryRow {
    pub seen_at: Timestamp,
    pub event: Event,
    /// What changed, or what was made of it.
    pub changes: String,
}

/// A subscriber's decisions by outcome, and its messages by status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriberCounts {
    /// In the order of [`Outcome::ALL`].
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Updates and withdrawals, in the order of [`UpdateOutcome::ALL`].
    pub updates: [u64; UpdateOutcome::ALL.len()],
    /// Messages that were accepted by the destination, digests and updates included.
    pub delivered: u64,
    /// Messages that wait in the outbox.
    pub due: u64,
    /// Messages that were given up.
    pub dead: u64,
}

impl Store {
    /// The ledger in order of decision, of one subscriber or all, of one event (with what is one quake with it) or all.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn ledger(&self, subscriber: Option<SubscriberKey>, event: Option<&EventId>) -> Result<Vec<LedgerRow>, StoreError> {
        let sql = concat!(
            ledger_columns!(),
            " FROM decisions AS d JOIN events AS e USING (event_key) JOIN subscribers AS s ON s.subscriber_key = d.subscriber_key
              LEFT JOIN outbox AS o USING (delivery_key)
              WHERE (d.subscriber_key = ?1 OR ?1 IS NULL) AND (CAST(?2 AS TEXT) IS NULL OR d.event_key IN ",
            quake_of!("(SELECT event_key FROM event_ids WHERE id = ?2)"),
            ") ORDER BY d.decided_at, d.event_key, d.subscriber_key"
        );
        let read = || -> sql::Result<Vec<LedgerRow>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let parameters = sql::params![subscriber.map(|key| key.0), event.map(EventId::as_str)];
            statement.query_map(parameters, ledger_row)?.collect()
        };
        read().map_err(step("read the ledger"))
    }

    /// A subscriber's decisions from `from` (inclusive) to `to` (exclusive), in order of decision; where they are more than `most`, the
    /// last of them.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn ledger_between(
        &self,
        key: SubscriberKey,
        from: Timestamp,
        to: Timestamp,
        most: usize,
    ) -> Result<Vec<LedgerRow>, StoreError> {
        let read = || -> sql::Result<Vec<LedgerRow>> {
            let mut statement = self.connection.prepare_cached(queries::LEDGER_BETWEEN)?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let rows = statement.query_map(sql::params![key.0, At(from), At(to), most], ledger_row)?;
            rows.collect()
        };
        let mut rows = read().map_err(step("read the ledger"))?;
        rows.reverse();
        Ok(rows)
    }

    /// The updates and withdrawals in order of decision, of one subscriber or all, of one event (with what is one quake with
    /// it) or all.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn updates(&self, subscriber: Option<SubscriberKey>, event: Option<&EventId>) -> Result<Vec<UpdateRow>, StoreError> {
        let sql = concat!(
            "SELECT s.name, r.body, u.kind, u.decided_at, u.outcome, u.reason, u.refused, u.retry_at, o.alert_id, o.status, o.settled_at
             FROM updates AS u JOIN subscribers AS s ON s.subscriber_key = u.subscriber_key
             JOIN revisions AS r ON r.event_key = u.event_key AND r.seen_at = u.revision
             LEFT JOIN outbox AS o ON o.delivery_key = u.delivery_key
             WHERE (u.subscriber_key = ?1 OR ?1 IS NULL) AND (CAST(?2 AS TEXT) IS NULL OR u.event_key IN ",
            quake_of!("(SELECT event_key FROM event_ids WHERE id = ?2)"),
            ") ORDER BY u.update_key"
        );
        let read = || -> sql::Result<Vec<UpdateRow>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let parameters = sql::params![subscriber.map(|key| key.0), event.map(EventId::as_str)];
            statement.query_map(parameters, update_row)?.collect()
        };
        read().map_err(step("read the updates"))
    }

    /// What became known of the event with this id, and of all that is one quake with it, in order.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn history(&self, event: &EventId) -> Result<Vec<HistoryRow>, StoreError> {
        let sql = concat!(
            "SELECT seen_at, body, changes FROM revisions WHERE event_key IN ",
            quake_of!("(SELECT event_key FROM event_ids WHERE id = ?1)"),
            " ORDER BY seen_at, event_key"
        );
        let read = || -> sql::Result<Vec<HistoryRow>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map([event.as_str()], |row| {
                Ok(HistoryRow { seen_at: row.get::<_, At>(0)?.0, event: row.get::<_, Json<Event>>(1)?.0, changes: row.get(2)? })
            })?;
            rows.collect()
        };
        read().map_err(step("read an event's history"))
    }

    /// A subscriber's counts.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn counts(&self, key: SubscriberKey) -> Result<SubscriberCounts, StoreError> {
        let outcomes = self.grouped(queries::COUNT_OUTCOMES, key).map_err(step("count decisions"))?;
        let updates = "SELECT outcome, count(*) FROM updates WHERE subscriber_key = ?1 GROUP BY outcome";
        let updates = self.grouped(updates, key).map_err(step("count updates"))?;
        let messages = self.grouped(queries::COUNT_MESSAGES, key).map_err(step("count deliveries"))?;
        let of = |counts: &[(String, u64)], word: &str| counts.iter().filter(|(found, _)| found == word).map(|(_, n)| n).sum();
        Ok(SubscriberCounts {
            outcomes: Outcome::ALL.map(|outcome| of(&outcomes, outcome.name())),
            updates: UpdateOutcome::ALL.map(|outcome| of(&updates, outcome.name())),
            delivered: of(&messages, "delivered"),
            due: of(&messages, "due") + of(&messages, "leased"),
            dead: of(&messages, "dead"),
        })
    }

    fn grouped(&self, sql: &str, key: SubscriberKey) -> sql::Result<Vec<(String, u64)>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows =
            statement.query_map([key.0], |row| Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default())))?;
        rows.collect()
    }

    /// What is known now of the event with this id, whichever of its ids it is.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn event(&self, id: &EventId) -> Result<Option<Event>, StoreError> {
        let sql = "SELECT body FROM events WHERE event_key = (SELECT event_key FROM event_ids WHERE id = ?1)";
        let found = self.connection.query_row(sql, [id.as_str()], |row| row.get::<_, Json<Event>>(0)).optional();
        Ok(found.map_err(step("read an event"))?.map(|body| body.0))
    }

    /// The newest quakes that are known, oldest first, each as it is known now: at most `most`. Not among them is what was withdrawn, and
    /// what was taken for another.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn newest_events(&self, most: u32) -> Result<Vec<Event>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(queries::NEWEST_EVENTS)?;
            let rows = statement.query_map([most], |row| row.get::<_, Json<Event>>(0))?;
            rows.map(|row| row.map(|body| body.0)).collect::<sql::Result<Vec<Event>>>()
        };
        let mut events = read().map_err(step("read the newest events"))?;
        events.reverse();
        Ok(events)
    }
}

fn update_row(row: &Row<'_>) -> sql::Result<UpdateRow> {
    Ok(UpdateRow {
        subscriber: row.get("name")?,
        event: row.get::<_, Json<Event>>("body")?.0,
        withdrawal: row.get::<_, String>("kind")? == "withdrawal",
        decided_at: row.get::<_, At>("decided_at")?.0,
        outcome: row.get::<_, Word<UpdateOutcome>>("outcome")?.0,
        reason: row.get("reason")?,
        refused: row.get("refused")?,
        retry_at: optional_at(row, "retry_at")?,
        alert_id: row.get("alert_id")?,
        delivery: row.get("status")?,
        settled_at: optional_at(row, "settled_at")?,
    })
}

fn ledger_row(row: &Row<'_>) -> sql::Result<LedgerRow> {
    Ok(LedgerRow {
        subscriber: row.get("name")?,
        event: row.get::<_, Json<Event>>("body")?.0,
        decided_at: row.get::<_, At>("decided_at")?.0,
        outcome: row.get::<_, Word<Outcome>>("outcome")?.0,
        reason: row.get("reason")?,
        refused: row.get("refused")?,
        remaining: row.get::<_, Option<i64>>("remaining")?.and_then(|count| u64::try_from(count).ok()),
        retry_at: optional_at(row, "retry_at")?,
        alert_id: row.get("alert_id")?,
        delivery: row.get("status")?,
        told_at: optional_at(row, "created_at")?,
        due_at: optional_at(row, "due_at")?,
        settled_at: optional_at(row, "settled_at")?,
        delivery_detail: row.get("detail")?,
    })
}
