//! Solutions of one quake that the service has not linked: finding the quake that a sighting belongs to, and parting what
//! turns out to be two. A solution keeps its own row and history; nobody is decided on more than one of a quake.

use std::collections::BTreeSet;

use super::events::{Ingested, write_revision};
use super::queries::quake_of;
use super::rows::{At, Json};
use super::sql::{self, OptionalExtension, ToSql, Transaction, params};
use super::{StoreError, queries, step};
use crate::event::Event;
use crate::identity::unlinked::{Belonging, Likeness, Solution, apart};
use crate::time::Timestamp;

/// The most solutions around one origin that are looked at. With more of them nothing can be told apart.
const MAX_AROUND: i64 = 64;

/// A solution that was taken for another event.
struct Joined {
    key: i64,
    event: Event,
    /// The event that it was taken for.
    other: Event,
    since: Timestamp,
}

/// The known quake that a sighting without a known id belongs to.
pub(super) fn belongs(
    transaction: &Transaction<'_>,
    seen: &Event,
    likeness: &Likeness,
) -> Result<Option<Belonging<i64>>, StoreError> {
    let (from, to) = likeness.around(seen.origin_at);
    let read = || -> sql::Result<Vec<Solution<i64>>> {
        let mut statement = transaction.prepare_cached(queries::AROUND)?;
        let rows = statement.query_map(params![At(from), At(to), MAX_AROUND], |row| {
            Ok(Solution { quake: row.get(0)?, event: row.get::<_, Json<Event>>(1)?.0 })
        })?;
        rows.collect()
    };
    let known = read().map_err(step("look for the quake of an event"))?;
    let all = i64::try_from(known.len()).is_ok_and(|count| count < MAX_AROUND);
    Ok(if all { likeness.belongs(&known, seen) } else { None })
}

/// Takes the event of this row for another solution of the quake that it belongs to.
pub(super) fn join(
    transaction: &Transaction<'_>,
    key: i64,
    event: &Event,
    belonging: &Belonging<i64>,
    now: Timestamp,
    ingested: &mut Ingested,
) -> Result<(), StoreError> {
    // Of a quake that was there at the first start, only what goes beyond it is news.
    let sql = "UPDATE events SET duplicate_of = ?2, duplicate_since = ?3,
                   fate = iif(fate = 'open' AND (SELECT fate FROM events WHERE event_key = ?2) = 'baseline', 'baseline', fate)
               WHERE event_key = ?1";
    transaction.execute(sql, params![key, belonging.quake, At(now)]).map_err(step("join two events"))?;
    let Belonging { known_as, apart, .. } = belonging;
    let why = format!("taken for the quake of {known_as}: {apart}");
    ingested.notes.push(format!("{} is {why}", event.id));
    write_revision(transaction, key, event, &why, now)
}

/// Parts what a revision of this event makes unlike: the event from the one that it was taken for, and from it those that
/// were taken for it.
pub(super) fn part_unlike(
    transaction: &Transaction<'_>,
    key: i64,
    likeness: &Likeness,
    now: Timestamp,
    ingested: &mut Ingested,
) -> Result<(), StoreError> {
    for joined in read_joined(transaction, queries::JOINED_WITH, [key])? {
        if !likeness.alike(&joined.event, &joined.other) {
            let distance = apart(&joined.event, &joined.other).map_or_else(String::new, |apart| format!(", now {apart}"));
            part(transaction, &joined, &distance, now, ingested)?;
        }
    }
    Ok(())
}

/// Parts what one poll still shows side by side although it was joined long enough ago for the service to link it.
/// `shown` are the rows of the poll's events.
pub(super) fn part_shown(
    transaction: &Transaction<'_>,
    shown: &BTreeSet<i64>,
    likeness: &Likeness,
    now: Timestamp,
    ingested: &mut Ingested,
) -> Result<(), StoreError> {
    for joined in read_joined(transaction, queries::JOINED, [])? {
        if !shown.contains(&joined.key) || now.since(joined.since) < likeness.patience {
            continue;
        }
        let sql = concat!("SELECT event_key FROM events WHERE event_key <> ?1 AND event_key IN ", quake_of!("?1"));
        let others: Vec<i64> = transaction
            .prepare_cached(sql)
            .and_then(|mut statement| statement.query_map([joined.key], |row| row.get(0))?.collect())
            .map_err(step("look at a quake's solutions"))?;
        if others.iter().any(|other| shown.contains(other)) {
            let beside = format!(", shown beside it for {}", likeness.patience);
            part(transaction, &joined, &beside, now, ingested)?;
        }
    }
    Ok(())
}

/// Makes a joined event one of its own. Everybody is asked of both: who was decided on one of them counted as decided on the
/// other. They were seen in time, so their age does not matter.
fn part(
    transaction: &Transaction<'_>,
    joined: &Joined,
    because: &str,
    now: Timestamp,
    ingested: &mut Ingested,
) -> Result<(), StoreError> {
    let ask_others = concat!(
        "UPDATE events SET dispatch_from = 0 WHERE fate IN ('open', 'baseline') AND confirm_by IS NULL AND event_key <> ?1 AND event_key IN ",
        quake_of!("?1")
    );
    let part = "UPDATE events SET duplicate_of = NULL, duplicate_since = NULL, changed_at = ?2,
                    dispatch_from = iif(fate IN ('open', 'baseline') AND confirm_by IS NULL, 0, NULL), fate = iif(fate = 'baseline', 'open', fate)
                WHERE event_key = ?1";
    transaction
        .execute(ask_others, [joined.key])
        .and_then(|_| transaction.execute(part, params![joined.key, At(now)]))
        .map_err(step("part two events"))?;
    let why = format!("a quake of its own after all, not that of {}{because}", joined.other.id);
    ingested.notes.push(format!("{} is {why}", joined.event.id));
    ingested.to_dispatch += 1;
    write_revision(transaction, joined.key, &joined.event, &why, now)
}

/// The service linked `absorbed` to `survivor`: whatever either was taken to be one quake with stays one with the survivor.
pub(super) fn inherit(transaction: &Transaction<'_>, survivor: i64, absorbed: i64) -> Result<(), StoreError> {
    let taken_for = |key: i64| {
        let sql = "SELECT duplicate_of FROM events WHERE event_key = ?1";
        transaction.query_row(sql, [key], |row| row.get::<_, Option<i64>>(0)).map_err(step("merge two events"))
    };
    let execute = |sql: &str, parameters: &[&dyn ToSql]| transaction.execute(sql, parameters).map_err(step("merge two events"));
    let (of_survivor, of_absorbed) = (taken_for(survivor)?, taken_for(absorbed)?);
    if let (None, Some(first)) = (of_survivor, of_absorbed.filter(|first| *first != survivor)) {
        execute("UPDATE events SET duplicate_of = ?1 WHERE duplicate_of = ?2", &[&first, &survivor])?;
        let sql = "UPDATE events SET duplicate_of = ?1,
                       duplicate_since = (SELECT duplicate_since FROM events WHERE event_key = ?2) WHERE event_key = ?3";
        execute(sql, &[&first, &absorbed, &survivor])?;
    }
    let free = "UPDATE events SET duplicate_of = NULL, duplicate_since = NULL
                WHERE event_key = ?2 OR (event_key = ?1 AND duplicate_of = ?2)";
    execute(free, &[&survivor, &absorbed])?;
    let sql = "UPDATE events SET duplicate_of = (SELECT coalesce(duplicate_of, event_key) FROM events WHERE event_key = ?1)
               WHERE duplicate_of = ?2";
    execute(sql, &[&survivor, &absorbed]).map(|_| ())
}

/// Another network's solution of the quake, the first known.
pub(super) fn another_solution(transaction: &Transaction<'_>, key: i64) -> Result<Option<(i64, Event)>, StoreError> {
    let sql = concat!(
        "SELECT event_key, body FROM events WHERE event_key <> ?1 AND fate <> 'merged' AND withdrawn_at IS NULL AND event_key IN ",
        quake_of!("?1"),
        " ORDER BY event_key LIMIT 1"
    );
    let found = transaction.query_row(sql, [key], |row| Ok((row.get(0)?, row.get::<_, Json<Event>>(1)?.0))).optional();
    found.map_err(step("look at a quake's solutions"))
}

fn read_joined<P: sql::Params>(transaction: &Transaction<'_>, sql: &str, parameters: P) -> Result<Vec<Joined>, StoreError> {
    let read = || -> sql::Result<Vec<Joined>> {
        let mut statement = transaction.prepare_cached(sql)?;
        let rows = statement.query_map(parameters, |row| {
            Ok(Joined {
                key: row.get(0)?,
                event: row.get::<_, Json<Event>>(1)?.0,
                other: row.get::<_, Json<Event>>(2)?.0,
                since: row.get::<_, At>(3)?.0,
            })
        })?;
        rows.collect()
    };
    read().map_err(step("read joined events"))
}
