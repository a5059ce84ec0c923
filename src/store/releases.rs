//! Telling of what was withheld once the limiters allow it: digests, and what waited. Many fall due at one instant, so that some
//! hundreds of subscribers are asked again in one transaction.

use super::decisions::{Candidate, WRITE_LIMITER, carried, dated};
use super::messages::{Addressed, Writer};
use super::rows::{At, Json, Word, optional_at};
use super::shared::{self, Nudge};
use super::sql::{self, Batch, Connection, Transaction, params};
use super::subscribers::{StoredSubscriber, SubscriberKey, column};
use super::{Store, StoreError, queries, step};
use crate::event::Event;
use crate::limiter::Limiter;
use crate::plan::{Held, Outcome, Release};
use crate::time::Timestamp;

/// Subscribers that one transaction asks again. Few enough that a new event does not wait long behind them.
const ASKED_AT_ONCE: i64 = 500;
/// What is held for one subscriber and told in one go; more waits for the next message.
const MAX_HELD: i64 = 10_000;
/// Withheld events after which a transaction asks nobody further.
const MAX_READ: usize = 10_000;

impl Store {
    /// Asks those again of whom something is withheld and whose limiter may allow a message now, some hundreds of them, the longest
    /// due first, and tells them of as much as `release` says: their names with what it said. Empty if nobody is due.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is told then.
    pub fn release(
        &mut self,
        now: Timestamp,
        mut release: impl FnMut(Candidate<'_>, &[Held]) -> Release,
    ) -> Result<Vec<(String, Release)>, StoreError> {
        if !is_due(&self.connection, queries::WAKING, now)? {
            return Ok(Vec::new());
        }
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin telling of what was withheld"))?;
        let mut messages = Writer::new(&transaction, &self.installation);
        let mut writing = Writing::new(&transaction).map_err(step("begin telling of what was withheld"))?;
        let (mut asked, mut read, mut is_told) = (Vec::new(), 0, false);
        for (key, name, stored) in due(&transaction, queries::WAKING, now)? {
            // Whoever shows the subscriber sees the fault; asking again and again would not mend it.
            let Ok(StoredSubscriber { subscriber, limiter: Ok(limiter), .. }) = stored else {
                writing.wake(key, None)?;
                asked.push((name, Release::Never));
                continue;
            };
            let Withheld { event_keys, held, known_at } = read_held(&transaction, key)?;
            read += held.len();
            let now = known_at.map_or(now, |known_at| dated(now, known_at));
            let mut limiter = carried(limiter, &subscriber, now);
            let released = if held.is_empty() {
                Release::Never
            } else {
                release(Candidate { subscriber: &subscriber, limiter: &mut limiter, now }, &held)
            };
            let wake_at = match &released {
                Release::Now { message, outcome, reason, held: told } => {
                    let keys: Vec<i64> = told.iter().map(|&at| event_keys[at]).collect();
                    let first = keys.iter().min().copied().unwrap_or_default();
                    let ending = if *outcome == Outcome::Digested { "-digest" } else { "" };
                    let to = Addressed { key, subscriber: &subscriber, event_key: first, ending };
                    let delivery = messages.write(to, message, now)?;
                    writing.told(key, &keys, (*outcome, reason), delivery)?;
                    is_told = true;
                    (told.len() < held.len()).then_some(now)
                }
                Release::Later(at) => Some(*at),
                Release::Never => None,
            };
            writing.state(key, &limiter)?;
            writing.wake(key, wake_at)?;
            asked.push((name, released));
            if read >= MAX_READ {
                break;
            }
        }
        messages.finish()?;
        writing.finish()?;
        if is_told {
            shared::nudge(&transaction, Nudge::Deliver)?;
        }
        transaction.commit().map_err(step("commit what was told"))?;
        Ok(asked)
    }

    /// The next instant at which [`Store::release`], or what tells of updates, finds somebody.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn next_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        self.connection
            .query_row(queries::NEXT_WAKE, [], |row| optional_at(row, "at"))
            .map_err(step("find who is to be told next"))
    }
}

/// Whether anybody is to be asked again of those whom `waking` finds: looked at without keeping others from writing.
pub(super) fn is_due(connection: &Connection, waking: &str, now: Timestamp) -> Result<bool, StoreError> {
    let due = connection.prepare_cached(waking).and_then(|mut statement| statement.exists(params![At(now), 1]));
    due.map_err(step("find who may be told of what waits"))
}

/// A row with its name, and what could be read of it.
pub(super) type Due = Vec<(SubscriberKey, String, sql::Result<StoredSubscriber>)>;

/// Some hundreds of the active subscribers to ask again, whom `waking` finds, those that have been due the longest.
pub(super) fn due(transaction: &Transaction<'_>, waking: &str, now: Timestamp) -> Result<Due, StoreError> {
    let read = || -> sql::Result<Due> {
        let mut statement = transaction.prepare_cached(waking)?;
        let rows = statement.query_map(params![At(now), ASKED_AT_ONCE], |row| {
            Ok((SubscriberKey(row.get(column::KEY)?), row.get(column::NAME)?, StoredSubscriber::from_row(row)))
        })?;
        rows.collect()
    };
    read().map_err(step("find who may be told of what waits"))
}

/// What is withheld from a subscriber.
struct Withheld {
    event_keys: Vec<i64>,
    held: Vec<Held>,
    /// When the newest version of these events became known.
    known_at: Option<Timestamp>,
}

fn read_held(transaction: &Transaction<'_>, key: SubscriberKey) -> Result<Withheld, StoreError> {
    let mut known_at: Option<Timestamp> = None;
    let mut read = || -> sql::Result<Vec<(i64, Held)>> {
        let mut statement = transaction.prepare_cached(queries::HELD)?;
        let rows = statement.query_map(params![key.0, MAX_HELD], |row| {
            let (event, withheld_at) = (row.get::<_, Json<Event>>(1)?.0, row.get::<_, At>(2)?.0);
            known_at = known_at.max(Some(row.get::<_, At>(5)?.0));
            Ok((row.get(0)?, Held { event, withheld_at, quiet: row.get(3)?, unconfirmed: row.get(4)? }))
        })?;
        rows.collect()
    };
    let (event_keys, held) = read().map_err(step("read what was withheld"))?.into_iter().unzip();
    Ok(Withheld { event_keys, held, known_at })
}

/// What one transaction writes for those whom it asked.
struct Writing<'t> {
    told: Batch<'t>,
    states: Batch<'t>,
    wakes: Batch<'t>,
}

impl<'t> Writing<'t> {
    fn new(transaction: &'t Transaction<'_>) -> sql::Result<Writing<'t>> {
        Ok(Writing {
            told: transaction.batch(
                "UPDATE decisions SET outcome = ?3, reason = reason || '; ' || ?4, delivery_key = ?5
                 WHERE event_key = ?1 AND subscriber_key = ?2",
            )?,
            states: transaction.batch(WRITE_LIMITER)?,
            wakes: transaction.batch("UPDATE subscribers SET wake_at = ?2 WHERE subscriber_key = ?1")?,
        })
    }

    fn told(
        &mut self,
        key: SubscriberKey,
        event_keys: &[i64],
        (outcome, reason): (Outcome, &str),
        delivery: i64,
    ) -> Result<(), StoreError> {
        for event_key in event_keys {
            let added = self.told.add(params![event_key, key.0, Word(outcome), reason, delivery]);
            added.map_err(step("record what was told"))?;
        }
        Ok(())
    }

    fn state(&mut self, key: SubscriberKey, limiter: &Limiter) -> Result<(), StoreError> {
        self.states.add(params![key.0, limiter.to_bytes()]).map_err(step("write a limiter's state"))
    }

    fn wake(&mut self, key: SubscriberKey, wake_at: Option<Timestamp>) -> Result<(), StoreError> {
        self.wakes.add(params![key.0, wake_at.map(At)]).map_err(step("write when to ask a limiter again"))
    }

    fn finish(self) -> Result<(), StoreError> {
        let Writing { told, states, wakes } = self;
        [told, states, wakes].into_iter().try_for_each(Batch::finish).map_err(step("record what was told"))
    }
}
