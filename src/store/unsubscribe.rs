//! Recipients who leave by the link in a message: at once, for good until somebody resumes them by hand, and with nothing left
//! in the outbox. What is on its way to the destination at that moment cannot be called back, and is recorded as it ends.

use rusqlite::{OptionalExtension, ToSql, Transaction, TransactionBehavior, params};

use super::rows::{At, Word, optional_at};
use super::subscribers::SubscriberKey;
use super::{Store, StoreError, step};
use crate::subscriber::{Enrolment, Standing};
use crate::time::Timestamp;

/// What the outbox says of messages that were waiting for somebody who left.
const DROPPED: &str = "its recipient unsubscribed";

/// Whoever follows a link, as far as the page tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    pub name: String,
    /// When it left; `None` while it has not.
    pub unsubscribed_at: Option<Timestamp>,
}

/// What unsubscribing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribing {
    pub name: String,
    /// When it first left: a second time changes nothing.
    pub at: Timestamp,
    /// Whether it was this time.
    pub now: bool,
    /// Messages that were waiting for it and are not sent.
    pub dropped: usize,
}

impl Store {
    /// Which subscriber has this number, removed ones aside.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn enrolment(&self, number: i64) -> Result<Option<Enrolment>, StoreError> {
        let sql = "SELECT created_at FROM subscribers WHERE subscriber_key = ?1 AND removed_at IS NULL";
        let found = self.connection.query_row(sql, [number], |row| Ok(row.get::<_, At>(0)?.0)).optional();
        Ok(found.map_err(step("look for a subscriber"))?.map(|at| Enrolment { number, at }))
    }

    /// What the page of this subscriber says; `None` if it was removed.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn visitor(&self, who: Enrolment) -> Result<Option<Visitor>, StoreError> {
        let sql = "SELECT name, unsubscribed_at FROM subscribers
                   WHERE subscriber_key = ?1 AND created_at = ?2 AND removed_at IS NULL";
        let found = self.connection.query_row(sql, params![who.number, At(who.at)], |row| {
            Ok(Visitor { name: row.get("name")?, unsubscribed_at: optional_at(row, "unsubscribed_at")? })
        });
        found.optional().map_err(step("read who unsubscribes"))
    }

    /// Disables a subscriber at its recipient's wish, and drops what waits for it; `None` if it was removed. Doing it again
    /// changes nothing.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written; nothing is changed then.
    pub fn unsubscribe(&mut self, who: Enrolment, now: Timestamp) -> Result<Option<Unsubscribing>, StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin unsubscribing"))?;
        let sql = "UPDATE subscribers SET standing = ?4, standing_reason = ?5, unsubscribed_at = ?3
                   WHERE subscriber_key = ?1 AND created_at = ?2 AND removed_at IS NULL AND unsubscribed_at IS NULL";
        let reason = format!("unsubscribed by its recipient at {now}");
        let parameters = params![who.number, At(who.at), At(now), Word(Standing::Disabled), reason];
        let left = transaction.execute(sql, parameters).map_err(step("unsubscribe"))? > 0;
        let dropped = drop_of_the_gone(&transaction, Waiting::Of(SubscriberKey(who.number)), now)?;
        transaction.commit().map_err(step("commit unsubscribing"))?;
        let visitor = self.visitor(who)?;
        Ok(visitor.map(|Visitor { name, unsubscribed_at }| Unsubscribing {
            name,
            at: unsubscribed_at.unwrap_or(now),
            now: left,
            dropped,
        }))
    }

    /// Whether the recipient of a message left after it was claimed.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn is_unsubscribed(&self, who: Enrolment) -> Result<bool, StoreError> {
        Ok(self.visitor(who)?.is_none_or(|visitor| visitor.unsubscribed_at.is_some()))
    }

    /// Since when the first of those messages has been due that nothing but this daemon holds up: `None` if there is none.
    /// What waits for a webhook's host that fails is the host's affair; the mail server is everybody's, so what waits for it
    /// counts. Paused and disabled subscribers' messages wait for them.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn overdue_since(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT min(due_at) AS due_at FROM (
                       SELECT min(o.due_at) AS due_at FROM outbox AS o JOIN subscribers AS s USING (subscriber_key)
                       WHERE o.status = 'due' AND s.standing = 'active'
                       GROUP BY o.channel HAVING o.channel = 'email' OR o.channel LIKE 'email #%' OR max(o.attempts) = 0)
                   WHERE due_at <= ?1";
        let found = self.connection.query_row(sql, [At(now)], |row| optional_at(row, "due_at"));
        found.map_err(step("look for what is overdue"))
    }
}

/// Whose messages are dropped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting<'a> {
    /// What is under a lease that runs out by then, of anybody who left.
    Leased { until: Timestamp },
    /// What this owner leased, of anybody who left.
    LeasedBy(&'a str),
    /// What waits for one subscriber, if it left.
    Of(SubscriberKey),
    /// One message that waits, if its recipient left.
    One(i64),
}

/// Drops what waits for those who left: how much.
pub(super) fn drop_of_the_gone(transaction: &Transaction<'_>, waiting: Waiting<'_>, now: Timestamp) -> Result<usize, StoreError> {
    let (which, parameter): (_, &dyn ToSql) = match &waiting {
        Waiting::Leased { until } => ("status = 'leased' AND lease_until <= ?3", &At(*until)),
        Waiting::LeasedBy(owner) => ("status = 'leased' AND lease_owner = ?3", owner),
        Waiting::Of(SubscriberKey(key)) => {
            ("status = 'due' AND event_key IN (SELECT event_key FROM events) AND subscriber_key = ?3", key)
        }
        Waiting::One(key) => ("status = 'due' AND delivery_key = ?3", key),
    };
    let sql = format!(
        "UPDATE outbox SET status = 'dropped', settled_at = ?1, detail = ?2, lease_owner = NULL, lease_until = NULL
         WHERE {which} AND (SELECT unsubscribed_at IS NOT NULL FROM subscribers AS s WHERE s.subscriber_key = outbox.subscriber_key)"
    );
    let dropped =
        transaction.prepare_cached(&sql).and_then(|mut statement| statement.execute(params![At(now), DROPPED, parameter]));
    dropped.map_err(step("drop what waits for those who left"))
}
