//! Telling of later versions: what those who were told of an event are told when it changes or is withdrawn. As with
//! decisions, the row, the limiter's new state and the message are one transaction; a version is decided once for each.

use super::decisions::{CHUNK, Candidate, carried, write_limiter};
use super::messages::{Addressed, Writer};
use super::rows::{At, Json, Word};
use super::sql::{self, Connection, OptionalExtension, Transaction, named_params, params};
use super::subscribers::{StoredSubscriber, SubscriberKey, read_as_stored};
use super::{Store, StoreError, queries, step};
use crate::alert::First;
use crate::event::Event;
use crate::identity::Change;
use crate::plan::{Told, UpdateOutcome, UpdatePlan};
use crate::revision;
use crate::subscriber::{Standing, Updates};
use crate::time::Timestamp;

/// An event whose newest version is still to be told.
#[derive(Clone, Debug)]
pub struct UpdateTask {
    event_key: i64,
    pub event: Event,
    /// The newest version.
    revision: Timestamp,
    from: i64,
}

/// A subscriber who is to be told, and of what.
#[derive(Debug)]
pub struct Listener<'a> {
    pub candidate: Candidate<'a>,
    pub told: &'a Told,
    pub event: &'a Event,
    /// What changed; empty if the event was withdrawn.
    pub changes: Vec<Change>,
}

/// What one chunk of telling did.
#[derive(Debug, Default)]
pub struct UpdateChunk {
    /// The subscribers' names with what was decided, in order.
    pub decided: Vec<(String, UpdatePlan)>,
    /// Subscribers whose limiter or settings cannot be read, with the fault.
    pub undecided: Vec<(String, String)>,
}

/// An update that waits, and on whose behalf its subscriber's limiter is asked again.
#[derive(Debug)]
pub struct WaitingUpdate {
    pub subscriber_key: SubscriberKey,
    pub subscriber: String,
}

impl Store {
    /// The event of which to tell next: the largest that has a version that is not told to all.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn next_update(&self) -> Result<Option<UpdateTask>, StoreError> {
        read_task(&self.connection)
    }

    /// Decides on telling the task's version to its next chunk of subscribers, calling `decide` for each who is to hear.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is decided then.
    pub fn update_chunk(
        &mut self,
        task: &UpdateTask,
        now: Timestamp,
        mut decide: impl FnMut(Listener<'_>) -> UpdatePlan,
    ) -> Result<UpdateChunk, StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin telling of an update"))?;
        // Another daemon may have been quicker, or a newer version have come.
        let now_next = read_task(&transaction)?;
        if now_next.is_none_or(|now_next| {
            (now_next.event_key, now_next.revision, now_next.from) != (task.event_key, task.revision, task.from)
        }) {
            return Ok(UpdateChunk::default());
        }
        let listeners = listeners(&transaction, task)?;
        let mut chunk = UpdateChunk::default();
        let next = listeners.last().map(|(key, ..)| key.0 + 1);
        let more = i64::try_from(listeners.len()).is_ok_and(|count| count == CHUNK);
        for (key, name, stored) in listeners {
            let version = Version { event_key: task.event_key, event: &task.event, revision: task.revision, subscriber: key };
            if version.is_decided(&transaction)? {
                continue;
            }
            let stored = match stored {
                Ok(stored) => stored,
                Err(fault) => {
                    let fault = format!("its settings cannot be read: {fault}");
                    version.write_undecided(&transaction, &fault, now)?;
                    chunk.undecided.push((name, fault));
                    continue;
                }
            };
            match version.tell(&transaction, stored, &self.installation, now, &mut decide)? {
                Some(Ok(plan)) => chunk.decided.push((name, plan)),
                Some(Err(fault)) => chunk.undecided.push((name, fault)),
                None => {}
            }
        }
        let sql = "UPDATE events SET update_from = ?2 WHERE event_key = ?1";
        transaction
            .execute(sql, params![task.event_key, next.filter(|_| more)])
            .map_err(step("record how far an update is told"))?;
        transaction.commit().map_err(step("commit the updates"))?;
        Ok(chunk)
    }

    /// The active subscriber for whom an update waits that may be told now: the one that has been due the longest.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn waiting_update(&self, now: Timestamp) -> Result<Option<WaitingUpdate>, StoreError> {
        let waiting = self.connection.prepare_cached(queries::WAITING_UPDATE).and_then(|mut statement| {
            let read =
                |row: &sql::Row<'_>| Ok(WaitingUpdate { subscriber_key: SubscriberKey(row.get(0)?), subscriber: row.get(1)? });
            statement.query_row([At(now)], read).optional()
        });
        waiting.map_err(step("find who may be told of an update"))
    }

    /// Asks again on behalf of a subscriber's waiting updates, the largest event first, and tells the newest version of one.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is told then.
    pub fn release_update(
        &mut self,
        key: SubscriberKey,
        now: Timestamp,
        mut decide: impl FnMut(Listener<'_>) -> UpdatePlan,
    ) -> Result<Option<UpdatePlan>, StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin telling of an update that waited"))?;
        let stored = match read_as_stored(&transaction, key)? {
            Some(Ok(stored)) if stored.standing == Standing::Active => Some(stored),
            None | Some(Ok(_)) => return Ok(None),
            Some(Err(_)) => None,
        };
        let waiting: Option<(i64, Event, Timestamp)> = transaction
            .prepare_cached(queries::LARGEST_WAITING_UPDATE)
            .and_then(|mut statement| {
                let read = |row: &sql::Row<'_>| Ok((row.get(0)?, row.get::<_, Json<Event>>(1)?.0, row.get::<_, At>(2)?.0));
                statement.query_row([key.0], read).optional()
            })
            .map_err(step("read the updates that wait"))?;
        // Whoever shows the subscriber sees the fault of its row; asking again and again would not mend it.
        let (mut told, mut wake_at) = (None, None);
        let readable = stored.filter(|stored| stored.limiter.is_ok());
        if let (Some((event_key, event, revision)), Some(stored)) = (&waiting, readable) {
            let version = Version { event_key: *event_key, event, revision: *revision, subscriber: key };
            told = version.tell(&transaction, stored, &self.installation, now, &mut decide)?.and_then(Result::ok);
            wake_at = match &told {
                Some(plan) if plan.outcome == UpdateOutcome::Waiting => plan.retry_at,
                _ => Some(now),
            };
        }
        transaction
            .execute("UPDATE subscribers SET update_wake_at = ?2 WHERE subscriber_key = ?1", params![key.0, wake_at.map(At)])
            .map_err(step("write when to ask a limiter again"))?;
        transaction.commit().map_err(step("commit the update"))?;
        Ok(told)
    }
}

fn read_task(connection: &Connection) -> Result<Option<UpdateTask>, StoreError> {
    let task = connection.query_row(queries::NEXT_UPDATE, [], |row| {
        Ok(UpdateTask {
            event_key: row.get("event_key")?,
            event: row.get::<_, Json<Event>>("body")?.0,
            revision: row.get::<_, At>("revision")?.0,
            from: row.get("update_from")?,
        })
    });
    task.optional().map_err(step("find the next update to tell"))
}

/// The newest version of an event, for one subscriber.
struct Version<'e> {
    event_key: i64,
    event: &'e Event,
    revision: Timestamp,
    subscriber: SubscriberKey,
}

impl Version<'_> {
    fn is_decided(&self, transaction: &Transaction<'_>) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM updates WHERE event_key = ?1 AND subscriber_key = ?2 AND revision = ?3)";
        let found = transaction.prepare_cached(sql).and_then(|mut statement| {
            statement.query_row(params![self.event_key, self.subscriber.0, At(self.revision)], |r| r.get(0))
        });
        found.map_err(step("look for an update"))
    }

    /// Tells of this version what is worth telling; nothing if nothing is. What waited to be told before is superseded.
    fn tell(
        &self,
        transaction: &Transaction<'_>,
        stored: StoredSubscriber,
        installation: &str,
        now: Timestamp,
        decide: &mut impl FnMut(Listener<'_>) -> UpdatePlan,
    ) -> Result<Option<Result<UpdatePlan, String>>, StoreError> {
        let StoredSubscriber { subscriber, limiter, .. } = stored;
        let Some(told) = last_told(transaction, self.event_key, self.subscriber)? else {
            self.supersede(transaction, None, "nothing was told of the event")?;
            return Ok(None);
        };
        let withdrawn = self.event.is_withdrawn();
        let changes = if withdrawn { Vec::new() } else { revision::worth_telling(subscriber.updates, &told.event, self.event) };
        let worth =
            if withdrawn { subscriber.updates != Updates::None && !told.event.is_withdrawn() } else { !changes.is_empty() };
        if !worth {
            self.supersede(transaction, None, "nothing of it is left to tell")?;
            return Ok(None);
        }
        let mut limiter = match limiter {
            Ok(limiter) => carried(limiter, &subscriber, now),
            Err(fault) => {
                self.write_undecided(transaction, &fault, now)?;
                return Ok(Some(Err(fault)));
            }
        };
        let candidate = Candidate { subscriber: &subscriber, limiter: &mut limiter };
        let plan = decide(Listener { candidate, told: &told, event: self.event, changes });
        let because = if withdrawn { "the event was withdrawn" } else { "a newer version took its place" };
        self.supersede(transaction, Some(self.revision), because)?;
        let delivery = match &plan.message {
            Some(message) => {
                let ending = format!("-{}", self.revision.ticks());
                let to = Addressed { key: self.subscriber, subscriber: &subscriber, event_key: self.event_key, ending: &ending };
                Some(Writer::new(transaction, installation).write_only(to, message, now)?)
            }
            None => None,
        };
        self.write(transaction, &plan, delivery, now)?;
        write_limiter(transaction, self.subscriber, &limiter)?;
        if let (UpdateOutcome::Waiting, Some(at)) = (plan.outcome, plan.retry_at) {
            let sql = "UPDATE subscribers SET update_wake_at = min(coalesce(update_wake_at, ?2), ?2) WHERE subscriber_key = ?1";
            transaction.execute(sql, params![self.subscriber.0, At(at)]).map_err(step("write when to ask a limiter again"))?;
        }
        Ok(Some(Ok(plan)))
    }

    /// Writes what was decided; of a version that waited, what became of it.
    fn write(
        &self,
        transaction: &Transaction<'_>,
        plan: &UpdatePlan,
        delivery: Option<i64>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO updates (event_key, subscriber_key, revision, kind, decided_at, outcome, reason, refused, retry_at, delivery_key)
                   VALUES (:event, :subscriber, :revision, :kind, :now, :outcome, :reason, :refused, :retry_at, :delivery)
                   ON CONFLICT (event_key, subscriber_key, revision) DO UPDATE SET
                       outcome = excluded.outcome, delivery_key = excluded.delivery_key, retry_at = excluded.retry_at,
                       reason = iif(excluded.outcome = 'waiting', updates.reason, updates.reason || '; then ' || excluded.reason)";
        let done = transaction.prepare_cached(sql).and_then(|mut statement| {
            statement.execute(named_params! {
                ":event": self.event_key, ":subscriber": self.subscriber.0, ":revision": At(self.revision), ":kind": self.kind(),
                ":now": At(now), ":outcome": Word(plan.outcome), ":reason": plan.reason, ":refused": plan.refused,
                ":retry_at": plan.retry_at.map(At), ":delivery": delivery,
            })
        });
        done.map(|_| ()).map_err(step("write an update"))
    }

    fn write_undecided(&self, transaction: &Transaction<'_>, fault: &str, now: Timestamp) -> Result<(), StoreError> {
        let sql = "INSERT INTO updates (event_key, subscriber_key, revision, kind, decided_at, outcome, reason, refused)
                   VALUES (?1, ?2, ?3, ?4, ?5, 'undecided', ?6, 0)";
        let row = params![self.event_key, self.subscriber.0, At(self.revision), self.kind(), At(now), fault];
        transaction.execute(sql, row).map(|_| ()).map_err(step("record that nothing was decided"))
    }

    fn kind(&self) -> &'static str {
        if self.event.is_withdrawn() { "withdrawal" } else { "update" }
    }

    /// What waits of this event is not told any more, except the version `but`.
    fn supersede(&self, transaction: &Transaction<'_>, but: Option<Timestamp>, because: &str) -> Result<(), StoreError> {
        let sql = "UPDATE updates SET outcome = 'superseded', reason = reason || '; ' || ?4
                   WHERE subscriber_key = ?2 AND outcome = 'waiting' AND NOT (event_key = ?1 AND revision IS NOT DISTINCT FROM ?3)
                     AND event_key IN (SELECT ?1 UNION ALL SELECT event_key FROM events WHERE merged_into = ?1)";
        let row = params![self.event_key, self.subscriber.0, but.map(At), because];
        let done = transaction.prepare_cached(sql).and_then(|mut statement| statement.execute(row));
        done.map(|_| ()).map_err(step("supersede an update"))
    }
}

/// A row with its name, and what could be read of it.
type Listeners = Vec<(SubscriberKey, String, sql::Result<StoredSubscriber>)>;

/// The next chunk of active subscribers who were told of the event or of one that was merged into it.
fn listeners(transaction: &Transaction<'_>, task: &UpdateTask) -> Result<Listeners, StoreError> {
    let read = || -> sql::Result<Vec<_>> {
        let mut statement = transaction.prepare_cached(queries::LISTENERS)?;
        let rows = statement
            .query_map(named_params! { ":from": task.from, ":event": task.event_key, ":chunk": CHUNK }, |row| {
                Ok((SubscriberKey(row.get("subscriber_key")?), row.get("name")?, StoredSubscriber::from_row(row)))
            })?;
        rows.collect()
    };
    read().map_err(step("read who was told of an event"))
}

/// What a subscriber was told of an event and of those that were merged into it: first by which message, and last what.
fn last_told(transaction: &Transaction<'_>, event_key: i64, subscriber: SubscriberKey) -> Result<Option<Told>, StoreError> {
    let read = || -> sql::Result<Option<Told>> {
        let mut statement = transaction.prepare_cached(queries::TOLD)?;
        let mut rows = statement.query(params![event_key, subscriber.0])?;
        let mut told: Option<Told> = None;
        while let Some(row) = rows.next()? {
            let event = row.get::<_, Json<Event>>("body")?.0;
            let of = match told {
                Some(told) => told.of,
                None => First { id: row.get("alert_id")?, sent_at: row.get::<_, At>("sent_at")?.0, digest: row.get("digest")? },
            };
            told = Some(Told { event, of });
        }
        Ok(told)
    };
    read().map_err(step("read what a subscriber was told"))
}
