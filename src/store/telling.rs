//! What one transaction writes of later versions: the rows, the messages, the limiters' new states, and when to ask again.

use std::collections::HashMap;

use super::decisions::{Candidate, WRITE_LIMITER, carried, dated};
use super::messages::{Addressed, Writer};
use super::rows::{At, Json, Word};
use super::sql::{self, Batch, Transaction, params};
use super::subscribers::{StoredSubscriber, SubscriberKey};
use super::updates::Listener;
use super::{StoreError, queries, step};
use crate::alert::First;
use crate::event::Event;
use crate::limiter::Limiter;
use crate::plan::{Told, UpdateOutcome, UpdatePlan};
use crate::revision;
use crate::subscriber::Updates;
use crate::time::Timestamp;

/// The newest version of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'e> {
    pub event_key: i64,
    pub event: &'e Event,
    pub revision: Timestamp,
}

impl Version<'_> {
    fn kind(&self) -> &'static str {
        if self.event.is_withdrawn() { "withdrawal" } else { "update" }
    }
}

/// Everything is there when it is finished and the transaction is committed. Each subscriber is told once within one.
pub(super) struct Telling<'t> {
    now: Timestamp,
    messages: Writer<'t>,
    superseded: Batch<'t>,
    decided: Batch<'t>,
    states: Batch<'t>,
    earlier_wakes: Batch<'t>,
    wakes: Batch<'t>,
    is_told: bool,
}

impl<'t> Telling<'t> {
    pub fn new(transaction: &'t Transaction<'_>, installation: &'t str, now: Timestamp) -> Result<Telling<'t>, StoreError> {
        let batch = |sql| transaction.batch(sql).map_err(step("begin telling of updates"));
        Ok(Telling {
            now,
            messages: Writer::new(transaction, installation),
            superseded: batch(
                "UPDATE updates SET outcome = 'superseded', reason = reason || '; ' || ?4
                 WHERE subscriber_key = ?2 AND outcome = 'waiting' AND NOT (event_key = ?1 AND revision IS NOT DISTINCT FROM ?3)
                   AND event_key IN (SELECT ?1 UNION ALL SELECT event_key FROM events WHERE merged_into = ?1)",
            )?,
            // Of a version that waited, what became of it.
            decided: batch(
                "INSERT INTO updates (event_key, subscriber_key, revision, kind, decided_at, outcome, reason, refused, retry_at,
                                      delivery_key)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                 ON CONFLICT (event_key, subscriber_key, revision) DO UPDATE SET
                     outcome = excluded.outcome, delivery_key = excluded.delivery_key, retry_at = excluded.retry_at,
                     reason = iif(excluded.outcome = 'waiting', updates.reason, updates.reason || '; then ' || excluded.reason)",
            )?,
            states: batch(WRITE_LIMITER)?,
            earlier_wakes: batch(
                "UPDATE subscribers SET update_wake_at = min(coalesce(update_wake_at, ?2), ?2) WHERE subscriber_key = ?1",
            )?,
            wakes: batch("UPDATE subscribers SET update_wake_at = ?2 WHERE subscriber_key = ?1")?,
            is_told: false,
        })
    }

    /// Tells a subscriber, who was `told` that of the event, of this version what is worth telling; nothing if nothing is. What waited
    /// to be told before is superseded.
    pub fn tell(
        &mut self,
        version: Version<'_>,
        (key, stored): (SubscriberKey, StoredSubscriber),
        told: Option<Told>,
        decide: &mut impl FnMut(Listener<'_>) -> UpdatePlan,
    ) -> Result<Option<Result<UpdatePlan, String>>, StoreError> {
        let StoredSubscriber { subscriber, limiter, .. } = stored;
        let now = self.dated(version);
        let Some(told) = told else {
            self.supersede(version, key, None, "nothing was told of the event")?;
            return Ok(None);
        };
        let withdrawn = version.event.is_withdrawn();
        let changes =
            if withdrawn { Vec::new() } else { revision::worth_telling(subscriber.updates, &told.event, version.event) };
        let worth =
            if withdrawn { subscriber.updates != Updates::None && !told.event.is_withdrawn() } else { !changes.is_empty() };
        if !worth {
            self.supersede(version, key, None, "nothing of it is left to tell")?;
            return Ok(None);
        }
        let mut limiter = match limiter {
            Ok(limiter) => carried(limiter, &subscriber, now),
            Err(fault) => {
                self.undecided(version, key, &fault)?;
                return Ok(Some(Err(fault)));
            }
        };
        let candidate = Candidate { subscriber: &subscriber, limiter: &mut limiter, now };
        let plan = decide(Listener { candidate, told: &told, event: version.event, changes });
        let because = if withdrawn { "the event was withdrawn" } else { "a newer version took its place" };
        self.supersede(version, key, Some(version.revision), because)?;
        let delivery = match &plan.message {
            Some(message) => {
                let ending = format!("-{}", version.revision.ticks());
                let to = Addressed { key, subscriber: &subscriber, event_key: version.event_key, ending: &ending };
                self.is_told = true;
                Some(self.messages.write(to, message, now)?)
            }
            None => None,
        };
        self.decided(version, key, &plan, delivery)?;
        self.state(key, &limiter)?;
        Ok(Some(Ok(plan)))
    }

    /// Nothing is told of a version before it was seen, see [`Candidate::now`].
    fn dated(&self, version: Version<'_>) -> Timestamp {
        dated(self.now, version.revision)
    }

    /// Nothing can be decided for this subscriber: why.
    pub fn undecided(&mut self, version: Version<'_>, key: SubscriberKey, fault: &str) -> Result<(), StoreError> {
        let outcome = UpdateOutcome::Undecided;
        let plan = UpdatePlan { outcome, reason: fault.to_owned(), refused: false, retry_at: None, message: None };
        self.decided(version, key, &plan, None)
    }

    fn decided(
        &mut self,
        version: Version<'_>,
        key: SubscriberKey,
        plan: &UpdatePlan,
        delivery: Option<i64>,
    ) -> Result<(), StoreError> {
        let added = self.decided.add(params![
            version.event_key,
            key.0,
            At(version.revision),
            version.kind(),
            At(self.dated(version)),
            Word(plan.outcome),
            plan.reason,
            plan.refused,
            plan.retry_at.map(At),
            delivery
        ]);
        added.map_err(step("write an update"))
    }

    /// What waits of this event is not told any more, except the version `but`.
    fn supersede(
        &mut self,
        version: Version<'_>,
        key: SubscriberKey,
        but: Option<Timestamp>,
        because: &str,
    ) -> Result<(), StoreError> {
        let added = self.superseded.add(params![version.event_key, key.0, but.map(At), because]);
        added.map_err(step("supersede an update"))
    }

    fn state(&mut self, key: SubscriberKey, limiter: &Limiter) -> Result<(), StoreError> {
        self.states.add(params![key.0, limiter.to_bytes()]).map_err(step("write a limiter's state"))
    }

    /// Asks the limiter again at `at`, or earlier if something else that waits may come earlier.
    pub fn wake_by(&mut self, key: SubscriberKey, at: Timestamp) -> Result<(), StoreError> {
        self.earlier_wakes.add(params![key.0, At(at)]).map_err(step("write when to ask a limiter again"))
    }

    /// Asks the limiter again at `at`, and not before; `None`: not at all.
    pub fn wake(&mut self, key: SubscriberKey, at: Option<Timestamp>) -> Result<(), StoreError> {
        self.wakes.add(params![key.0, at.map(At)]).map_err(step("write when to ask a limiter again"))
    }

    /// Whether there are messages to deliver.
    pub fn finish(self) -> Result<bool, StoreError> {
        let Telling { messages, superseded, decided, states, earlier_wakes, wakes, is_told, .. } = self;
        // What is decided refers to its message.
        messages.finish()?;
        let batches = [superseded, decided, states, earlier_wakes, wakes];
        batches.into_iter().try_for_each(Batch::finish).map_err(step("write the updates"))?;
        Ok(is_told)
    }
}

/// What the subscribers from the one to the other were told of an event and of those that were merged into it: first by which message,
/// and last what.
pub(super) fn last_told(
    transaction: &Transaction<'_>,
    event_key: i64,
    (first, last): (SubscriberKey, SubscriberKey),
) -> Result<HashMap<i64, Told>, StoreError> {
    let read = || -> sql::Result<HashMap<i64, Told>> {
        let mut statement = transaction.prepare_cached(queries::TOLD)?;
        let mut rows = statement.query(params![event_key, first.0, last.0])?;
        let mut all: HashMap<i64, Told> = HashMap::new();
        while let Some(row) = rows.next()? {
            let (key, event) = (row.get("subscriber_key")?, row.get::<_, Json<Event>>("body")?.0);
            if let Some(told) = all.get_mut(&key) {
                told.event = event;
            } else {
                let of = First { id: row.get("alert_id")?, sent_at: row.get::<_, At>("sent_at")?.0, digest: row.get("digest")? };
                all.insert(key, Told { event, of });
            }
        }
        Ok(all)
    };
    read().map_err(step("read what subscribers were told"))
}
