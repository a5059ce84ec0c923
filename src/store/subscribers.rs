//! The subscribers: settings, standing and limiter state, as the command line changes them and the daemon reads them.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, named_params, params};

use super::decisions::carry_over;
use super::rows::{At, Json, Word, optional_at};
use super::unsubscribe::{Waiting, drop_of_the_gone};
use super::{Store, StoreError, step};
use crate::channel::Lane;
use crate::limiter::Limiter;
use crate::subscriber::{Enrolment, Standing, Subscriber, SubscriberName};
use crate::time::Timestamp;

/// A subscriber's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriberKey(pub(super) i64);

/// A subscriber as it stands in the database.
#[derive(Clone, Debug)]
pub struct StoredSubscriber {
    pub key: SubscriberKey,
    pub subscriber: Subscriber,
    pub standing: Standing,
    /// Why it is disabled.
    pub standing_reason: Option<String>,
    /// When its recipient left by the link in a message.
    pub unsubscribed_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// When it was added or last resumed: what matched before is not news.
    pub active_since: Timestamp,
    /// When its interest was last changed: what matches it since then and did before is not news.
    pub(super) interest_since: Timestamp,
    /// The limiter's state, `None` while nothing is spent; or why it cannot be read.
    pub(super) limiter: Result<Option<Limiter>, String>,
}

impl StoredSubscriber {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<StoredSubscriber> {
        let state: Option<Vec<u8>> = row.get("limiter")?;
        Ok(StoredSubscriber {
            key: SubscriberKey(row.get("subscriber_key")?),
            subscriber: row.get::<_, Json<Subscriber>>("settings")?.0,
            standing: row.get::<_, Word<Standing>>("standing")?.0,
            standing_reason: row.get("standing_reason")?,
            unsubscribed_at: optional_at(row, "unsubscribed_at")?,
            created_at: row.get::<_, At>("created_at")?.0,
            active_since: row.get::<_, At>("active_since")?.0,
            interest_since: row.get::<_, At>("interest_since")?.0,
            limiter: state.map(|bytes| Limiter::from_bytes(&bytes)).transpose().map_err(|fault| fault.to_string()),
        })
    }
}

impl StoredSubscriber {
    /// Which subscriber it is, whatever it is called.
    #[must_use]
    pub fn enrolment(&self) -> Enrolment {
        Enrolment { number: self.key.0, at: self.created_at }
    }
}

impl Store {
    /// Adds subscribers, all or none, with the secret that signs each one's webhooks.
    ///
    /// # Errors
    /// [`StoreError::SubscriberExists`] naming the first whose name is taken; [`StoreError::Sql`] otherwise.
    pub fn add_subscribers(&mut self, added: &[(Subscriber, Option<String>)], now: Timestamp) -> Result<(), StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin adding subscribers"))?;
        for (subscriber, secret) in added {
            let sql = "INSERT INTO subscribers (name, settings, secret, standing, created_at, active_since, interest_since)
                       VALUES (:name, :settings, :secret, 'active', :now, :now, :now) ON CONFLICT DO NOTHING";
            let name = subscriber.name.as_str();
            let inserted = transaction
                .prepare_cached(sql)
                .and_then(|mut statement| {
                    statement.execute(named_params! {
                        ":name": name, ":settings": Json(subscriber), ":secret": secret, ":now": At(now),
                    })
                })
                .map_err(step("add a subscriber"))?;
            if inserted == 0 {
                return Err(StoreError::SubscriberExists(name.to_owned()));
            }
        }
        transaction.commit().map_err(step("commit the added subscribers"))
    }

    /// All subscribers in order of name.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn subscribers(&self) -> Result<Vec<StoredSubscriber>, StoreError> {
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut statement = self.connection.prepare("SELECT * FROM subscribers WHERE removed_at IS NULL ORDER BY name")?;
            let rows = statement.query_map([], StoredSubscriber::from_row)?;
            rows.collect()
        };
        read().map_err(step("list the subscribers"))
    }

    /// The subscriber of this name.
    ///
    /// # Errors
    /// [`StoreError::NoSubscriber`] if there is none.
    pub fn subscriber(&self, name: &SubscriberName) -> Result<StoredSubscriber, StoreError> {
        by_name(&self.connection, name)
    }

    /// The secret that signs a subscriber's webhooks, where it has one.
    ///
    /// # Errors
    /// [`StoreError::NoSubscriber`] if there is no such subscriber.
    pub fn secret(&self, name: &SubscriberName) -> Result<Option<String>, StoreError> {
        let sql = "SELECT secret FROM subscribers WHERE name = ?1 AND removed_at IS NULL";
        let found = self.connection.query_row(sql, [name.as_str()], |row| row.get(0)).optional();
        found.map_err(step("read a subscriber's secret"))?.ok_or_else(|| StoreError::NoSubscriber(name.to_string()))
    }

    /// Replaces a subscriber's settings. What its limiter spent stays spent under a new limit; a new interest makes no news
    /// of what it newly matches. A secret, where given, replaces the old one.
    ///
    /// # Errors
    /// [`StoreError::NoSubscriber`] if there is none of this name; [`StoreError::Row`] if its limiter's state cannot be
    /// read, and the settings are as they were.
    pub fn set_subscriber(&mut self, changed: &Subscriber, secret: Option<&str>, now: Timestamp) -> Result<(), StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin changing a subscriber"))?;
        let before = by_name(&transaction, &changed.name)?;
        let interest_since = if before.subscriber.interest == changed.interest { before.interest_since } else { now };
        // A new destination gets a new chance, unless it is a person who left.
        let new_chance = before.unsubscribed_at.is_none() && before.subscriber.destination != changed.destination;
        let standing = if before.standing == Standing::Disabled && new_chance { Standing::Active } else { before.standing };
        transaction
            .execute(
                "UPDATE subscribers
                 SET settings = :settings, secret = coalesce(:secret, secret), interest_since = :interest_since,
                     standing = :standing,
                     standing_reason = iif(:standing = 'disabled', standing_reason, NULL)
                 WHERE subscriber_key = :key",
                named_params! {
                    ":key": before.key.0, ":settings": Json(changed), ":secret": secret, ":interest_since": At(interest_since),
                    ":standing": Word(standing),
                },
            )
            .map_err(step("change a subscriber"))?;
        let lane = Lane::of(changed);
        if lane != Lane::of(&before.subscriber) {
            // What waits goes to the new destination, so it is limited and held up with that.
            transaction
                .execute(
                    "UPDATE outbox SET channel = ?2 WHERE subscriber_key = ?1 AND status IN ('due', 'leased', 'dead')",
                    params![before.key.0, lane.as_str()],
                )
                .map_err(step("change the channel of what waits"))?;
        }
        carry_over(&transaction, before.key, changed, now)?;
        // A changed limit may allow sooner what is withheld; asking costs nothing.
        transaction
            .execute(
                "UPDATE subscribers SET wake_at = iif(wake_at IS NULL, NULL, ?2), update_wake_at = iif(update_wake_at IS NULL, NULL, ?2)
                 WHERE subscriber_key = ?1",
                params![before.key.0, At(now)],
            )
            .map_err(step("change a subscriber"))?;
        transaction.commit().map_err(step("commit the changed subscriber"))
    }

    /// Pauses or resumes a subscriber. What comes while it is paused is not news later; what was withheld before is told.
    /// `despite_unsubscribe` also resumes one whose recipient left: what waited for it then is not sent any more.
    ///
    /// # Errors
    /// [`StoreError::NoSubscriber`] if there is none of this name; [`StoreError::Unsubscribed`] if its recipient left.
    pub fn set_standing(
        &mut self,
        name: &SubscriberName,
        standing: Standing,
        despite_unsubscribe: bool,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin changing a subscriber's standing"))?;
        let before = by_name(&transaction, name)?;
        if let Some(at) = before.unsubscribed_at.filter(|_| !despite_unsubscribe) {
            return Err(StoreError::Unsubscribed { name: name.to_string(), at });
        }
        drop_of_the_gone(&transaction, Waiting::Of(before.key), now)?;
        let sql = "UPDATE subscribers
                   SET standing = :standing, standing_reason = NULL, unsubscribed_at = NULL,
                       active_since = iif(:standing = 'active' AND standing <> 'active', :now, active_since)
                   WHERE subscriber_key = :key";
        let parameters = named_params! { ":key": before.key.0, ":standing": Word(standing), ":now": At(now) };
        transaction.execute(sql, parameters).map_err(step("change a subscriber's standing"))?;
        transaction.commit().map_err(step("commit a subscriber's standing"))
    }

    /// Removes a subscriber: its name is free again, what waits in the outbox is dropped, the ledger keeps what was decided.
    ///
    /// # Errors
    /// [`StoreError::NoSubscriber`] if there is none of this name.
    pub fn remove_subscriber(&mut self, name: &SubscriberName, now: Timestamp) -> Result<(), StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin removing a subscriber"))?;
        let key = by_name(&transaction, name)?.key;
        transaction
            .execute(
                "UPDATE subscribers SET removed_at = ?2, secret = NULL, wake_at = NULL, update_wake_at = NULL WHERE subscriber_key = ?1",
                params![key.0, At(now)],
            )
            .and_then(|_| {
                transaction.execute(
                    "UPDATE outbox SET status = 'dropped', settled_at = ?2, lease_owner = NULL, lease_until = NULL,
                                       detail = 'the subscriber was removed'
                     WHERE subscriber_key = ?1 AND status IN ('due', 'leased')",
                    params![key.0, At(now)],
                )
            })
            .map_err(step("remove a subscriber"))?;
        transaction.commit().map_err(step("commit the removed subscriber"))
    }
}

fn by_name(connection: &Connection, name: &SubscriberName) -> Result<StoredSubscriber, StoreError> {
    let sql = "SELECT * FROM subscribers WHERE name = ?1 AND removed_at IS NULL";
    let found = connection.query_row(sql, [name.as_str()], StoredSubscriber::from_row).optional();
    found.map_err(step("read a subscriber"))?.ok_or_else(|| StoreError::NoSubscriber(name.to_string()))
}

pub(super) fn read_subscriber(transaction: &Transaction<'_>, key: SubscriberKey) -> Result<Option<StoredSubscriber>, StoreError> {
    let sql = "SELECT * FROM subscribers WHERE subscriber_key = ?1 AND removed_at IS NULL";
    let found = transaction
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([key.0], StoredSubscriber::from_row).optional());
    found.map_err(step("read a subscriber"))
}

pub(super) fn read_limiter(transaction: &Transaction<'_>, key: SubscriberKey) -> Result<Option<Limiter>, StoreError> {
    let Some(stored) = read_subscriber(transaction, key)? else { return Ok(None) };
    let what = || format!("the limiter of subscriber '{}'", stored.subscriber.name);
    stored.limiter.map_err(|fault| StoreError::Row { what: what(), fault })
}
