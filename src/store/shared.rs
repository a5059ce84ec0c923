//! Several daemons on one server: which of them polls, how they share out the subscribers of an event, what time it is, and how
//! they wake each other. Of a database in a file only one daemon knows, and then all of this is nothing.

use std::sync::Arc;

use super::sql::{Connection, OptionalExtension, Session, Transaction, listen, params};
use super::{DispatchTask, Location, Store, StoreError, queries, step};
use crate::time::Timestamp;

/// Instead of a subscriber from which deciding goes on: all are shared out.
const SHARED_OUT: i64 = i64::MAX;

/// Which stage of the other daemons has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nudge {
    Dispatch,
    Deliver,
}

impl Nudge {
    const ALL: [Nudge; 2] = [Nudge::Dispatch, Nudge::Deliver];

    const fn name(self) -> &'static str {
        match self {
            Nudge::Dispatch => "dispatch",
            Nudge::Deliver => "deliver",
        }
    }
}

/// Hears the other daemons until it is dropped.
pub struct Listening {
    /// `None`: there are no others.
    _ear: Option<listen::Ear>,
}

/// A part of the subscribers: from one number on, and before another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub from: i64,
    pub to: i64,
}

impl Store {
    /// Whether this daemon is the one that polls: the first that asks, as long as its session with the server lasts.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the server does not say.
    pub fn polls(&mut self) -> Result<bool, StoreError> {
        self.connection.server().map_or(Ok(true), Session::polls).map_err(step("ask who polls"))
    }

    /// What the server's clock shows; `None` where there is none but the system's.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the server does not say.
    pub fn time(&self) -> Result<Option<Timestamp>, StoreError> {
        let Some(session) = self.connection.server() else { return Ok(None) };
        let sql = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";
        let ticks: i64 = session.first(sql).map_err(step("ask for the time"))?.get(0);
        Ok(Some(Timestamp::saturating_from_ticks(ticks.into())))
    }

    /// Hears what other daemons find to do. What was missed is found by timers.
    #[must_use]
    pub fn listen(at: &Location, heard: impl Fn(Nudge) + Send + Sync + 'static) -> Listening {
        let Location::Server(url) = at else { return Listening { _ear: None } };
        let heard = move |word: &str| {
            for nudge in Nudge::ALL.into_iter().filter(|nudge| word == nudge.name()) {
                heard(nudge);
            }
        };
        Listening { _ear: Some(listen::Ear::open(Arc::clone(url), heard)) }
    }
}

/// What a poll brought is recorded by the daemon that polls: another one took over from a daemon that was stopped for a while.
pub(super) fn still_polls(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    match transaction.server() {
        Some(session) if !session.still_polls() => Err(StoreError::PollsNoMore),
        _ => Ok(()),
    }
}

/// Tells the other daemons when this transaction is committed.
pub(super) fn nudge(transaction: &Transaction<'_>, nudge: Nudge) -> Result<(), StoreError> {
    let tell = |session: &Session| session.notify(nudge.name());
    transaction.server().map_or(Ok(()), tell).map_err(step("tell the other daemons"))
}

/// The subscribers to decide on in this transaction: nobody else's until it ends. `None`: the event is not the next any more, or
/// all that is left of it is with others.
pub(super) fn claim_share(transaction: &Transaction<'_>, task: &DispatchTask) -> Result<Option<Share>, StoreError> {
    if transaction.server().is_none() {
        return Ok(Some(Share { from: task.from, to: SHARED_OUT }));
    }
    let wrong = step("claim a part of the subscribers");
    // Whatever makes another event the next, or this one a newer one, is not done beside this transaction.
    let next = transaction.query_row(queries::NEXT_DISPATCH, [], |row| Ok((row.get("event_key")?, row.get("changed_at")?)));
    let is_next =
        next.optional().map_err(step("find the next event to decide"))? == Some((task.event_key, task.changed_at.ticks()));
    if !is_next {
        return Ok(None);
    }
    let sql = "SELECT from_key, to_key FROM shares WHERE event_key = ?1 ORDER BY from_key LIMIT 1/*+ FOR UPDATE SKIP LOCKED*/";
    let share = transaction.query_row(sql, [task.event_key], |row| Ok(Share { from: row.get(0)?, to: row.get(1)? }));
    share.optional().map_err(wrong)
}

/// Records that a part was decided on, before `next` or all of it.
pub(super) fn close_share(
    transaction: &Transaction<'_>,
    task: &DispatchTask,
    share: Share,
    next: Option<i64>,
) -> Result<(), StoreError> {
    // What lies beyond is another part.
    let within = next.filter(|next| *next < share.to);
    let done = match (transaction.server(), within) {
        (None, _) => {
            transaction.execute("UPDATE events SET dispatch_from = ?2 WHERE event_key = ?1", params![task.event_key, next])
        }
        (Some(_), Some(next)) => {
            let sql = "UPDATE shares SET from_key = ?3 WHERE event_key = ?1 AND from_key = ?2";
            transaction.execute(sql, params![task.event_key, share.from, next])
        }
        (Some(_), None) => {
            let sql = "DELETE FROM shares WHERE event_key = ?1 AND from_key = ?2";
            transaction.execute(sql, params![task.event_key, share.from])
        }
    };
    done.map(|_| ()).map_err(step("record how far an event is decided"))
}

/// Shares the subscribers of an event out among the daemons, if that is not done yet. Alone, so that nobody decides meanwhile.
pub(super) fn share_out(connection: &Connection, task: &DispatchTask, chunk: i64) -> Result<(), StoreError> {
    if connection.server().is_none() || task.from == SHARED_OUT {
        return Ok(());
    }
    let transaction = connection.begin().map_err(step("begin sharing out an event"))?;
    let sql = "SELECT dispatch_from FROM events WHERE event_key = ?1 AND dispatch_from < ?2";
    let from = transaction.query_row(sql, params![task.event_key, SHARED_OUT], |row| row.get::<_, i64>(0)).optional();
    let Some(from) = from.map_err(step("share out an event"))? else { return Ok(()) };
    let share = "INSERT INTO shares (event_key, from_key, to_key)
                 SELECT ?1, key, lead(key, 1, ?4) OVER (ORDER BY key)
                 FROM (SELECT subscriber_key AS key, row_number() OVER (ORDER BY subscriber_key) AS number FROM subscribers
                       WHERE subscriber_key >= ?2 AND standing = 'active' AND removed_at IS NULL) AS all_of_them
                 WHERE number % ?3 = 1";
    let mark = "UPDATE events SET dispatch_from = ?2 WHERE event_key = ?1";
    transaction
        .execute("DELETE FROM shares WHERE event_key = ?1", [task.event_key])
        .and_then(|_| transaction.execute(share, params![task.event_key, from, chunk, SHARED_OUT]))
        .and_then(|_| transaction.execute(mark, params![task.event_key, SHARED_OUT]))
        .map_err(step("share out an event"))?;
    nudge(&transaction, Nudge::Dispatch)?;
    transaction.commit().map_err(step("commit how an event is shared out"))
}

/// Whether an event that was shared out has no part left, as far as that is committed: of several who end at once the last sees it.
pub(super) fn is_decided(connection: &Connection, task: &DispatchTask) -> Result<bool, StoreError> {
    if connection.server().is_none() {
        return Ok(false);
    }
    let any =
        connection.prepare_cached("SELECT 1 FROM shares WHERE event_key = ?1").and_then(|mut find| find.exists([task.event_key]));
    any.map(|any| !any).map_err(step("look for parts that are left"))
}

/// Closes an event of which no part is left. Alone, so that what others have of it is decided by then, or not at all.
pub(super) fn close_event(connection: &Connection, task: &DispatchTask) -> Result<(), StoreError> {
    let transaction = connection.begin().map_err(step("begin closing an event"))?;
    let sql = "UPDATE events SET dispatch_from = NULL
               WHERE event_key = ?1 AND dispatch_from = ?2 AND NOT EXISTS (SELECT 1 FROM shares WHERE event_key = ?1)";
    transaction.execute(sql, params![task.event_key, SHARED_OUT]).map_err(step("close an event"))?;
    transaction.commit().map_err(step("commit a closed event"))
}
