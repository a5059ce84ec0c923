//! Recording what the feed shows: new events, revisions, merges; and which of them are news.

use std::collections::BTreeSet;

use super::rows::{At, Json, Word};
use super::shared::{self, Nudge};
use super::sql::{Connection, OptionalExtension, Transaction, named_params, params};
use super::{Store, StoreError, confirmations, queries, step, unlinked};
use crate::event::{Event, Magnitude};
use crate::identity::{self, Identity, Known};
use crate::news::{EventRules, Fate};
use crate::time::{Span, Timestamp};

/// What a poll brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingested {
    pub new: usize,
    pub revised: usize,
    pub merged: usize,
    /// How many the service told to be deleted, which were withdrawn.
    pub withdrawn: usize,
    /// Of the new and revised ones, those that subscribers are to be asked about.
    pub to_dispatch: usize,
    /// What an operator may want to know, a line each.
    pub notes: Vec<String>,
}

impl Store {
    /// The newest `generated` that was recorded of this feed.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn last_generated(&self, feed_url: &str) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT generated_at FROM installation WHERE feed_url = ?1";
        let found = self.connection.query_row(sql, [feed_url], |row| row.get::<_, Option<At>>(0));
        Ok(found.optional().map_err(step("read the state of the feed"))?.flatten().map(|at| at.0))
    }

    /// Records what a poll showed, in one transaction.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is recorded then.
    pub fn record(
        &mut self,
        feed_url: &str,
        generated_at: Option<Timestamp>,
        events: &[Event],
        rules: &EventRules,
        now: Timestamp,
    ) -> Result<Ingested, StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin recording events"))?;
        shared::still_polls(&transaction)?;
        let first_poll: bool = transaction
            .query_row("SELECT polled_at IS NULL FROM installation", [], |row| row.get(0))
            .map_err(step("read the state of the feed"))?;
        let mut ingested = Ingested::default();
        let mut shown = BTreeSet::new();
        for event in events {
            shown.extend(record_event(&transaction, event, rules, first_poll, now, &mut ingested)?);
        }
        unlinked::part_shown(&transaction, &shown, &rules.likeness, now, &mut ingested)?;
        transaction
            .execute(
                "UPDATE installation SET feed_url = ?1, generated_at = coalesce(?2, generated_at), polled_at = ?3",
                params![feed_url, generated_at.map(At), At(now)],
            )
            .map_err(step("record the poll"))?;
        if ingested.to_dispatch > 0 {
            shared::nudge(&transaction, Nudge::Dispatch)?;
        }
        transaction.commit().map_err(step("commit the poll"))?;
        Ok(ingested)
    }
}

/// Records one event of a poll: the row that it is now, if it is recorded.
fn record_event(
    transaction: &Transaction<'_>,
    seen: &Event,
    rules: &EventRules,
    first_poll: bool,
    now: Timestamp,
    ingested: &mut Ingested,
) -> Result<Option<i64>, StoreError> {
    let known = known_by_any_id(transaction, seen)?;
    match identity::merge(&known, seen) {
        Identity::New { event } if !rules.records(&event) => Ok(None),
        Identity::New { event } => {
            let belonging = unlinked::belongs(transaction, &event, &rules.likeness)?;
            let fate = rules.fate(&event, first_poll, now);
            let key = insert(transaction, &event, fate, now)?;
            if let Some(belonging) = belonging {
                unlinked::join(transaction, key, &event, &belonging, now, ingested)?;
            }
            let asked = (&event, fate == Fate::Open);
            ingested.new += 1;
            ingested.to_dispatch += usize::from(confirmations::judge(transaction, key, None, asked, rules, now, ingested)?);
            Ok(Some(key))
        }
        Identity::Same { key, event } => {
            refresh(transaction, key, &event)?;
            Ok(Some(key))
        }
        Identity::Revised { key, event, changes } => {
            ingested.revised += 1;
            renew(transaction, &known, (key, &event, &changes), rules, now, ingested)?;
            Ok(Some(key))
        }
        Identity::Merged { key, absorbed, event, changes } => {
            ingested.merged += 1;
            absorb(transaction, key, &absorbed, now)?;
            renew(transaction, &known, (key, &event, &changes), rules, now, ingested)?;
            Ok(Some(key))
        }
    }
}

/// Revises an event, and looks again at what was thought of it.
fn renew(
    transaction: &Transaction<'_>,
    known: &[Known<i64>],
    (key, event, changes): (i64, &Event, &[identity::Change]),
    rules: &EventRules,
    now: Timestamp,
    ingested: &mut Ingested,
) -> Result<(), StoreError> {
    let confidence = confirmations::confidence(transaction, key)?;
    let before = known.iter().find(|known| known.key == key).map(|known| (confidence, &known.event));
    let asked = revise(transaction, key, event, &named(changes), rules, now)?;
    unlinked::part_unlike(transaction, key, &rules.likeness, now, ingested)?;
    ingested.to_dispatch += usize::from(confirmations::judge(transaction, key, before, (event, asked), rules, now, ingested)?);
    Ok(())
}

fn named(changes: &[identity::Change]) -> String {
    changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn known_by_any_id(transaction: &Transaction<'_>, seen: &Event) -> Result<Vec<Known<i64>>, StoreError> {
    let mut find = transaction.prepare_cached(queries::KNOWN).map_err(step("look an event up"))?;
    let mut known: Vec<Known<i64>> = Vec::new();
    for id in std::iter::once(&seen.id).chain(&seen.ids) {
        let found = find
            .query_row([id.as_str()], |row| Ok(Known { key: row.get(0)?, event: row.get::<_, Json<Event>>(1)?.0 }))
            .optional()
            .map_err(step("look an event up"))?;
        if let Some(found) = found
            && known.iter().all(|other| other.key != found.key)
        {
            known.push(found);
        }
    }
    Ok(known)
}

fn insert(transaction: &Transaction<'_>, event: &Event, fate: Fate, now: Timestamp) -> Result<i64, StoreError> {
    let sql = "INSERT INTO events (preferred_id, origin_at, magnitude, body, first_seen_at, changed_at, fate, dispatch_from)
               VALUES (:id, :origin_at, :magnitude, :body, :now, :now, :fate, iif(:fate = 'open', 0, NULL))";
    let row = named_params! {
        ":id": event.id.as_str(), ":origin_at": At(event.origin_at), ":magnitude": event.magnitude.map(Magnitude::value),
        ":body": Json(event), ":now": At(now), ":fate": Word(fate),
    };
    let key = transaction.insert(sql, row, "event_key").map_err(step("record a new event"))?;
    write_ids(transaction, key, event)?;
    write_revision(transaction, key, event, "new", now)?;
    Ok(key)
}

/// Keeps what does not matter to anybody, like the time of the service's last touch.
fn refresh(transaction: &Transaction<'_>, key: i64, event: &Event) -> Result<(), StoreError> {
    let sql = "UPDATE events SET body = ?2 WHERE event_key = ?1 AND body <> ?2";
    let done = transaction.prepare_cached(sql).and_then(|mut statement| statement.execute(params![key, Json(event)]));
    done.map(|_| ()).map_err(step("refresh an event"))
}

/// Records the new version, and asks the subscribers again unless the event is too old or implausible. Whether it does.
/// Who is still to be asked about an earlier version is asked in any case.
fn revise(
    transaction: &Transaction<'_>,
    key: i64,
    event: &Event,
    changes: &str,
    rules: &EventRules,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let known = transaction
        .query_row("SELECT fate FROM events WHERE event_key = ?1", [key], |row| row.get::<_, Word<Fate>>(0))
        .map_err(step("revise an event"))?
        .0;
    let fate = rules.revised(known, event, now);
    let asked = rules.asks(fate, event, now) && !event.is_withdrawn();
    // Whoever was told of it is told of what is new about it, as long as others are asked; of a return always.
    let sql = "UPDATE events
               SET preferred_id = :id, origin_at = :origin_at, magnitude = :magnitude, body = :body, changed_at = :now,
                   fate = :fate, dispatch_from = iif(:asked = 1 AND confirm_by IS NULL, 0, dispatch_from),
                   update_from = iif(:asked = 1 OR (withdrawn_at IS NOT NULL AND :withdrawn = 0), 0, update_from),
                   withdrawn_at = iif(:withdrawn = 1, withdrawn_at, NULL)
               WHERE event_key = :key";
    transaction
        .prepare_cached(sql)
        .and_then(|mut statement| {
            statement.execute(named_params! {
                ":key": key, ":id": event.id.as_str(), ":origin_at": At(event.origin_at),
                ":magnitude": event.magnitude.map(Magnitude::value), ":body": Json(event), ":now": At(now),
                ":fate": Word(fate), ":asked": asked, ":withdrawn": event.is_withdrawn(),
            })
        })
        .map_err(step("revise an event"))?;
    write_ids(transaction, key, event)?;
    write_revision(transaction, key, event, changes, now)?;
    Ok(asked)
}

/// Several known events are one: their ids go to the survivor, whoever was decided on any of them is not asked again, and
/// whoever was still to be asked about one is asked about the survivor.
pub(super) fn absorb(transaction: &Transaction<'_>, survivor: i64, absorbed: &[i64], now: Timestamp) -> Result<(), StoreError> {
    for other in absorbed {
        transaction
            .execute("UPDATE event_ids SET event_key = ?1 WHERE event_key = ?2", [survivor, *other])
            .and_then(|_| {
                transaction.execute(
                    "UPDATE events SET fate = iif(fate = 'baseline', fate, 'open'), dispatch_from = iif(confirm_by IS NULL, 0, NULL)
                     WHERE event_key = ?1
                       AND EXISTS (SELECT 1 FROM events WHERE event_key = ?2 AND fate = 'open' AND dispatch_from IS NOT NULL)",
                    [survivor, *other],
                )
            })
            .and_then(|_| {
                transaction.execute(
                    "UPDATE events SET fate = 'merged', merged_into = ?1, dispatch_from = NULL, update_from = NULL, confirm_by = NULL,
                         changed_at = ?3 WHERE event_key = ?2",
                    params![survivor, other, At(now)],
                )
            })
            .and_then(|_| {
                // What was merged into the absorbed one before belongs to the survivor, too.
                transaction.execute("UPDATE events SET merged_into = ?1 WHERE merged_into = ?2", [survivor, *other])
            })
            .map_err(step("merge two events"))?;
        unlinked::inherit(transaction, survivor, *other)?;
    }
    Ok(())
}

pub(super) fn write_ids(transaction: &Transaction<'_>, key: i64, event: &Event) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO event_ids (id, event_key) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET event_key = excluded.event_key";
    let mut insert = transaction.prepare_cached(sql).map_err(step("record an event's ids"))?;
    for id in std::iter::once(&event.id).chain(&event.ids) {
        insert.execute(params![id.as_str(), key]).map_err(step("record an event's ids"))?;
    }
    Ok(())
}

pub(super) fn write_revision(
    transaction: &Transaction<'_>,
    key: i64,
    event: &Event,
    changes: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    // A clock that was set back, or another daemon's, does not make the newest version an earlier one.
    let newest = transaction.prepare_cached("SELECT max(seen_at) FROM revisions WHERE event_key = ?1");
    let newest = newest.and_then(|mut newest| newest.query_row([key], |row| row.get::<_, Option<At>>(0)));
    let newest = newest.map_err(step("look for the newest version"))?.map(|newest| newest.0);
    let at = newest.filter(|newest| *newest > now).map_or(now, |newest| newest.plus(Span::from_ticks(1)));
    if at > now {
        let late = "UPDATE events SET changed_at = max(changed_at, ?2) WHERE event_key = ?1";
        transaction.execute(late, params![key, At(at)]).map_err(step("record a revision"))?;
    }
    // Two revisions within one tick come from one poll; the last is what was known after it.
    let sql = "INSERT INTO revisions (event_key, seen_at, body, changes) VALUES (?1, ?2, ?3, ?4)
               ON CONFLICT (event_key, seen_at) DO UPDATE SET body = excluded.body, changes = revisions.changes || ', ' || excluded.changes";
    let done =
        transaction.prepare_cached(sql).and_then(|mut statement| statement.execute(params![key, At(at), Json(event), changes]));
    done.map(|_| ()).map_err(step("record a revision"))
}

/// A key that no other installation has: 64 random bits.
pub(super) fn fresh_key() -> Result<String, StoreError> {
    let fresh = getrandom::u64().map_err(|fault| StoreError::Row { what: "a random number".into(), fault: fault.to_string() })?;
    Ok(format!("{fresh:016x}"))
}

/// The installation's key: made at the first opening, 64 random bits.
pub(super) fn installation_key(connection: &Connection) -> Result<String, StoreError> {
    let read = "SELECT key FROM installation";
    let known = connection.query_row(read, [], |row| row.get(0)).optional().map_err(step("read the installation's key"))?;
    if let Some(known) = known {
        return Ok(known);
    }
    connection
        .execute("INSERT INTO installation (\"only\", key) VALUES (1, ?1) ON CONFLICT DO NOTHING", [fresh_key()?])
        .and_then(|_| connection.query_row(read, [], |row| row.get(0)))
        .map_err(step("make the installation's key"))
}
