//! Telling of later versions: what those who were told of an event are told when it changes or is withdrawn. As with
//! decisions, the row, the limiter's new state and the message are one transaction; a version is decided once for each.

use std::collections::HashSet;

use super::decisions::{CHUNK, Candidate};
use super::releases::{Due, due, is_due};
use super::rows::{At, Json};
use super::shared::{self, Nudge};
use super::sql::{self, Connection, OptionalExtension, Transaction, named_params, params};
use super::subscribers::{StoredSubscriber, SubscriberKey};
use super::telling::{Telling, Version, last_told};
use super::{Store, StoreError, queries, step};
use crate::event::Event;
use crate::identity::Change;
use crate::plan::{Told, UpdateOutcome, UpdatePlan};
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
        let more = i64::try_from(listeners.len()).is_ok_and(|count| count == CHUNK);
        let version = Version { event_key: task.event_key, event: &task.event, revision: task.revision };
        let mut chunk = UpdateChunk::default();
        let mut telling = Telling::new(&transaction, &self.installation, now)?;
        let range = listeners.first().zip(listeners.last()).map(|((first, ..), (last, ..))| (*first, *last));
        if let Some(range) = range {
            let decided = decided_subscribers(&transaction, version, range)?;
            let mut told = last_told(&transaction, task.event_key, range)?;
            for (key, name, stored) in listeners.into_iter().filter(|(key, ..)| !decided.contains(&key.0)) {
                let stored = match stored {
                    Ok(stored) => stored,
                    Err(fault) => {
                        let fault = format!("its settings cannot be read: {fault}");
                        telling.undecided(version, key, &fault)?;
                        chunk.undecided.push((name, fault));
                        continue;
                    }
                };
                match telling.tell(version, (key, stored), told.remove(&key.0), &mut decide)? {
                    Some(Ok(plan)) => {
                        if let (UpdateOutcome::Waiting, Some(at)) = (plan.outcome, plan.retry_at) {
                            telling.wake_by(key, at)?;
                        }
                        chunk.decided.push((name, plan));
                    }
                    Some(Err(fault)) => chunk.undecided.push((name, fault)),
                    None => {}
                }
            }
        }
        if telling.finish()? {
            shared::nudge(&transaction, Nudge::Deliver)?;
        }
        let sql = "UPDATE events SET update_from = ?2 WHERE event_key = ?1";
        let next = range.filter(|_| more).map(|(_, last)| last.0 + 1);
        transaction.execute(sql, params![task.event_key, next]).map_err(step("record how far an update is told"))?;
        transaction.commit().map_err(step("commit the updates"))?;
        Ok(chunk)
    }

    /// Asks those again for whom an update waits that may be told now, some hundreds of them, the longest due first, and tells each the
    /// newest version of the largest event: their names with what was decided, if anything was. Empty if nobody is due.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is told then.
    pub fn release_updates(
        &mut self,
        now: Timestamp,
        mut decide: impl FnMut(Listener<'_>) -> UpdatePlan,
    ) -> Result<Vec<(String, Option<UpdatePlan>)>, StoreError> {
        if !is_due(&self.connection, queries::WAKING_FOR_UPDATES, now)? {
            return Ok(Vec::new());
        }
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin telling of updates that waited"))?;
        let mut telling = Telling::new(&transaction, &self.installation, now)?;
        let mut asked = Vec::new();
        for (key, name, stored) in due(&transaction, queries::WAKING_FOR_UPDATES, now)? {
            let (mut plan, mut wake_at) = (None, None);
            // Whoever shows the subscriber sees the fault of its row; asking again and again would not mend it.
            let readable = stored.ok().filter(|stored| stored.limiter.is_ok());
            if let Some(stored) = readable
                && let Some((event_key, event, revision)) = largest_waiting(&transaction, key)?
            {
                let told = last_told(&transaction, event_key, (key, key))?.remove(&key.0);
                let version = Version { event_key, event: &event, revision };
                plan = telling.tell(version, (key, stored), told, &mut decide)?.and_then(Result::ok);
                wake_at = match &plan {
                    Some(plan) if plan.outcome == UpdateOutcome::Waiting => plan.retry_at,
                    _ => Some(now),
                };
            }
            telling.wake(key, wake_at)?;
            asked.push((name, plan));
        }
        if telling.finish()? {
            shared::nudge(&transaction, Nudge::Deliver)?;
        }
        transaction.commit().map_err(step("commit the updates"))?;
        Ok(asked)
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

/// The next chunk of active subscribers who were told of the event or of one that was merged into it.
fn listeners(transaction: &Transaction<'_>, task: &UpdateTask) -> Result<Due, StoreError> {
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

/// Of the subscribers from the one to the other those for whom this version is decided.
fn decided_subscribers(
    transaction: &Transaction<'_>,
    version: Version<'_>,
    (first, last): (SubscriberKey, SubscriberKey),
) -> Result<HashSet<i64>, StoreError> {
    let read = || -> sql::Result<HashSet<i64>> {
        let mut statement = transaction.prepare_cached(queries::UPDATED)?;
        let rows = statement.query_map(params![version.event_key, first.0, last.0, At(version.revision)], |row| row.get(0))?;
        rows.collect()
    };
    read().map_err(step("look for updates that are decided"))
}

/// The largest event of which an update waits for a subscriber, and its newest version.
fn largest_waiting(transaction: &Transaction<'_>, key: SubscriberKey) -> Result<Option<(i64, Event, Timestamp)>, StoreError> {
    let read = |row: &sql::Row<'_>| Ok((row.get(0)?, row.get::<_, Json<Event>>(1)?.0, row.get::<_, At>(2)?.0));
    let mut statement =
        transaction.prepare_cached(queries::LARGEST_WAITING_UPDATE).map_err(step("read the updates that wait"))?;
    statement.query_row([key.0], read).optional().map_err(step("read the updates that wait"))
}
