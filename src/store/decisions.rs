//! Deciding in chunks: one event and a range of subscribers in one transaction that holds the decisions, the limiters' new
//! states and the outbox rows. What to decide is the caller's; that all of it is written or nothing is the store's.

use std::collections::{HashMap, HashSet};

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;

use super::rows::{At, Json, Word, optional_at};
use super::subscribers::{StoredSubscriber, SubscriberKey, read_limiter, read_subscriber};
use super::{Store, StoreError, queries, step};
use crate::alert::{Content, Explanation};
use crate::channel::Lane;
use crate::event::{Event, Magnitude};
use crate::limiter::{Algorithm, Limiter};
use crate::plan::{Held, Message, Outcome, Plan, Release};
use crate::subscriber::{Standing, Subscriber};
use crate::time::Timestamp;

/// Subscribers that one transaction decides on. Small enough that nothing else waits long, large enough to spread the sync.
pub(super) const CHUNK: i64 = 1_000;
/// What is held for one subscriber and told in one go; more waits for the next message.
const MAX_HELD: i64 = 10_000;

/// An event on which subscribers are still to be asked.
#[derive(Clone, Debug)]
pub struct DispatchTask {
    pub event_key: i64,
    pub event: Event,
    first_seen_at: Timestamp,
    /// When it was last revised, and subscribers were to be asked.
    changed_at: Timestamp,
    baseline: bool,
    /// Whether it was to be confirmed, and was not in time.
    pub unconfirmed: bool,
    from: i64,
}

/// A subscriber who is asked: interested, active, and not yet decided on this event.
#[derive(Debug)]
pub struct Candidate<'a> {
    pub subscriber: &'a Subscriber,
    pub limiter: &'a mut Limiter,
}

/// What one chunk did.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The subscribers' names with what was decided, in order.
    pub decided: Vec<(String, Plan)>,
    /// How many decisions there were with each outcome under each algorithm, the undecided included; `None` where a
    /// subscriber's settings cannot be read.
    pub tally: HashMap<(Outcome, Option<Algorithm>), u64>,
    /// Subscribers whose limiter or settings cannot be read, with the fault: nothing was decided for them.
    pub undecided: Vec<(String, String)>,
    /// Whether subscribers are left for another chunk.
    pub more: bool,
}

/// A subscriber of whom something is withheld and whose limiter may allow a message now.
#[derive(Debug)]
pub struct Waking {
    pub subscriber_key: SubscriberKey,
    pub name: String,
}

impl Store {
    /// The event to decide next: the largest that is not finished.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn next_dispatch(&self) -> Result<Option<DispatchTask>, StoreError> {
        let task = self.connection.prepare_cached(queries::NEXT_DISPATCH).and_then(|mut statement| {
            statement
                .query_row([], |row| {
                    Ok(DispatchTask {
                        event_key: row.get("event_key")?,
                        event: row.get::<_, Json<Event>>("body")?.0,
                        first_seen_at: row.get::<_, At>("first_seen_at")?.0,
                        changed_at: row.get::<_, At>("changed_at")?.0,
                        baseline: row.get("baseline")?,
                        unconfirmed: row.get("unconfirmed")?,
                        from: row.get("dispatch_from")?,
                    })
                })
                .optional()
        });
        task.map_err(step("find the next event to decide"))
    }

    /// Decides the task's event for its next chunk of subscribers, calling `decide` for each candidate.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is decided then.
    pub fn decide_chunk(
        &mut self,
        task: &DispatchTask,
        now: Timestamp,
        mut decide: impl FnMut(Candidate<'_>, &Event) -> Plan,
    ) -> Result<Chunk, StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin a decision"))?;
        let stored = next_subscribers(&transaction, task)?;
        let mut chunk = Chunk { more: stored.len() == usize::try_from(CHUNK).unwrap_or(usize::MAX), ..Chunk::default() };
        let next = stored.last().map(|(key, ..)| key.0 + 1);
        let decided = decided_subscribers(&transaction, task, next)?;
        for (key, name, stored) in stored {
            if decided.contains(&key.0) {
                continue;
            }
            let stored = match stored {
                Ok(stored) => stored,
                Err(fault) => {
                    let fault = format!("its settings cannot be read: {fault}");
                    write_undecided(&transaction, task.event_key, key, &fault, now)?;
                    chunk.count(Outcome::Undecided, None);
                    chunk.undecided.push((name, fault));
                    continue;
                }
            };
            if !stored.subscriber.interest.matches(&task.event) || !is_news(&transaction, task, &stored)? {
                continue;
            }
            let StoredSubscriber { subscriber, limiter, .. } = stored;
            let algorithm = subscriber.policy.limit.algorithm();
            let mut limiter = match limiter {
                Ok(limiter) => carried(limiter, &subscriber, now),
                Err(fault) => {
                    write_undecided(&transaction, task.event_key, key, &fault, now)?;
                    chunk.count(Outcome::Undecided, Some(algorithm));
                    chunk.undecided.push((name, fault));
                    continue;
                }
            };
            let plan = decide(Candidate { subscriber: &subscriber, limiter: &mut limiter }, &task.event);
            let alert_id = format!("{}-{}-{}", self.installation, key.0, task.event_key);
            write_plan(&transaction, task.event_key, key, &subscriber, &plan, &alert_id, now)?;
            write_asked(&transaction, key, &limiter, plan.wake_at)?;
            chunk.count(plan.outcome, Some(algorithm));
            chunk.decided.push((name, plan));
        }
        transaction
            .execute(
                "UPDATE events SET dispatch_from = ?2 WHERE event_key = ?1",
                params![task.event_key, next.filter(|_| chunk.more)],
            )
            .map_err(step("record how far an event is decided"))?;
        transaction.commit().map_err(step("commit the decisions"))?;
        Ok(chunk)
    }

    /// The active subscriber to ask again now on behalf of what is withheld: the one that has been due the longest.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn waking(&self, now: Timestamp) -> Result<Option<Waking>, StoreError> {
        let waking = self.connection.prepare_cached(queries::WAKING).and_then(|mut statement| {
            statement
                .query_row([At(now)], |row| Ok(Waking { subscriber_key: SubscriberKey(row.get(0)?), name: row.get(1)? }))
                .optional()
        });
        waking.map_err(step("find who may be told of what was withheld"))
    }

    /// Tells one subscriber of what was withheld, as far as `release` says that the limiter allows.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is told then.
    pub fn release(
        &mut self,
        key: SubscriberKey,
        now: Timestamp,
        release: impl FnOnce(Candidate<'_>, &[Held]) -> Release,
    ) -> Result<Option<Release>, StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin telling of what was withheld"))?;
        let Some(stored) = read_subscriber(&transaction, key)?.filter(|stored| stored.standing == Standing::Active) else {
            return Ok(None);
        };
        let (event_keys, held) = read_held(&transaction, key)?;
        let Ok(limiter) = stored.limiter else {
            // Whoever shows the subscriber sees the fault; asking again and again would not mend it.
            set_wake(&transaction, key, None)?;
            transaction.commit().map_err(step("commit what was told"))?;
            return Ok(None);
        };
        let mut limiter = carried(limiter, &stored.subscriber, now);
        let released = if held.is_empty() {
            Release::Never
        } else {
            release(Candidate { subscriber: &stored.subscriber, limiter: &mut limiter }, &held)
        };
        let wake_at = match &released {
            Release::Now { message, outcome, reason, held: told } => {
                let keys: Vec<i64> = told.iter().map(|&at| event_keys[at]).collect();
                let first = keys.iter().min().copied().unwrap_or_default();
                let kind = if *outcome == Outcome::Digested { "-digest" } else { "" };
                let alert_id = format!("{}-{}-{first}{kind}", self.installation, key.0);
                let delivery = write_message(&transaction, key, &stored.subscriber, message, &alert_id, now)?;
                write_told(&transaction, key, &keys, *outcome, reason, delivery)?;
                (told.len() < held.len()).then_some(now)
            }
            Release::Later(at) => Some(*at),
            Release::Never => None,
        };
        write_limiter(&transaction, key, &limiter)?;
        set_wake(&transaction, key, wake_at)?;
        transaction.commit().map_err(step("commit what was told"))?;
        Ok(Some(released))
    }

    /// The next instant at which [`Store::waking`] finds somebody.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn next_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        self.connection
            .query_row(queries::NEXT_WAKE, [], |row| optional_at(row, "at"))
            .map_err(step("find who is to be told next"))
    }
}

impl Chunk {
    fn count(&mut self, outcome: Outcome, algorithm: Option<Algorithm>) {
        *self.tally.entry((outcome, algorithm)).or_default() += 1;
    }
}

/// A limiter whose limit was changed since keeps what was spent.
pub(super) fn carried(limiter: Option<Limiter>, subscriber: &Subscriber, now: Timestamp) -> Limiter {
    let limit = subscriber.policy.limit;
    match limiter {
        Some(limiter) if limiter.limit() == limit => limiter,
        Some(limiter) => limiter.carried_over(limit, now),
        None => Limiter::new(limit),
    }
}

/// A row with its name, and what could be read of it.
type Candidates = Vec<(SubscriberKey, String, rusqlite::Result<StoredSubscriber>)>;

/// The next chunk of active subscribers.
fn next_subscribers(transaction: &Transaction<'_>, task: &DispatchTask) -> Result<Candidates, StoreError> {
    let read = || -> rusqlite::Result<Vec<_>> {
        let mut statement = transaction.prepare_cached(queries::CANDIDATES)?;
        let rows = statement.query_map(params![task.from, CHUNK], |row| {
            Ok((SubscriberKey(row.get("subscriber_key")?), row.get("name")?, StoredSubscriber::from_row(row)))
        })?;
        rows.collect()
    };
    read().map_err(step("read the subscribers"))
}

/// Of the subscribers from the task's place on and before `to`, those with a decision on the event's quake.
fn decided_subscribers(transaction: &Transaction<'_>, task: &DispatchTask, to: Option<i64>) -> Result<HashSet<i64>, StoreError> {
    let read = || -> rusqlite::Result<HashSet<i64>> {
        let mut statement = transaction.prepare_cached(queries::DECIDED)?;
        let rows = statement.query_map(params![task.event_key, task.from, to], |row| row.get(0))?;
        rows.collect()
    };
    read().map_err(step("read who was decided on"))
}

/// Whether the event is news to the subscriber: no version of it, or of what was merged into it, matched yet when the
/// subscriber joined, changed its interest, or when the installation took the feed as known.
///
/// An event about which it was still to be asked when its interest changed is owed to it nonetheless.
fn is_news(transaction: &Transaction<'_>, task: &DispatchTask, stored: &StoredSubscriber) -> Result<bool, StoreError> {
    let mut since = stored.active_since;
    if task.changed_at > stored.interest_since {
        since = since.max(stored.interest_since);
    }
    if task.baseline {
        since = since.max(task.first_seen_at);
    } else if task.first_seen_at >= since {
        return Ok(true);
    }
    let read = || -> rusqlite::Result<Vec<Event>> {
        let mut statement = transaction.prepare_cached(queries::EARLIER_VERSIONS)?;
        let rows = statement.query_map(params![task.event_key, At(since)], |row| Ok(row.get::<_, Json<Event>>(0)?.0))?;
        rows.collect()
    };
    let known = read().map_err(step("read an earlier version of an event"))?;
    Ok(!known.iter().any(|before| stored.subscriber.interest.matches(before)))
}

fn write_plan(
    transaction: &Transaction<'_>,
    event_key: i64,
    key: SubscriberKey,
    subscriber: &Subscriber,
    plan: &Plan,
    alert_id: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let delivery = match &plan.message {
        Some(message) => Some(write_message(transaction, key, subscriber, message, alert_id, now)?),
        None => None,
    };
    let sql = "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused, remaining, retry_at, delivery_key)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    transaction
        .prepare_cached(sql)
        .and_then(|mut statement| {
            let remaining = i64::try_from(plan.outlook.remaining).unwrap_or(i64::MAX);
            statement.execute(params![
                event_key,
                key.0,
                At(now),
                plan.outcome.name(),
                plan.reason,
                plan.answer.refused(),
                remaining,
                plan.outlook.retry_at.map(At),
                delivery
            ])
        })
        .map_err(step("write a decision"))?;
    Ok(())
}

fn write_undecided(
    transaction: &Transaction<'_>,
    event_key: i64,
    key: SubscriberKey,
    fault: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused)
               VALUES (?1, ?2, ?3, 'undecided', ?4, 0)";
    let done = transaction.execute(sql, params![event_key, key.0, At(now), fault]);
    done.map(|_| ()).map_err(step("record that nothing was decided"))
}

pub(super) fn write_message(
    transaction: &Transaction<'_>,
    key: SubscriberKey,
    subscriber: &Subscriber,
    message: &Message,
    alert_id: &str,
    now: Timestamp,
) -> Result<i64, StoreError> {
    // As an `Alert` is written, without copying what it says.
    let alert = Written {
        id: alert_id,
        subscriber: subscriber.name.as_str(),
        created_at: now,
        content: &message.content,
        explanation: &message.explanation,
    };
    let sql = "INSERT INTO outbox (subscriber_key, channel, alert_id, magnitude, alert, created_at, due_at, status)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'due')";
    transaction
        .prepare_cached(sql)
        .and_then(|mut statement| {
            let magnitude = message.content.largest().and_then(|event| event.magnitude).map(Magnitude::value);
            let lane = Lane::of(subscriber);
            statement.execute(params![key.0, lane.as_str(), alert_id, magnitude, Json(&alert), At(now), At(message.due_at)])
        })
        .map_err(step("write an alert to the outbox"))?;
    Ok(transaction.last_insert_rowid())
}

/// An [`crate::alert::Alert`] in pieces.
#[derive(Serialize)]
struct Written<'a> {
    id: &'a str,
    subscriber: &'a str,
    created_at: Timestamp,
    content: &'a Content,
    explanation: &'a Explanation,
}

pub(super) fn write_limiter(transaction: &Transaction<'_>, key: SubscriberKey, limiter: &Limiter) -> Result<(), StoreError> {
    let sql = "UPDATE subscribers SET limiter = ?2 WHERE subscriber_key = ?1";
    let done = transaction.prepare_cached(sql).and_then(|mut statement| statement.execute(params![key.0, limiter.to_bytes()]));
    done.map(|_| ()).map_err(step("write a limiter's state"))
}

fn set_wake(transaction: &Transaction<'_>, key: SubscriberKey, wake_at: Option<Timestamp>) -> Result<(), StoreError> {
    let sql = "UPDATE subscribers SET wake_at = ?2 WHERE subscriber_key = ?1";
    let done = transaction.prepare_cached(sql).and_then(|mut statement| statement.execute(params![key.0, wake_at.map(At)]));
    done.map(|_| ()).map_err(step("write when to ask a limiter again"))
}

/// The limiter's state after it was asked, and when to ask it again: at `wake_at`, or earlier if something else that is
/// withheld may come earlier.
fn write_asked(
    transaction: &Transaction<'_>,
    key: SubscriberKey,
    limiter: &Limiter,
    wake_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    let Some(wake_at) = wake_at else { return write_limiter(transaction, key, limiter) };
    let sql = "UPDATE subscribers SET limiter = ?2, wake_at = min(coalesce(wake_at, ?3), ?3) WHERE subscriber_key = ?1";
    let parameters = params![key.0, limiter.to_bytes(), At(wake_at)];
    let done = transaction.prepare_cached(sql).and_then(|mut statement| statement.execute(parameters));
    done.map(|_| ()).map_err(step("write a limiter's state"))
}

fn read_held(transaction: &Transaction<'_>, key: SubscriberKey) -> Result<(Vec<i64>, Vec<Held>), StoreError> {
    let read = || -> rusqlite::Result<Vec<(i64, Held)>> {
        let mut statement = transaction.prepare_cached(queries::HELD)?;
        let rows = statement.query_map(params![key.0, MAX_HELD], |row| {
            let (event, withheld_at) = (row.get::<_, Json<Event>>(1)?.0, row.get::<_, At>(2)?.0);
            Ok((row.get(0)?, Held { event, withheld_at, quiet: row.get(3)?, unconfirmed: row.get(4)? }))
        })?;
        rows.collect()
    };
    Ok(read().map_err(step("read what was withheld"))?.into_iter().unzip())
}

fn write_told(
    transaction: &Transaction<'_>,
    key: SubscriberKey,
    event_keys: &[i64],
    outcome: Outcome,
    reason: &str,
    delivery: i64,
) -> Result<(), StoreError> {
    let sql = "UPDATE decisions SET outcome = ?3, reason = reason || '; ' || ?4, delivery_key = ?5
               WHERE event_key = ?1 AND subscriber_key = ?2";
    let mut update = transaction.prepare_cached(sql).map_err(step("record what was told"))?;
    for event_key in event_keys {
        update.execute(params![event_key, key.0, Word(outcome), reason, delivery]).map_err(step("record what was told"))?;
    }
    Ok(())
}

impl StoredSubscriber {
    /// The limiter as it stands at `now` under today's limit.
    ///
    /// # Errors
    /// The fault, if the stored state cannot be read.
    pub fn limiter_at(&self, now: Timestamp) -> Result<Limiter, String> {
        let limiter = self.limiter.clone()?;
        Ok(carried(limiter, &self.subscriber, now))
    }
}

pub(super) fn carry_over(
    transaction: &Transaction<'_>,
    key: SubscriberKey,
    subscriber: &Subscriber,
    now: Timestamp,
) -> Result<(), StoreError> {
    match read_limiter(transaction, key)? {
        Some(limiter) => write_limiter(transaction, key, &carried(Some(limiter), subscriber, now)),
        None => Ok(()),
    }
}
