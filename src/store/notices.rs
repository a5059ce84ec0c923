//! Messages to the operator: made of what has changed as their limit allows, claimed, settled and listed as those to
//! subscribers are, and apart from them, so that they take no place of an alert's.

use std::collections::BTreeMap;

use super::leases::{Letters, lease, settle_one, take_back_leases};
use super::outbox::{DeliveryStatus, MessageRow, message_row};
use super::rows::{At, Json, Word, optional_at};
use super::sql::{self, Connection, OptionalExtension, Row, Transaction, named_params, params};
use super::{Claim, Settlement, Store, StoreError, queries, step};
use crate::alert::Alert;
use crate::limiter::{Limit, Limiter, Request, Verdict};
use crate::notice::{GATHER, Item, MAX_LISTED, Notice, Section, Way, What};
use crate::plan::explain_limit;
use crate::time::Timestamp;

/// Why a notice came, as it says itself.
const REASON: &str = "you are the operator, and the configuration asks for notices of this kind";
/// What the row of a message says to which no way leads any more.
const NO_WAY: &str = "the configuration names no such address of the operator's any more";

/// A message to the operator that may be attempted until the lease ends.
#[derive(Clone, Debug)]
pub struct ClaimedNotice {
    pub delivery_key: i64,
    pub way: Way,
    pub alert: Alert,
    /// How often it was attempted before.
    pub attempts: u32,
    /// From when its age counts.
    pub waits_since: Timestamp,
}

/// A message to the operator, as it is listed.
#[derive(Clone, Debug)]
pub struct NoticeRow {
    pub message: MessageRow,
    pub way: Way,
}

/// How many messages to the operator there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeCounts {
    /// Changes that no message tells of yet.
    pub untold: u64,
    pub due: u64,
    /// Under way.
    pub leased: u64,
    pub dead: u64,
}

/// Makes dead letters to the operator due: the one of this id, or all; how many.
pub(super) fn revive_notices(transaction: &Transaction<'_>, id: Option<&str>, now: Timestamp) -> Result<usize, StoreError> {
    let sql = "UPDATE notices SET status = 'due', due_at = ?2, retried_at = ?2, attempts = 0, settled_at = NULL
               WHERE status = 'dead' AND (alert_id = ?1 OR ?1 IS NULL)";
    transaction.execute(sql, params![id, At(now)]).map_err(step("put a notice back"))
}

/// How far noticing is, as far as it matters to messages.
struct Noticing {
    told_to: i64,
    limiter: Option<Vec<u8>>,
    judging: bool,
}

impl Store {
    /// Makes a message of all that has changed and is not told yet, if the limit allows one now: one for each way, under an
    /// id of its own. A minute is waited for what belongs together. `None`: there is nothing to tell now.
    ///
    /// # Errors
    /// [`StoreError::Row`] if the limiter's state cannot be read, [`StoreError::Sql`] if the database cannot be read or
    /// written; nothing is made then.
    pub fn make_notice(&mut self, ways: &[Way], limit: Limit, now: Timestamp) -> Result<Option<Notice>, StoreError> {
        let noticing = read_noticing(&self.connection)?;
        let Some(first) = first_untold(&self.connection, noticing.told_to)? else { return Ok(None) };
        // A clock that was set back is waited for no longer.
        let gathers = first <= now && now.since(first) < GATHER;
        if gathers || noticing.judging || ways.is_empty() {
            return Ok(None);
        }
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin a notice"))?;
        let mut limiter = read_limiter(noticing.limiter.as_deref(), limit, now)?;
        if limiter.admit(now, Request::ONE) != Verdict::Admitted {
            return Ok(None);
        }
        let (notice, told_to) = gather(&transaction, noticing.told_to).map_err(step("gather what has changed"))?;
        let explanation = explain_limit(&limiter, Request::ONE, limit.promise().to_string(), REASON.to_owned(), now);
        for way in ways {
            let id = format!("{}-notice-{told_to}-{way}", self.installation);
            write(&transaction, *way, &Alert::notice(id, notice.clone(), explanation.clone(), now))?;
        }
        let sql = "UPDATE noticing SET told_to = ?1, limiter = ?2";
        transaction.execute(sql, params![told_to, limiter.to_bytes()]).map_err(step("record what is told"))?;
        transaction.commit().map_err(step("commit a notice"))?;
        Ok(Some(notice))
    }

    /// Settles what became of attempts, then leases the message that has been due the longest by each of `ways`. One that
    /// cannot be read is a dead letter at once.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written; nothing is settled or claimed then.
    pub fn settle_and_claim_notices(
        &mut self,
        settled: &[(i64, Settlement)],
        claim: Claim<'_>,
        ways: &[Way],
    ) -> Result<Vec<ClaimedNotice>, StoreError> {
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin settling notices"))?;
        for one in settled {
            settle_one(&transaction, Letters::Notices, claim.owner, one, claim.now)?;
        }
        take_back_leases(&transaction, Letters::Notices, claim.now)?;
        let mut claimed = Vec::new();
        for way in ways {
            if let Some(notice) = next_due(&transaction, *way, claim.now)? {
                lease(&transaction, Letters::Notices, notice.delivery_key, claim)?;
                claimed.push(notice);
            }
        }
        transaction.commit().map_err(step("commit the settled notices and the leases"))?;
        Ok(claimed)
    }

    /// Gives up what waits by this way since before `before`: how many.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn give_up_notices(&mut self, way: Way, before: Timestamp, reason: &str, now: Timestamp) -> Result<usize, StoreError> {
        let sql = "UPDATE notices SET status = 'dead', settled_at = :now, detail = :reason
                   WHERE status = 'due' AND way = :way AND coalesce(retried_at, created_at) < :before";
        let parameters = named_params! { ":now": At(now), ":reason": reason, ":way": way.name(), ":before": At(before) };
        self.connection.execute(sql, parameters).map_err(step("give up notices that waited too long"))
    }

    /// Ends the messages that wait for ways which are not among these: how many.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn drop_notices_without(&mut self, ways: &[Way], now: Timestamp) -> Result<usize, StoreError> {
        let sql = "UPDATE notices SET status = 'dropped', settled_at = ?2, detail = ?3, lease_owner = NULL, lease_until = NULL
                   WHERE status IN ('due', 'leased') AND way = ?1";
        let mut dropped = 0;
        for way in Way::ALL.into_iter().filter(|way| !ways.contains(way)) {
            let done = self.connection.execute(sql, params![way.name(), At(now), NO_WAY]);
            dropped += done.map_err(step("drop notices to nobody"))?;
        }
        Ok(dropped)
    }

    /// Whether any message to the operator is due or under way.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn has_notices(&self) -> Result<bool, StoreError> {
        let found = self.connection.prepare_cached(queries::HAS_NOTICES).and_then(|mut find| find.exists([]));
        found.map_err(step("look for notices"))
    }

    /// The first instant after `now` at which a message to the operator becomes due or a lease runs out.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn next_notice_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let next = self.connection.prepare_cached(queries::NEXT_NOTICE);
        next.and_then(|mut statement| statement.query_row([At(now)], |row| optional_at(row, "at")))
            .map_err(step("find which notice is due next"))
    }

    /// How many messages to the operator have this status.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn count_notices(&self, status: DeliveryStatus) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM notices WHERE status = ?1";
        let count = self.connection.query_row(sql, [status.name()], |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).map_err(step("count the notices"))
    }

    /// Up to `most` messages to the operator of one status: what is due in the order in which it leaves, the rest the newest
    /// first.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn notices(&self, status: DeliveryStatus, most: usize) -> Result<Vec<NoticeRow>, StoreError> {
        let order = if status == DeliveryStatus::Due { "due_at" } else { "settled_at DESC, delivery_key DESC" };
        let sql = format!("SELECT * FROM notices WHERE status = ?1 ORDER BY {order} LIMIT ?2");
        let read = || -> sql::Result<Vec<NoticeRow>> {
            let mut statement = self.connection.prepare_cached(&sql)?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            statement.query_map(params![status.name(), most], |row| notice_row(row, status))?.collect()
        };
        read().map_err(step("read the notices"))
    }

    /// How many there are of what.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn notice_counts(&self) -> Result<NoticeCounts, StoreError> {
        let sql = "SELECT count(*) FROM changes WHERE change_key > (SELECT told_to FROM noticing)";
        let untold = self.connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(step("count what is not told"))?;
        Ok(NoticeCounts {
            untold: untold.unsigned_abs(),
            due: self.count_notices(DeliveryStatus::Due)?,
            leased: self.count_notices(DeliveryStatus::Leased)?,
            dead: self.count_notices(DeliveryStatus::Dead)?,
        })
    }
}

fn read_noticing(connection: &Connection) -> Result<Noticing, StoreError> {
    let sql = "SELECT told_to, limiter, judging_at IS NOT NULL AS judging FROM noticing";
    let read = connection.query_row(sql, [], |row| {
        Ok(Noticing { told_to: row.get("told_to")?, limiter: row.get("limiter")?, judging: row.get("judging")? })
    });
    read.map_err(step("read what is told"))
}

/// When the first change was noticed that is not told.
fn first_untold(connection: &Connection, told_to: i64) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT noticed_at FROM changes WHERE change_key > ?1 ORDER BY change_key LIMIT 1";
    let found = connection.query_row(sql, [told_to], |row| Ok(row.get::<_, At>(0)?.0)).optional();
    found.map_err(step("look for what is not told"))
}

/// The limiter of messages to the operator, under today's limit.
fn read_limiter(bytes: Option<&[u8]>, limit: Limit, now: Timestamp) -> Result<Limiter, StoreError> {
    let Some(bytes) = bytes else { return Ok(Limiter::new(limit)) };
    let what = || "the limiter of notices".to_owned();
    let limiter = Limiter::from_bytes(bytes).map_err(|fault| StoreError::Row { what: what(), fault: fault.to_string() })?;
    Ok(if limiter.limit() == limit { limiter } else { limiter.carried_over(limit, now) })
}

/// All that is not told, kind by kind, and the last change of it.
fn gather(transaction: &Transaction<'_>, told_to: i64) -> sql::Result<(Notice, i64)> {
    let mut counts = transaction.prepare_cached(
        "SELECT what, count(*) AS count, max(change_key) AS newest FROM changes WHERE change_key > ?1 GROUP BY what",
    )?;
    let mut rows = counts.query([told_to])?;
    let (mut found, mut newest) = (BTreeMap::new(), told_to);
    while let Some(row) = rows.next()? {
        found.insert(row.get::<_, Word<What>>("what")?.0, row.get::<_, i64>("count")?.unsigned_abs());
        newest = newest.max(row.get("newest")?);
    }
    let mut list = transaction.prepare_cached(
        "SELECT subscriber, since, noticed_at, detail FROM changes WHERE change_key > ?1 AND what = ?2
         ORDER BY change_key LIMIT ?3",
    )?;
    let mut sections = Vec::new();
    for (what, count) in found {
        let rows = list.query_map(params![told_to, what.name(), i64::try_from(MAX_LISTED).unwrap_or(i64::MAX)], item)?;
        sections.push(Section { what, count, listed: rows.collect::<Result<_, _>>()? });
    }
    Ok((Notice { sections, exercise: false }, newest))
}

fn item(row: &Row<'_>) -> sql::Result<Item> {
    Ok(Item {
        subscriber: row.get("subscriber")?,
        noticed_at: row.get::<_, At>("noticed_at")?.0,
        since: row.get::<_, At>("since")?.0,
        detail: row.get("detail")?,
    })
}

fn write(transaction: &Transaction<'_>, way: Way, alert: &Alert) -> Result<(), StoreError> {
    let sql = "INSERT INTO notices (way, alert_id, alert, created_at, due_at, status) VALUES (?1, ?2, ?3, ?4, ?4, 'due')";
    let done = transaction.execute(sql, params![way.name(), alert.id, Json(alert), At(alert.created_at)]);
    done.map(|_| ()).map_err(step("write a notice"))
}

/// The message that has been due the longest by this way, those that cannot be read set aside.
fn next_due(transaction: &Transaction<'_>, way: Way, now: Timestamp) -> Result<Option<ClaimedNotice>, StoreError> {
    loop {
        let found = transaction.prepare_cached(queries::DUE_NOTICE).and_then(|mut find| {
            let read = |row: &Row<'_>| Ok((row.get::<_, i64>("delivery_key")?, claimed(row, way)));
            find.query_row(params![way.name(), At(now)], read).optional()
        });
        match found.map_err(step("find a due notice"))? {
            None => return Ok(None),
            Some((_, Ok(claimed))) => return Ok(Some(claimed)),
            Some((key, Err(fault))) => {
                let sql = "UPDATE notices SET status = 'dead', settled_at = ?2, detail = ?3 WHERE delivery_key = ?1";
                let detail = format!("it cannot be read in the database: {fault}");
                transaction.execute(sql, params![key, At(now), detail]).map_err(step("set a notice aside"))?;
            }
        }
    }
}

fn claimed(row: &Row<'_>, way: Way) -> sql::Result<ClaimedNotice> {
    Ok(ClaimedNotice {
        delivery_key: row.get("delivery_key")?,
        way,
        alert: row.get::<_, Json<Alert>>("alert")?.0,
        attempts: u32::try_from(row.get::<_, i64>("attempts")?).unwrap_or(u32::MAX),
        waits_since: row.get::<_, At>("waits_since")?.0,
    })
}

fn notice_row(row: &Row<'_>, status: DeliveryStatus) -> sql::Result<NoticeRow> {
    Ok(NoticeRow {
        message: message_row(row, status, row.get::<_, Json<Alert>>("alert").map(|alert| alert.0))?,
        way: row.get::<_, Word<Way>>("way")?.0,
    })
}
