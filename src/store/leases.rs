//! Leases: a message that is leased is its owner's to attempt, until what became of the attempt is settled, the owner gives it back, or
//! the lease ends. The same for alerts and notices.

use super::rows::At;
use super::sql::{Transaction, named_params, params};
use super::unsubscribe::{Waiting, drop_of_the_gone};
use super::{Store, StoreError, step};
use crate::time::{Span, Timestamp};

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Accepted by the destination; `detail` is what it said.
    Delivered { detail: String },
    /// Not now: due again at `at`. Its age counts from `age_from`, if that is given: it had waited for a limit until then.
    Retry { at: Timestamp, reason: String, age_from: Option<Timestamp> },
    /// Not at all: a dead letter. With `disable` the subscriber gets nothing more until somebody looks.
    Dead { reason: String, disable: bool },
    /// There was no attempt: due as before.
    GivenBack,
}

/// Who claims, how much, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub owner: &'a str,
    /// The most deliveries in all.
    pub most: usize,
    pub lease: Span,
    pub now: Timestamp,
}

impl Claim<'_> {
    /// When the lease ends.
    pub(super) fn until(&self) -> Timestamp {
        self.now.plus(self.lease)
    }
}

impl Store {
    /// Makes deliveries due again that an earlier process leased and did not settle: only one daemon runs on a database in a file,
    /// so at its start no lease is anybody's. On a server they run out. How many there were.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn recover_leases(&mut self, now: Timestamp) -> Result<usize, StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin recovering leases"))?;
        if transaction.server().is_some() {
            return Ok(0);
        }
        let recover = |letters: Letters| {
            let table = letters.table();
            let sql =
                format!("UPDATE {table} SET status = 'due', lease_owner = NULL, lease_until = NULL WHERE status = 'leased'");
            transaction.execute(&sql, []).map_err(step("recover leases"))
        };
        drop_of_the_gone(&transaction, Waiting::Leased { until: Timestamp::MAX }, now)?;
        let recovered = recover(Letters::Outbox)?;
        let notices = recover(Letters::Notices)?;
        transaction.commit().map_err(step("commit the recovered leases"))?;
        Ok(recovered + notices)
    }

    /// Makes what this owner leased and did not settle due again, as it was: how many, and what it says of them.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written; the leases then run out, or the next start recovers them.
    pub fn hand_back(&mut self, owner: &str, reason: &str, now: Timestamp) -> Result<usize, StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin handing deliveries back"))?;
        let dropped = drop_of_the_gone(&transaction, Waiting::LeasedBy(owner), now)?;
        let mut handed_back = dropped;
        for table in ["outbox", "notices"] {
            let sql = format!(
                "UPDATE {table} SET status = 'due', lease_owner = NULL, lease_until = NULL, detail = ?2
                 WHERE status = 'leased' AND lease_owner = ?1"
            );
            handed_back += transaction.execute(&sql, [owner, reason]).map_err(step("hand deliveries back"))?;
        }
        transaction.commit().map_err(step("commit the deliveries that were handed back"))?;
        Ok(handed_back)
    }
}

/// The two tables of messages, which have these columns in common.
#[derive(Clone, Copy, Debug)]
pub(super) enum Letters {
    Outbox,
    Notices,
}

impl Letters {
    pub const fn table(self) -> &'static str {
        match self {
            Letters::Outbox => "outbox",
            Letters::Notices => "notices",
        }
    }
}

/// Makes messages due again whose leases ran out: how many.
pub(super) fn take_back_leases(transaction: &Transaction<'_>, letters: Letters, now: Timestamp) -> Result<usize, StoreError> {
    let sql = format!(
        "UPDATE {table} SET status = 'due', lease_owner = NULL, lease_until = NULL WHERE status = 'leased' AND lease_until <= ?1
         /*+ AND delivery_key IN (SELECT delivery_key FROM {table} WHERE status = 'leased' AND lease_until <= ?1
                                  ORDER BY delivery_key FOR UPDATE SKIP LOCKED)*/",
        table = letters.table()
    );
    let taken_back = transaction.prepare_cached(&sql).and_then(|mut statement| statement.execute([At(now)]));
    taken_back.map_err(step("take back leases that ran out"))
}

/// Leases the message with the key `?1` to the owner `?2` until `?3`.
pub(super) fn lease_sql(letters: Letters) -> String {
    format!(
        "UPDATE {} SET status = 'leased', lease_owner = ?2, lease_until = ?3, attempts = attempts + 1 WHERE delivery_key = ?1",
        letters.table()
    )
}

pub(super) fn lease(transaction: &Transaction<'_>, letters: Letters, key: i64, claim: Claim<'_>) -> Result<(), StoreError> {
    let mut leases = transaction.batch(&lease_sql(letters)).map_err(step("lease a delivery"))?;
    leases.add(params![key, claim.owner, At(claim.until())]).map_err(step("lease a delivery"))?;
    leases.finish().map_err(step("lease a delivery"))
}

/// Records what became of one attempt: whether the lease was still this owner's.
pub(super) fn settle_one(
    transaction: &Transaction<'_>,
    letters: Letters,
    owner: &str,
    (key, settlement): &(i64, Settlement),
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (status, due_at, age_from, detail) = match settlement {
        Settlement::GivenBack => return give_back(transaction, letters, owner, *key),
        Settlement::Delivered { detail } => ("delivered", None, None, detail),
        Settlement::Retry { at, reason, age_from } => ("due", Some(*at), *age_from, reason),
        Settlement::Dead { reason, .. } => ("dead", None, None, reason),
    };
    let sql = format!(
        "UPDATE {}
         SET status = :status, due_at = coalesce(:due_at, due_at), detail = :detail, settled_at = iif(:status = 'due', NULL, :now),
             retried_at = coalesce(:age_from, retried_at), lease_owner = NULL, lease_until = NULL
         WHERE delivery_key = :key AND status = 'leased' AND lease_owner = :owner",
        letters.table()
    );
    let settled = transaction.prepare_cached(&sql).and_then(|mut statement| {
        statement.execute(named_params! {
            ":key": key, ":owner": owner, ":status": status, ":due_at": due_at.map(At), ":detail": detail, ":now": At(now),
            ":age_from": age_from.map(At),
        })
    });
    settled.map(|changed| changed == 1).map_err(step("settle a delivery"))
}

/// Makes a message due as if it had not been leased: whether the lease was still this owner's.
fn give_back(transaction: &Transaction<'_>, letters: Letters, owner: &str, key: i64) -> Result<bool, StoreError> {
    let sql = format!(
        "UPDATE {} SET status = 'due', attempts = max(attempts - 1, 0), lease_owner = NULL, lease_until = NULL
         WHERE delivery_key = ?1 AND status = 'leased' AND lease_owner = ?2",
        letters.table()
    );
    let given_back = transaction.prepare_cached(&sql).and_then(|mut statement| statement.execute(params![key, owner]));
    given_back.map(|changed| changed == 1).map_err(step("give a delivery back"))
}
