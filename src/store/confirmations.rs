//! Events that await confirmation: nobody is asked about them until another network or a reviewer confirms them, they turn out
//! to be smaller, or the time has run out.

use super::events::{Ingested, write_revision};
use super::queries::quake_of;
use super::rows::{At, Json, optional_at};
use super::sql::{self, OptionalExtension, Transaction, params};
use super::unlinked::another_solution;
use super::{Store, StoreError, queries, step};
use crate::event::{Event, EventId};
use crate::news::{Confidence, EventRules};
use crate::time::Timestamp;

impl Store {
    /// Gives up waiting for the confirmation of one event, if the time has run out for any: subscribers are asked about it.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written.
    pub fn give_up_confirmation(&mut self, now: Timestamp) -> Result<Option<Event>, StoreError> {
        // Mostly there is none, and then nobody is kept from writing.
        let any = self.connection.prepare_cached(queries::TO_CONFIRM).and_then(|mut find| find.exists([At(now)]));
        if !any.map_err(step("find an event that awaits confirmation"))? {
            return Ok(None);
        }
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin with an event that awaits confirmation"))?;
        let overdue: Option<(i64, Event)> = transaction
            .prepare_cached(queries::TO_CONFIRM)
            .and_then(|mut statement| {
                statement.query_row([At(now)], |row| Ok((row.get(0)?, row.get::<_, Json<Event>>(1)?.0))).optional()
            })
            .map_err(step("find an event that awaits confirmation"))?;
        let Some((key, event)) = overdue else { return Ok(None) };
        release(&transaction, key, true)?;
        write_revision(&transaction, key, &event, "not confirmed in time, so told unconfirmed", now)?;
        transaction.commit().map_err(step("commit an event that awaited confirmation"))?;
        Ok(Some(event))
    }
}

/// How sure the row's event is, before it is revised.
pub(super) fn confidence(transaction: &Transaction<'_>, key: i64) -> Result<Confidence, StoreError> {
    let read = transaction.query_row("SELECT confirm_by, unconfirmed FROM events WHERE event_key = ?1", [key], |row| {
        Ok((optional_at(row, "confirm_by")?, row.get::<_, bool>("unconfirmed")?))
    });
    Ok(match read.map_err(step("read whether an event is confirmed"))? {
        (Some(until), _) => Confidence::Awaited { until },
        (None, true) => Confidence::Unconfirmed,
        (None, false) => Confidence::Sure,
    })
}

/// Judges the row's event after it was recorded or revised: `before` is how sure it was and what was known, if anything was;
/// `asked` whether subscribers are to be asked. Whether they still are.
pub(super) fn judge(
    transaction: &Transaction<'_>,
    key: i64,
    before: Option<(Confidence, &Event)>,
    (event, asked): (&Event, bool),
    rules: &EventRules,
    now: Timestamp,
    ingested: &mut Ingested,
) -> Result<bool, StoreError> {
    let others = another_solution(transaction, key)?;
    if let Some((_, other)) = &others {
        confirm(transaction, key, &other.id, now, ingested)?;
    }
    let awaited = matches!(before, Some((Confidence::Awaited { .. }, _)));
    match rules.confidence(before, event, others.is_some(), now) {
        Confidence::Awaited { until } if asked || awaited => {
            let sql = "UPDATE events SET confirm_by = ?2, unconfirmed = 0, dispatch_from = NULL, update_from = NULL WHERE event_key = ?1";
            transaction.execute(sql, params![key, At(until)]).map_err(step("hold an event for confirmation"))?;
            if !awaited {
                let why = format!("awaits confirmation until {until}");
                ingested.notes.push(format!("{} ({}) {why}", event.id, event.title()));
                write_revision(transaction, key, event, &why, now)?;
            }
            Ok(false)
        }
        Confidence::Sure if awaited && others.is_none() => {
            release(transaction, key, false)?;
            let why = "awaits no confirmation any more";
            ingested.notes.push(format!("{} ({}) {why}", event.id, event.title()));
            write_revision(transaction, key, event, why, now)?;
            Ok(true)
        }
        Confidence::Sure => {
            transaction
                .execute("UPDATE events SET unconfirmed = 0 WHERE event_key = ?1", [key])
                .map_err(step("confirm an event"))?;
            Ok(asked)
        }
        Confidence::Awaited { .. } | Confidence::Unconfirmed => Ok(asked),
    }
}

/// Two networks know the quake: none of its solutions awaits confirmation any more.
fn confirm(
    transaction: &Transaction<'_>,
    key: i64,
    by: &EventId,
    now: Timestamp,
    ingested: &mut Ingested,
) -> Result<(), StoreError> {
    let sql = concat!(
        "SELECT event_key, body FROM events WHERE confirm_by IS NOT NULL AND event_key IN ",
        quake_of!("?1"),
        " ORDER BY event_key"
    );
    let read = || -> sql::Result<Vec<(i64, Event)>> {
        let mut statement = transaction.prepare_cached(sql)?;
        statement.query_map([key], |row| Ok((row.get(0)?, row.get::<_, Json<Event>>(1)?.0)))?.collect()
    };
    for (waiting, event) in read().map_err(step("confirm an event"))? {
        release(transaction, waiting, false)?;
        let why = format!("confirmed by another network, which calls it or another solution {by}");
        ingested.notes.push(format!("{} ({}) is {why}", event.id, event.title()));
        ingested.to_dispatch += 1;
        write_revision(transaction, waiting, &event, &why, now)?;
    }
    Ok(())
}

/// Subscribers are asked, however long it took: it was seen in time.
fn release(transaction: &Transaction<'_>, key: i64, unconfirmed: bool) -> Result<(), StoreError> {
    let sql = "UPDATE events SET confirm_by = NULL, unconfirmed = ?2, update_from = 0,
                   dispatch_from = iif(fate IN ('open', 'baseline'), 0, NULL) WHERE event_key = ?1";
    transaction.execute(sql, params![key, unconfirmed]).map(|_| ()).map_err(step("ask about an event that awaited confirmation"))
}
