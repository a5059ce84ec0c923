//! Withdrawing an event that the service has deleted.

use super::events::{absorb, write_ids, write_revision};
use super::rows::{At, Json};
use super::shared;
use super::sql::{OptionalExtension, Transaction, params};
use super::unlinked::another_solution;
use super::{Store, StoreError, queries, step};
use crate::event::{Event, EventId, WITHDRAWN};
use crate::identity;
use crate::time::Timestamp;

impl Store {
    /// Records that the service has deleted the event that it prefers to call `id`: nobody is asked about it any more, what was
    /// not told yet is not told, and whoever was told hears of it. Whether anything was withdrawn.
    ///
    /// An id that is not the event's preferred one withdraws nothing: that is a contribution which the service dropped. Nor
    /// does an event end that is known by another network's solution, too: the other takes its place.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is withdrawn then.
    pub fn withdraw(&mut self, id: &EventId, now: Timestamp) -> Result<bool, StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin withdrawing an event"))?;
        shared::still_polls(&transaction)?;
        let withdrawn = withdraw(&transaction, id, now)?;
        transaction.commit().map_err(step("commit a withdrawal"))?;
        Ok(withdrawn)
    }
}

fn withdraw(transaction: &Transaction<'_>, id: &EventId, now: Timestamp) -> Result<bool, StoreError> {
    let known: Option<(i64, Event)> = transaction
        .query_row(queries::KNOWN, [id.as_str()], |row| Ok((row.get(0)?, row.get::<_, Json<Event>>(1)?.0)))
        .optional()
        .map_err(step("look an event up"))?;
    let Some((key, event)) = known.filter(|(_, event)| event.id == *id && !event.is_withdrawn()) else { return Ok(false) };
    match another_solution(transaction, key)? {
        Some((other, solution)) => replace(transaction, (key, &event), (other, solution), now)?,
        None => end(transaction, key, event, now)?,
    }
    Ok(true)
}

fn end(transaction: &Transaction<'_>, key: i64, event: Event, now: Timestamp) -> Result<(), StoreError> {
    let withdrawn = Event { status: WITHDRAWN.to_owned(), ..event };
    let sql = "UPDATE events SET body = ?2, changed_at = ?3, withdrawn_at = ?3, dispatch_from = NULL, confirm_by = NULL,
                   update_from = 0
               WHERE event_key = ?1";
    // What the limiter or quiet hours held back is not told any more: it did not happen.
    let untold = "UPDATE decisions SET outcome = 'withheld', reason = reason || '; withdrawn before it was told'
                  WHERE outcome IN ('pending', 'waiting', 'held')
                    AND event_key IN (SELECT ?1 UNION ALL SELECT event_key FROM events WHERE merged_into = ?1)";
    transaction
        .execute(sql, params![key, Json(&withdrawn), At(now)])
        .and_then(|_| transaction.execute(untold, [key]))
        .map_err(step("withdraw an event"))?;
    write_revision(transaction, key, &withdrawn, "withdrawn", now)
}

/// `other` takes in the withdrawn solution: whoever was told of that is told what is known instead.
fn replace(
    transaction: &Transaction<'_>,
    (key, withdrawn): (i64, &Event),
    (other, solution): (i64, Event),
    now: Timestamp,
) -> Result<(), StoreError> {
    absorb(transaction, other, &[key], now)?;
    let event = identity::with_ids_of(solution, withdrawn);
    let sql = "UPDATE events SET body = ?2, changed_at = ?3, update_from = 0 WHERE event_key = ?1";
    transaction.execute(sql, params![other, Json(&event), At(now)]).map_err(step("withdraw an event"))?;
    write_ids(transaction, other, &event)?;
    write_revision(transaction, other, &event, &format!("takes the place of {}, which was withdrawn", withdrawn.id), now)
}
