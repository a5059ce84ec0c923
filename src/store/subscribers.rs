//! The subscribers: settings, standing and limiter state, as the command line changes them and the daemon reads them.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::decisions::carry_over;
use super::queries::with_limiters;
use super::rows::{At, Json, Word};
use super::sql::{self, Connection, FromSqlError, OptionalExtension, Row, Transaction, named_params, params};
use super::unsubscribe::{Waiting, drop_of_the_gone};
use super::{Store, StoreError, step};
use crate::channel::Lane;
use crate::interest::Interest;
use crate::limiter::{Limiter, Policy};
use crate::quiet::QuietHours;
use crate::subscriber::{Destination, Enrolment, Excess, Mode, Preset, Standing, Subscriber, SubscriberName, Tags, Updates};
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
    /// Of a row with the columns of `with_limiters`.
    pub(super) fn from_row(row: &Row<'_>) -> sql::Result<StoredSubscriber> {
        StoredSubscriber::with(row, row.get::<_, Json<Subscriber>>(column::SETTINGS)?.0)
    }

    /// The same with settings that were read.
    pub(super) fn with(row: &Row<'_>, subscriber: Subscriber) -> sql::Result<StoredSubscriber> {
        let at = |column| row.get::<_, Option<At>>(column).map(|at| at.map(|at| at.0));
        let state = row.get_ref(column::STATE)?.as_blob_or_null().map_err(wrong_column(column::STATE))?;
        Ok(StoredSubscriber {
            key: SubscriberKey(row.get(column::KEY)?),
            subscriber,
            standing: row.get::<_, Word<Standing>>(column::STANDING)?.0,
            standing_reason: row.get(column::STANDING_REASON)?,
            unsubscribed_at: at(column::UNSUBSCRIBED_AT)?,
            created_at: row.get::<_, At>(column::CREATED_AT)?.0,
            active_since: row.get::<_, At>(column::ACTIVE_SINCE)?.0,
            interest_since: row.get::<_, At>(column::INTEREST_SINCE)?.0,
            limiter: state.map(Limiter::from_bytes).transpose().map_err(|fault| fault.to_string()),
        })
    }
}

/// The places of the columns of `with_limiters`: names would be looked up again for each of very many rows.
pub(super) mod column {
    pub const KEY: usize = 0;
    pub const NAME: usize = 1;
    pub const SETTINGS: usize = 2;
    pub const STANDING: usize = 3;
    pub const STANDING_REASON: usize = 4;
    pub const UNSUBSCRIBED_AT: usize = 5;
    pub const CREATED_AT: usize = 6;
    pub const ACTIVE_SINCE: usize = 7;
    pub const INTEREST_SINCE: usize = 8;
    pub const STATE: usize = 9;
}

/// The interests and policies of many subscribers, which mostly are few: each text is read once.
#[derive(Default)]
pub(super) struct SharedParts {
    interests: HashMap<Box<str>, Interest>,
    policies: HashMap<Box<str>, Policy>,
}

/// A [`Subscriber`] of which some parts are not read yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outline<'a> {
    name: SubscriberName,
    destination: Destination,
    #[serde(default)]
    preset: Preset,
    #[serde(borrow, default)]
    interest: Option<&'a RawValue>,
    #[serde(borrow)]
    policy: &'a RawValue,
    #[serde(default)]
    excess: Excess,
    #[serde(default)]
    mode: Mode,
    #[serde(default)]
    updates: Updates,
    #[serde(default)]
    quiet: Option<QuietHours>,
    #[serde(default)]
    tags: Tags,
}

impl SharedParts {
    /// The settings of a row with the columns of `with_limiters`.
    pub fn subscriber(&mut self, row: &Row<'_>) -> sql::Result<Subscriber> {
        let wrong = |fault: serde_json::Error| wrong_column(column::SETTINGS)(FromSqlError::Other(fault.into()));
        let text = row.get_ref(column::SETTINGS)?.as_str().map_err(wrong_column(column::SETTINGS))?;
        let outline: Outline<'_> = serde_json::from_str(text).map_err(wrong)?;
        Ok(Subscriber {
            name: outline.name,
            destination: outline.destination,
            preset: outline.preset,
            interest: match outline.interest {
                Some(interest) => read_once(&mut self.interests, interest).map_err(wrong)?,
                None => Interest::default(),
            },
            policy: read_once(&mut self.policies, outline.policy).map_err(wrong)?,
            excess: outline.excess,
            mode: outline.mode,
            updates: outline.updates,
            quiet: outline.quiet,
            tags: outline.tags,
        })
    }
}

fn wrong_column(column: usize) -> impl FnOnce(FromSqlError) -> sql::Error {
    move |fault| sql::Error::Column { column: column.to_string(), fault }
}

/// What a text says, as it was read before if it was.
fn read_once<T: DeserializeOwned + Clone>(known: &mut HashMap<Box<str>, T>, raw: &RawValue) -> serde_json::Result<T> {
    if let Some(value) = known.get(raw.get()) {
        return Ok(value.clone());
    }
    let value: T = serde_json::from_str(raw.get())?;
    known.insert(raw.get().into(), value.clone());
    Ok(value)
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
        let begin = self.connection.begin();
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
        let read = || -> sql::Result<Vec<_>> {
            let mut statement =
                self.connection.prepare_cached(concat!(with_limiters!(), " WHERE removed_at IS NULL ORDER BY name"))?;
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
        let begin = self.connection.begin();
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
                    "UPDATE outbox SET channel = ?2
                     WHERE event_key IN (SELECT event_key FROM events) AND subscriber_key = ?1
                       AND status IN ('due', 'leased', 'dead')",
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
        let begin = self.connection.begin();
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
        let begin = self.connection.begin();
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
                     WHERE event_key IN (SELECT event_key FROM events) AND subscriber_key = ?1
                       AND status IN ('due', 'leased')",
                    params![key.0, At(now)],
                )
            })
            .map_err(step("remove a subscriber"))?;
        transaction.commit().map_err(step("commit the removed subscriber"))
    }
}

fn by_name(connection: &Connection, name: &SubscriberName) -> Result<StoredSubscriber, StoreError> {
    let sql = concat!(with_limiters!(), " WHERE name = ?1 AND removed_at IS NULL");
    let found = connection.query_row(sql, [name.as_str()], StoredSubscriber::from_row).optional();
    found.map_err(step("read a subscriber"))?.ok_or_else(|| StoreError::NoSubscriber(name.to_string()))
}

/// The subscriber's row, and what could be read of it.
pub(super) fn read_as_stored(
    transaction: &Transaction<'_>,
    key: SubscriberKey,
) -> Result<Option<sql::Result<StoredSubscriber>>, StoreError> {
    let sql = concat!(with_limiters!(), " WHERE s.subscriber_key = ?1 AND removed_at IS NULL");
    let read = |row: &Row<'_>| Ok(StoredSubscriber::from_row(row));
    let found = transaction.prepare_cached(sql).and_then(|mut statement| statement.query_row([key.0], read).optional());
    found.map_err(step("read a subscriber"))
}

pub(super) fn read_limiter(transaction: &Transaction<'_>, key: SubscriberKey) -> Result<Option<Limiter>, StoreError> {
    let found = read_as_stored(transaction, key)?.transpose().map_err(step("read a subscriber"))?;
    let Some(stored) = found else { return Ok(None) };
    let what = || format!("the limiter of subscriber '{}'", stored.subscriber.name);
    stored.limiter.map_err(|fault| StoreError::Row { what: what(), fault })
}
