//! The outbox: claiming what is due under a lease, and settling what became of each attempt.

use rusqlite::{Row, Transaction, TransactionBehavior, named_params, params};

use super::rows::{At, Json, optional_at};
use super::{Store, StoreError, queries, step};
use crate::alert::Alert;
use crate::subscriber::{Destination, Preset, Subscriber};
use crate::time::{Span, Timestamp};

/// A delivery that this owner may attempt until the lease ends.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub delivery_key: i64,
    pub alert: Alert,
    pub destination: Destination,
    /// The form of a webhook's message.
    pub preset: Preset,
    /// Signs the webhook, where the subscriber has one.
    pub secret: Option<String>,
    /// How often it was attempted before.
    pub attempts: u32,
    pub created_at: Timestamp,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// Accepted by the destination; `detail` is what it said.
    Delivered { detail: String },
    /// Not now: due again at `at`.
    Retry { at: Timestamp, reason: String },
    /// Not at all: a dead letter. With `disable` the subscriber gets nothing more until somebody looks.
    Dead { reason: String, disable: bool },
}

impl Store {
    /// Leases up to `most` deliveries that are due or whose lease ran out, the largest magnitude first.
    ///
    /// A paused or disabled subscriber's wait until it is resumed. One that cannot be read is a dead letter at once, so that
    /// it holds up no other.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written.
    pub fn claim(&mut self, owner: &str, most: usize, lease: Span, now: Timestamp) -> Result<Vec<Claimed>, StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin claiming deliveries"))?;
        let found: Vec<(i64, rusqlite::Result<Claimed>)> = transaction
            .prepare_cached(queries::CLAIM)
            .and_then(|mut statement| {
                let most = i64::try_from(most).unwrap_or(i64::MAX);
                let rows = statement.query_map(named_params! { ":now": At(now), ":most": most }, |row| {
                    Ok((row.get("delivery_key")?, claimed_from_row(row)))
                })?;
                rows.collect()
            })
            .map_err(step("find due deliveries"))?;
        let mut claimed = Vec::with_capacity(found.len());
        for (delivery_key, claim) in found {
            match claim {
                Ok(claim) => claimed.push(claim),
                Err(fault) => bury(&transaction, delivery_key, &fault, now)?,
            }
        }
        for claim in &claimed {
            transaction
                .prepare_cached(
                    "UPDATE outbox SET status = 'leased', lease_owner = ?2, lease_until = ?3, attempts = attempts + 1
                     WHERE delivery_key = ?1",
                )
                .and_then(|mut statement| statement.execute(params![claim.delivery_key, owner, At(now.plus(lease))]))
                .map_err(step("lease a delivery"))?;
        }
        transaction.commit().map_err(step("commit the leases"))?;
        Ok(claimed)
    }

    /// Records what became of attempts, all in one transaction. One whose lease went to another owner is left to that owner.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written; the leases then run out and the attempts are repeated.
    pub fn settle(&mut self, owner: &str, settled: &[(i64, Settlement)], now: Timestamp) -> Result<(), StoreError> {
        let begin = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = begin.map_err(step("begin settling deliveries"))?;
        for (delivery_key, settlement) in settled {
            let (status, due_at, detail) = match settlement {
                Settlement::Delivered { detail } => ("delivered", None, detail),
                Settlement::Retry { at, reason } => ("due", Some(*at), reason),
                Settlement::Dead { reason, .. } => ("dead", None, reason),
            };
            let changed = transaction
                .prepare_cached(
                    "UPDATE outbox
                     SET status = :status, due_at = coalesce(:due_at, due_at), detail = :detail,
                         settled_at = iif(:status = 'due', NULL, :now),
                         lease_owner = NULL, lease_until = NULL
                     WHERE delivery_key = :key AND status = 'leased' AND lease_owner = :owner",
                )
                .and_then(|mut statement| {
                    statement.execute(named_params! {
                        ":key": delivery_key, ":owner": owner, ":status": status, ":due_at": due_at.map(At),
                        ":detail": detail, ":now": At(now),
                    })
                })
                .map_err(step("settle a delivery"))?;
            if let Settlement::Dead { reason, disable: true } = settlement
                && changed == 1
            {
                transaction
                    .execute(
                        "UPDATE subscribers SET standing = 'disabled', standing_reason = ?2
                         WHERE standing = 'active' AND subscriber_key = (SELECT subscriber_key FROM outbox WHERE delivery_key = ?1)",
                        params![delivery_key, reason],
                    )
                    .map_err(step("disable a subscriber"))?;
            }
        }
        transaction.commit().map_err(step("commit the settled deliveries"))
    }

    /// Makes deliveries due again that an earlier process leased and did not settle: only one daemon runs on a database, so
    /// at its start no lease is anybody's. How many there were.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn recover_leases(&mut self) -> Result<usize, StoreError> {
        let sql = "UPDATE outbox SET status = 'due', lease_owner = NULL, lease_until = NULL WHERE status = 'leased'";
        self.connection.execute(sql, []).map_err(step("recover leases"))
    }

    /// The next instant at which something is due or a lease runs out; `None` if nothing waits.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let next = self.connection.prepare_cached(queries::NEXT_DUE);
        next.and_then(|mut statement| statement.query_row([], |row| optional_at(row, "at")))
            .map_err(step("find what is due next"))
    }
}

/// Makes a delivery that cannot be read a dead letter.
fn bury(transaction: &Transaction<'_>, delivery_key: i64, fault: &rusqlite::Error, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE outbox SET status = 'dead', settled_at = ?2, detail = ?3, lease_owner = NULL, lease_until = NULL
               WHERE delivery_key = ?1";
    let detail = format!("it cannot be read in the database: {fault}");
    let done = transaction.execute(sql, params![delivery_key, At(now), detail]);
    done.map(|_| ()).map_err(step("set a delivery aside that cannot be read"))
}

fn claimed_from_row(row: &Row<'_>) -> rusqlite::Result<Claimed> {
    let attempts: i64 = row.get("attempts")?;
    let Subscriber { destination, preset, .. } = row.get::<_, Json<Subscriber>>("settings")?.0;
    Ok(Claimed {
        delivery_key: row.get("delivery_key")?,
        alert: row.get::<_, Json<Alert>>("alert")?.0,
        destination,
        preset,
        secret: row.get("secret")?,
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        created_at: row.get::<_, At>("created_at")?.0,
    })
}
