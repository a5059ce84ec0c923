//! The outbox as its operator sees it: what is due, under way and dead, putting dead letters back, and ending deliveries.
//! Each transition is guarded in SQL: what another process leased meanwhile is refused, and nothing of the request is done.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use rusqlite::{OptionalExtension, Row, Transaction, TransactionBehavior, named_params, params};

use super::messages::{alert_from_row, message_pieces, named_by};
use super::notices::revive_notices;
use super::rows::{At, Word, optional_at};
use super::subscribers::SubscriberKey;
use super::{Store, StoreError, step};
use crate::alert::Alert;
use crate::channel::{Channel, Lane};
use crate::event::Magnitude;
use crate::subscriber::Standing;
use crate::time::Timestamp;

/// How a message stands in the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryStatus {
    /// An attempt is under way.
    Leased,
    /// It waits for its first or next attempt.
    Due,
    /// It was given up.
    Dead,
    /// The destination has it.
    Delivered,
    /// It was ended by hand, or with its subscriber.
    Dropped,
}

/// A message as it is listed, whoever it is to.
#[derive(Clone, Debug)]
pub struct MessageRow {
    pub id: String,
    /// One line for people; the fault where the message cannot be read.
    pub title: Result<String, String>,
    pub status: DeliveryStatus,
    /// Since it was created, or put back by hand.
    pub attempts: u32,
    pub created_at: Timestamp,
    pub due_at: Timestamp,
    pub lease_until: Option<Timestamp>,
    pub retried_at: Option<Timestamp>,
    pub settled_at: Option<Timestamp>,
    /// What the last attempt said, or why it was ended.
    pub detail: Option<String>,
}

impl MessageRow {
    /// The instant that matters to its status: when it ended, when its lease ends, or when it is due.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.settled_at.or(self.lease_until).unwrap_or(self.due_at)
    }
}

/// One message in the outbox.
#[derive(Clone, Debug)]
pub struct OutboxRow {
    pub message: MessageRow,
    pub subscriber: String,
    /// The subscriber's: nothing leaves for one that is paused or disabled.
    pub standing: Standing,
    pub channel: Channel,
    pub magnitude: Option<Magnitude>,
}

/// What putting dead letters back did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    pub count: u64,
    /// Of their subscribers those for whom they wait, since they are paused or disabled.
    pub held_up: BTreeMap<String, Standing>,
}

impl DeliveryStatus {
    /// All of them, in the order in which they are shown.
    pub const ALL: [DeliveryStatus; 5] =
        [DeliveryStatus::Leased, DeliveryStatus::Due, DeliveryStatus::Dead, DeliveryStatus::Delivered, DeliveryStatus::Dropped];

    /// Its word in the database, on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DeliveryStatus::Leased => "leased",
            DeliveryStatus::Due => "due",
            DeliveryStatus::Dead => "dead",
            DeliveryStatus::Delivered => "delivered",
            DeliveryStatus::Dropped => "dropped",
        }
    }
}

impl fmt::Display for DeliveryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DeliveryStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<DeliveryStatus, String> {
        let known = DeliveryStatus::ALL.into_iter().find(|status| status.name() == text);
        known.ok_or_else(|| format!("'{text}' is not a status: expected leased, due, dead, delivered or dropped"))
    }
}

impl Store {
    /// Up to `most` messages of one status, of one subscriber or all: what is due in the order in which it leaves, the rest
    /// the newest first.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn outbox(
        &self,
        status: DeliveryStatus,
        subscriber: Option<SubscriberKey>,
        most: usize,
    ) -> Result<Vec<OutboxRow>, StoreError> {
        let order = match status {
            DeliveryStatus::Due => "o.magnitude DESC, o.due_at",
            _ => "o.settled_at DESC, o.delivery_key DESC",
        };
        // The status stands in the text, so that the index of its rows serves.
        let sql = format!(
            "SELECT o.*, s.name, s.standing, c.content, t.terms
             FROM outbox AS o JOIN subscribers AS s ON s.subscriber_key = o.subscriber_key {pieces}
             WHERE o.status = '{status}' AND (?1 IS NULL OR o.subscriber_key = ?1) ORDER BY {order} LIMIT ?2",
            pieces = message_pieces!()
        );
        let read = || -> rusqlite::Result<Vec<OutboxRow>> {
            let mut statement = self.connection.prepare(&sql)?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let rows = statement.query_map(params![subscriber.map(|key| key.0), most], |row| outbox_row(row, status))?;
            rows.collect()
        };
        read().map_err(step("read the outbox"))
    }

    /// How many messages have this status, of one subscriber or all.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn count_outbox(&self, status: DeliveryStatus, subscriber: Option<SubscriberKey>) -> Result<u64, StoreError> {
        let sql = format!("SELECT count(*) FROM outbox WHERE status = '{status}' AND (?1 IS NULL OR subscriber_key = ?1)");
        let count = self.connection.query_row(&sql, [subscriber.map(|key| key.0)], |row| row.get::<_, i64>(0));
        count.map(|count| u64::try_from(count).unwrap_or_default()).map_err(step("count the outbox"))
    }

    /// Puts dead letters back, to be attempted from `now` on as if they were new; those to the operator too. All of them or
    /// none.
    ///
    /// # Errors
    /// [`StoreError::NoDelivery`] or [`StoreError::WrongStatus`] for one that is not there or not dead; nothing is changed.
    pub fn retry_dead(&mut self, ids: &[String], now: Timestamp) -> Result<Retried, StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin putting dead letters back"))?;
        let mut retried = Retried::default();
        for id in ids {
            let (subscriber, event) = named_by(id);
            let one = named_params! { ":id": id, ":event": event, ":subscriber": subscriber, ":now": At(now) };
            if revive(&transaction, "event_key = :event AND subscriber_key = :subscriber AND alert_id = :id", one)? == 0 {
                if revive_notices(&transaction, Some(id), now)? > 0 {
                    retried.count += 1;
                    continue;
                }
                return Err(refusal(&transaction, id, "dead, of a subscriber who is still there")?);
            }
            retried.count += 1;
            let sql = "SELECT name, standing FROM subscribers WHERE subscriber_key = ?1";
            retried.add_held_up(&transaction, sql, [subscriber])?;
        }
        transaction.commit().map_err(step("commit what was put back"))?;
        Ok(retried)
    }

    /// Puts all dead letters back, of one subscriber or all; those to the operator with all.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn retry_all_dead(&mut self, subscriber: Option<SubscriberKey>, now: Timestamp) -> Result<Retried, StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin putting dead letters back"))?;
        let key = subscriber.map(|key| key.0);
        let mut retried = Retried::default();
        let sql = "SELECT DISTINCT s.name, s.standing FROM outbox AS o JOIN subscribers AS s USING (subscriber_key)
                   WHERE o.status = 'dead' AND s.removed_at IS NULL AND (?1 IS NULL OR o.subscriber_key = ?1)";
        retried.add_held_up(&transaction, sql, params![key])?;
        let which = "(:key IS NULL OR subscriber_key = :key)";
        let count = revive(&transaction, which, named_params! { ":key": key, ":now": At(now) })?;
        let notices = if key.is_none() { revive_notices(&transaction, None, now)? } else { 0 };
        retried.count = (count + notices) as u64;
        transaction.commit().map_err(step("commit what was put back"))?;
        Ok(retried)
    }

    /// Ends due or dead deliveries, those to the operator too; `reason` stands in their rows. All of them or none.
    ///
    /// # Errors
    /// [`StoreError::NoDelivery`] or [`StoreError::WrongStatus`] for one that is not there, under way or over; nothing is
    /// changed.
    pub fn drop_deliveries(&mut self, ids: &[String], reason: &str, now: Timestamp) -> Result<(), StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin dropping deliveries"))?;
        for id in ids {
            let (subscriber, event) = named_by(id);
            let alert = "UPDATE outbox SET status = 'dropped', settled_at = ?2, detail = ?3
                         WHERE event_key = ?4 AND subscriber_key = ?5 AND alert_id = ?1 AND status IN ('due', 'dead')";
            let notice = "UPDATE notices SET status = 'dropped', settled_at = ?2, detail = ?3
                          WHERE alert_id = ?1 AND status IN ('due', 'dead')";
            let dropped = transaction
                .execute(alert, params![id, At(now), reason, event, subscriber])
                .and_then(|alerts| Ok(alerts + transaction.execute(notice, params![id, At(now), reason])?))
                .map_err(step("drop a delivery"))?;
            if dropped == 0 {
                return Err(refusal(&transaction, id, "due or dead")?);
            }
        }
        transaction.commit().map_err(step("commit what was dropped"))
    }
}

impl Retried {
    fn add_held_up(
        &mut self,
        transaction: &Transaction<'_>,
        sql: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<(), StoreError> {
        let read = || -> rusqlite::Result<Vec<(String, Standing)>> {
            let mut statement = transaction.prepare_cached(sql)?;
            statement.query_map(parameters, |row| Ok((row.get(0)?, row.get::<_, Word<Standing>>(1)?.0)))?.collect()
        };
        let found = read().map_err(step("read whose dead letters are put back"))?;
        self.held_up.extend(found.into_iter().filter(|(_, standing)| *standing != Standing::Active));
        Ok(())
    }
}

/// Makes dead letters due, as far as their subscribers are still there: how many.
fn revive(transaction: &Transaction<'_>, which: &str, parameters: &[(&str, &dyn rusqlite::ToSql)]) -> Result<usize, StoreError> {
    let sql = format!(
        "UPDATE outbox SET status = 'due', due_at = :now, retried_at = :now, attempts = 0, settled_at = NULL, noticed = 0
         WHERE status = 'dead' AND {which}
           AND (SELECT removed_at IS NULL FROM subscribers AS s WHERE s.subscriber_key = outbox.subscriber_key)"
    );
    let revived = transaction.prepare_cached(&sql).and_then(|mut statement| statement.execute(parameters));
    revived.map_err(step("put a dead letter back"))
}

/// Why a delivery could not be changed as asked.
fn refusal(transaction: &Transaction<'_>, id: &str, expected: &'static str) -> Result<StoreError, StoreError> {
    let (subscriber, event) = named_by(id);
    let sql = "SELECT status, lease_until FROM outbox WHERE event_key = ?2 AND subscriber_key = ?3 AND alert_id = ?1
               UNION ALL SELECT status, lease_until FROM notices WHERE alert_id = ?1";
    let found = transaction
        .query_row(sql, params![id, event, subscriber], |row| {
            Ok((row.get::<_, Word<DeliveryStatus>>(0)?.0, optional_at(row, "lease_until")?))
        })
        .optional()
        .map_err(step("look for a delivery"))?;
    Ok(match found {
        None => StoreError::NoDelivery(id.to_owned()),
        Some((DeliveryStatus::Leased, Some(until))) => {
            let found = format!("under way (leased until {until} at the latest)");
            StoreError::WrongStatus { id: id.to_owned(), found, expected }
        }
        Some((status, _)) => StoreError::WrongStatus { id: id.to_owned(), found: status.to_string(), expected },
    })
}

/// A row of the outbox or of the notices.
pub(super) fn message_row(row: &Row<'_>, status: DeliveryStatus, alert: rusqlite::Result<Alert>) -> rusqlite::Result<MessageRow> {
    let attempts: i64 = row.get("attempts")?;
    // A message that cannot be read is listed like any other, so that it can be dropped.
    let title = alert.map(|alert| alert.title()).map_err(|fault| fault.to_string());
    Ok(MessageRow {
        id: row.get("alert_id")?,
        title,
        status,
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        created_at: row.get::<_, At>("created_at")?.0,
        due_at: row.get::<_, At>("due_at")?.0,
        lease_until: optional_at(row, "lease_until")?,
        retried_at: optional_at(row, "retried_at")?,
        settled_at: optional_at(row, "settled_at")?,
        detail: row.get("detail")?,
    })
}

pub(super) fn outbox_row(row: &Row<'_>, status: DeliveryStatus) -> rusqlite::Result<OutboxRow> {
    Ok(OutboxRow {
        message: message_row(row, status, alert_from_row(row))?,
        subscriber: row.get("name")?,
        standing: row.get::<_, Word<Standing>>("standing")?.0,
        channel: Lane::from_text(row.get("channel")?).channel().clone(),
        magnitude: row.get::<_, Option<f64>>("magnitude")?.and_then(|value| Magnitude::new(value).ok()),
    })
}
