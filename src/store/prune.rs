//! Retention: what was decided long ago leaves the ledger with its messages, and what the operator was told with its notices, a
//! little in each transaction. What waits, is due or under way stays, and so does what an operator has not had the time to look
//! at. An event itself stays for good, with its ids and what was known of it last, so that a feed which shows it again brings no
//! news.

use super::rows::{At, optional_at};
use super::sql::{self, OptionalExtension, Transaction, named_params, params};
use super::{Store, StoreError, queries, step};
use crate::time::{Span, Timestamp};

/// Decisions, and updates, that one step looks at.
const STEP: usize = 1_000;

/// Where a sweep through the ledger goes on: the default is its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneCursor {
    changed_at: i64,
    event_key: i64,
    subscriber_key: i64,
}

/// What one step deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub decisions: u64,
    pub updates: u64,
    pub messages: u64,
    /// Older versions of events.
    pub revisions: u64,
    /// What the operator was told of, and the messages that told it.
    pub changes: u64,
    pub notices: u64,
    /// Where to go on; `None` at the end of the ledger.
    pub next: Option<PruneCursor>,
}

impl Pruned {
    /// What two steps deleted; where to go on is told by the later.
    #[must_use]
    pub fn and(self, later: Pruned) -> Pruned {
        Pruned {
            decisions: self.decisions + later.decisions,
            updates: self.updates + later.updates,
            messages: self.messages + later.messages,
            revisions: self.revisions + later.revisions,
            changes: self.changes + later.changes,
            notices: self.notices + later.notices,
            next: later.next,
        }
    }
}

impl Store {
    /// Before which instant the ledger may be pruned at `now` if it is to reach back so far. The feed's word on the time counts
    /// as well, where it has one: a clock that jumped ahead deletes nothing.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn prunable_before(&self, keep: Span, now: Timestamp) -> Result<Timestamp, StoreError> {
        let sql = "SELECT max(generated_at) AS generated_at FROM installation";
        let generated_at = self.connection.query_row(sql, [], |row| optional_at(row, "generated_at"));
        let generated_at = generated_at.map_err(step("read how new the feed is"))?;
        Ok(generated_at.map_or(now, |at| at.min(now)).minus(keep))
    }

    /// One step of a sweep that deletes what was decided, and is settled, `before` then. A step more than needed, or one that
    /// is repeated after a crash, deletes nothing else.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written; nothing is deleted then.
    pub fn prune(&mut self, before: Timestamp, from: PruneCursor) -> Result<Pruned, StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin pruning the ledger"))?;
        let Some((event_key, changed_at)) = next_event(&transaction, before, from).map_err(step("look for what to prune"))?
        else {
            return Ok(Pruned::default());
        };
        let here = PruneCursor { changed_at, event_key, subscriber_key: 0 };
        let here = if (here.changed_at, here.event_key) == (from.changed_at, from.event_key) { from } else { here };
        let pruned = prune_event(&transaction, before, here).map_err(step("prune the ledger"))?;
        transaction.commit().map_err(step("commit the pruned ledger"))?;
        Ok(pruned)
    }

    /// One step of a sweep through what the operator was told of: deletes what was told, and the messages that were settled,
    /// `before` then. How things stand, and what is not told yet, stays. Where to go on; the default is the beginning, `None` the
    /// end.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written; nothing is deleted then.
    pub fn prune_notices(&mut self, before: Timestamp, from: i64) -> Result<(Pruned, Option<i64>), StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin pruning the notices"))?;
        let done = prune_noticed(&transaction, before, from).map_err(step("prune the notices"))?;
        transaction.commit().map_err(step("commit the pruned notices"))?;
        Ok(done)
    }

    /// Since when all is kept that was decided; `None` while nothing was deleted.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn ledger_from(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT max(ledger_from) AS ledger_from FROM installation";
        let from = self.connection.query_row(sql, [], |row| optional_at(row, "ledger_from"));
        from.map_err(step("read how far the ledger reaches"))
    }
}

/// The first event from the cursor on of which something may be deleted.
fn next_event(transaction: &Transaction<'_>, before: Timestamp, from: PruneCursor) -> sql::Result<Option<(i64, i64)>> {
    let mut find = transaction.prepare_cached(queries::PRUNABLE_EVENT)?;
    let parameters = named_params! { ":before": At(before), ":changed_at": from.changed_at, ":event": from.event_key };
    find.query_row(parameters, |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

fn prune_event(transaction: &Transaction<'_>, before: Timestamp, here: PruneCursor) -> sql::Result<Pruned> {
    let mut pruned = Pruned::default();
    let mut told = prune_updates(transaction, before, here.event_key, &mut pruned)?;
    // The decision goes after what followed from it.
    let more = if pruned.updates == STEP as u64 {
        Some(here)
    } else {
        prune_decisions(transaction, before, here, &mut pruned, &mut told)?
    };
    let mut forget = transaction.prepare_cached(
        "DELETE FROM outbox WHERE delivery_key = ?1 AND NOT EXISTS (SELECT 1 FROM decisions WHERE delivery_key = ?1)
           AND NOT EXISTS (SELECT 1 FROM updates WHERE delivery_key = ?1)",
    )?;
    for delivery in told {
        pruned.messages += forget.execute([delivery])? as u64;
    }
    if pruned.decisions + pruned.updates > 0 {
        let reaches = "UPDATE installation SET ledger_from = max(coalesce(ledger_from, ?1), ?1)";
        transaction.prepare_cached(reaches)?.execute([At(before)])?;
        // Nobody is asked about it again: that somebody was is not known any more.
        let close = "UPDATE events SET fate = 'too-old' WHERE event_key = ?1 AND fate IN ('open', 'baseline')";
        transaction.prepare_cached(close)?.execute([here.event_key])?;
    }
    if more.is_none() {
        pruned.revisions = finish_event(transaction, before, here.event_key)?;
    }
    let beyond = PruneCursor { event_key: here.event_key + 1, subscriber_key: 0, ..here };
    pruned.next = Some(more.unwrap_or(beyond));
    Ok(pruned)
}

/// Deletes updates of an event: the keys of their messages.
fn prune_updates(transaction: &Transaction<'_>, before: Timestamp, event_key: i64, pruned: &mut Pruned) -> sql::Result<Vec<i64>> {
    let mut delete = transaction.prepare_cached(queries::PRUNE_UPDATES)?;
    let parameters =
        named_params! { ":event": event_key, ":before": At(before), ":step": i64::try_from(STEP).unwrap_or(i64::MAX) };
    let rows = delete.query_map(parameters, |row| row.get::<_, Option<i64>>(0))?;
    let messages: Vec<Option<i64>> = rows.collect::<Result<_, _>>()?;
    pruned.updates = messages.len() as u64;
    Ok(messages.into_iter().flatten().collect())
}

/// Deletes decisions on an event of the next subscribers: where to go on, if there are more.
fn prune_decisions(
    transaction: &Transaction<'_>,
    before: Timestamp,
    here: PruneCursor,
    pruned: &mut Pruned,
    told: &mut Vec<i64>,
) -> sql::Result<Option<PruneCursor>> {
    let mut look = transaction.prepare_cached(queries::PRUNABLE_DECISIONS)?;
    let parameters = named_params! {
        ":event": here.event_key, ":from": here.subscriber_key, ":before": At(before), ":step": i64::try_from(STEP).unwrap_or(i64::MAX),
    };
    let rows = look.query_map(parameters, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let rows: Vec<(i64, Option<i64>, bool)> = rows.collect::<Result<_, _>>()?;
    let mut delete = transaction.prepare_cached("DELETE FROM decisions WHERE event_key = ?1 AND subscriber_key = ?2")?;
    for (subscriber_key, delivery, _) in rows.iter().filter(|(.., prunable)| *prunable) {
        pruned.decisions += delete.execute(params![here.event_key, subscriber_key])? as u64;
        told.extend(delivery);
    }
    let last = rows.last().filter(|_| rows.len() == STEP);
    Ok(last.map(|(subscriber_key, ..)| PruneCursor { subscriber_key: subscriber_key + 1, ..here }))
}

fn prune_noticed(transaction: &Transaction<'_>, before: Timestamp, from: i64) -> sql::Result<(Pruned, Option<i64>)> {
    let most = i64::try_from(STEP).unwrap_or(i64::MAX);
    let messages = named_params! { ":before": At(before), ":step": most };
    let notices = transaction.prepare_cached(queries::PRUNE_NOTICES)?.execute(messages)? as u64;
    let mut look = transaction.prepare_cached(queries::PRUNABLE_CHANGES)?;
    let parameters = named_params! { ":before": At(before), ":from": from, ":step": most };
    let rows = look.query_map(parameters, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows: Vec<(i64, bool)> = rows.collect::<Result<_, _>>()?;
    let mut delete = transaction.prepare_cached("DELETE FROM changes WHERE change_key = ?1")?;
    let mut changes = 0;
    for (key, _) in rows.iter().filter(|(_, prunable)| *prunable) {
        changes += delete.execute([key])? as u64;
    }
    let more = rows.len() == STEP || notices == STEP as u64;
    let next = more.then(|| rows.last().map_or(from, |(key, _)| key + 1));
    Ok((Pruned { changes, notices, ..Pruned::default() }, next))
}

/// Deletes the older versions of an event of which nothing is left in the ledger: how many.
fn finish_event(transaction: &Transaction<'_>, before: Timestamp, event_key: i64) -> sql::Result<u64> {
    let done = "UPDATE events SET pruned_at = ?2
                WHERE event_key = ?1 AND NOT EXISTS (SELECT 1 FROM decisions WHERE event_key = ?1)
                  AND NOT EXISTS (SELECT 1 FROM updates WHERE event_key = ?1)";
    if transaction.prepare_cached(done)?.execute(params![event_key, At(before)])? == 0 {
        return Ok(0);
    }
    // Its messages went with the decisions.
    let unsaid = "DELETE FROM contents WHERE event_key = ?1
                    AND NOT EXISTS (SELECT 1 FROM outbox WHERE event_key = ?1 AND content_key IS NOT NULL)";
    transaction.prepare_cached(unsaid)?.execute([event_key])?;
    let older = "DELETE FROM revisions WHERE event_key = ?1
                   AND seen_at < (SELECT max(seen_at) FROM revisions WHERE event_key = ?1)";
    Ok(transaction.prepare_cached(older)?.execute([event_key])? as u64)
}
