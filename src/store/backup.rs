//! Copying the database while a daemon works on it, and what a daemon must know that starts on such a copy: what was sent
//! after the copy was made is not in it.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::events::fresh_key;
use super::leases::Letters;
use super::rows::{At, optional_at};
use super::sql::{self, OptionalExtension, named_params};
use super::{Store, StoreError, step};
use crate::time::Timestamp;

/// Pages that are copied between two reports of progress: 4 MiB.
const PAGES: i32 = 1_024;

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupPart {
    pub pages: u64,
    pub of: u64,
}

/// What a daemon finds that starts on a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromBackup {
    pub made_at: Timestamp,
    /// Messages that were due when it was made: they may have been sent since.
    pub may_repeat: u64,
}

impl Store {
    /// Copies the database as it is at one moment into `file`, which is empty; others go on reading and writing meanwhile.
    /// The copy is one sound file, marked as a backup made at `now`, with nothing under way in it, and on the disk.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if it cannot be copied, [`StoreError::Copy`] if the copy is not sound, which this database is not
    /// then either.
    pub fn backup(&self, file: &Path, now: Timestamp, progress: impl FnMut(BackupPart)) -> Result<(), StoreError> {
        let Some(connection) = self.connection.sqlite() else { return Err(StoreError::OnServer) };
        copy(connection, file, Some(now), progress)
    }

    /// When this database was made as a backup, if it is one that no daemon has started on.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn backup_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT backup_at FROM installation";
        let read = self.connection.query_row(sql, [], |row| optional_at(row, "backup_at")).optional();
        Ok(read.map_err(step("read whether this is a backup"))?.flatten())
    }

    /// Makes a backup a database to work on. What is due in it is sent under the ids that it has, with a remark in its row,
    /// since it may be a repeat; what is decided from now on has ids that the time after the backup did not use.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn begin_from_backup(&mut self) -> Result<Option<FromBackup>, StoreError> {
        let Some(made_at) = self.backup_at()? else { return Ok(None) };
        let key = fresh_key()?;
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin to work on a backup"))?;
        let remark = format!("it may have been sent already: it was due in the backup of {made_at}");
        let remarked = [Letters::Outbox, Letters::Notices].into_iter().try_fold(0, |remarked, letters| {
            let sql = format!(
                "UPDATE {} SET detail = :remark || coalesce('; ' || detail, '') WHERE status IN ('due', 'leased')",
                letters.table()
            );
            Ok::<_, sql::Error>(remarked + transaction.execute(&sql, named_params! { ":remark": remark })?)
        });
        let may_repeat = remarked.map_err(step("mark what may be repeated"))? as u64;
        transaction
            .execute("UPDATE installation SET backup_at = NULL, key = ?1", [&key])
            .map_err(step("give the restored database a key of its own"))?;
        transaction.commit().map_err(step("commit the start from a backup"))?;
        self.installation = key;
        Ok(Some(FromBackup { made_at, may_repeat }))
    }
}

/// Copies the database of any version as it is at one moment into `file`, which is empty: one sound file with nothing under
/// way in it, marked as a backup made at `made_at` where its version has a place for that.
pub(super) fn copy(
    source: &Connection,
    file: &Path,
    made_at: Option<Timestamp>,
    progress: impl FnMut(BackupPart),
) -> Result<(), StoreError> {
    let mut copy = Connection::open(file).map_err(step("open the copy"))?;
    copy_pages(source, &mut copy, progress).map_err(step("copy the database"))?;
    copy.pragma_update(None, "journal_mode", "DELETE").map_err(step("make the copy one file"))?;
    mark(&copy, made_at).map_err(step("mark the copy as a backup"))?;
    let problem: String = copy.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(step("check the copy"))?;
    if problem != "ok" {
        return Err(StoreError::Copy { path: file.to_owned(), fault: problem });
    }
    copy.close().map_err(|(_, fault)| fault).map_err(step("close the copy"))
}

fn copy_pages(source: &Connection, copy: &mut Connection, mut progress: impl FnMut(BackupPart)) -> rusqlite::Result<()> {
    // A transaction that reads keeps to one moment, so that no page is copied twice however much is written meanwhile.
    let moment = source.unchecked_transaction()?;
    moment.query_row("SELECT count(*) FROM installation", [], |_| Ok(()))?;
    let backup = Backup::new(source, copy)?;
    while backup.step(PAGES)? != StepResult::Done {
        let part = backup.progress();
        let number = |pages: i32| u64::try_from(pages).unwrap_or_default();
        progress(BackupPart { pages: number(part.pagecount.saturating_sub(part.remaining)), of: number(part.pagecount) });
    }
    drop(backup);
    moment.finish()
}

fn mark(copy: &Connection, made_at: Option<Timestamp>) -> rusqlite::Result<()> {
    let there = |sql: &str| copy.query_row(sql, [], |row| row.get::<_, bool>(0));
    copy.execute("UPDATE outbox SET status = 'due', lease_owner = NULL, lease_until = NULL WHERE status = 'leased'", [])?;
    if there("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'notices')")? {
        copy.execute("UPDATE notices SET status = 'due', lease_owner = NULL, lease_until = NULL WHERE status = 'leased'", [])?;
    }
    if there("SELECT EXISTS (SELECT 1 FROM pragma_table_info('installation') WHERE name = 'backup_at')")? {
        copy.execute("UPDATE installation SET backup_at = ?1", [made_at.map(At)])?;
    }
    Ok(())
}
