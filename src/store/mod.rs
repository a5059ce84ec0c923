//! The store: everything SQL. It speaks in domain terms (record these events, decide this chunk, claim these deliveries);
//! each call that writes is one transaction.

mod backup;
mod changes;
mod confirmations;
mod decisions;
mod deliveries;
mod events;
mod feed_state;
mod ledger;
mod lock;
mod note;
mod notices;
mod outbox;
mod queries;
mod report;
mod rows;
mod status;
mod subscribers;
mod unlinked;
mod unsubscribe;
mod updates;
mod withdrawals;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::time::Timestamp;

pub use backup::{BackupPart, FromBackup};
pub use changes::Judging;
pub use decisions::{Candidate, Chunk, DispatchTask, Waking};
pub use deliveries::{Claim, Claimed, Settlement};
pub use events::Ingested;
pub use ledger::{HistoryRow, LedgerRow, SubscriberCounts, UpdateRow};
pub use lock::DaemonLock;
pub use note::{DaemonNote, Reload, Turns};
pub use notices::{ClaimedNotice, NoticeCounts, NoticeRow};
pub use outbox::{DeliveryStatus, OutboxRow, Retried};
pub use report::SubscriberReport;
pub use status::{Backlog, StoreStatus};
pub use subscribers::{StoredSubscriber, SubscriberKey};
pub use unsubscribe::{Unsubscribing, Visitor};
pub use updates::{Listener, UpdateChunk, UpdateTask, WaitingUpdate};

/// How long a statement waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How often, and how far apart, the write-ahead log is asked for: as long as [`BUSY_TIMEOUT`] together.
const LOG_ATTEMPTS: u32 = 1_000;
const LOG_PAUSE: Duration = Duration::from_millis(10);

/// The migrations in order; `user_version` counts those applied.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_first.sql"),
    include_str!("../../migrations/0002_quiet_hours.sql"),
    include_str!("../../migrations/0003_news.sql"),
    include_str!("../../migrations/0004_feed.sql"),
    include_str!("../../migrations/0005_outbox.sql"),
    include_str!("../../migrations/0006_unsubscribe.sql"),
    include_str!("../../migrations/0007_notices.sql"),
];

/// The `application_id` that the first migration writes into the file.
const APPLICATION_ID: i64 = 0x7468_726F;

/// One connection to the database.
pub struct Store {
    connection: Connection,
    installation: String,
}

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot open the database {path}")]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error(
        "the database {path} has schema version {found}, but this program knows only up to {known}: it was written by a newer throttler"
    )]
    Newer { path: PathBuf, found: i64, known: usize },
    #[error("{path} is another program's database: expected one that throttler made, or no file")]
    Foreign { path: PathBuf },
    #[error("cannot bring the database {path} to the current schema")]
    Migrate { path: PathBuf, source: rusqlite::Error },
    #[error("cannot {step}")]
    Sql { step: &'static str, source: rusqlite::Error },
    #[error("the copy {path} is not sound: {fault}")]
    Copy { path: PathBuf, fault: String },
    #[error("cannot read {what} in the database: {fault}")]
    Row { what: String, fault: String },
    #[error("another throttler daemon (process {pid}) already runs on this database: {lock}")]
    Locked { lock: PathBuf, pid: String },
    #[error("cannot lock {lock}")]
    Lock { lock: PathBuf, source: std::io::Error },
    #[error("cannot {step} {path}, in which the daemon tells of itself")]
    Note { step: &'static str, path: PathBuf, source: std::io::Error },
    #[error("there is no subscriber '{0}'; `throttler subscriber list` shows them")]
    NoSubscriber(String),
    #[error("there is no delivery '{0}'; `throttler outbox list --status all` shows them")]
    NoDelivery(String),
    #[error("delivery '{id}' is {found}: expected {expected}")]
    WrongStatus { id: String, found: String, expected: &'static str },
    #[error(
        "'{name}' unsubscribed by the link in a message at {at}: nothing is sent to it; `throttler subscriber resume {name} \
         --despite-unsubscribe` undoes it, if its recipient asked for that"
    )]
    Unsubscribed { name: String, at: Timestamp },
    #[error("there is already a subscriber '{0}'; `throttler subscriber set` changes it")]
    SubscriberExists(String),
}

impl Store {
    /// Opens the database, creates it if there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Newer`] if a newer throttler wrote it, [`StoreError::Foreign`] if another program; [`StoreError::Open`] or [`StoreError::Migrate`] otherwise. The
    /// data are as they were then.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let wrap = |source| StoreError::Open { path: path.to_owned(), source };
        Store::over(Connection::open(path).map_err(wrap)?, path)
    }

    /// A fresh database in memory, gone when it is dropped: for a course of events of which only the result is wanted.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn in_memory() -> Result<Store, StoreError> {
        let path = Path::new(":memory:");
        let connection = Connection::open_in_memory();
        Store::over(connection.map_err(|source| StoreError::Open { path: path.to_owned(), source })?, path)
    }

    fn over(mut connection: Connection, path: &Path) -> Result<Store, StoreError> {
        let wrap = |source| StoreError::Open { path: path.to_owned(), source };
        connection.busy_timeout(BUSY_TIMEOUT).map_err(wrap)?;
        // Looks before it writes: what is not ours stays as it is.
        let version = schema_version(&connection, path)?;
        configure(&connection).map_err(wrap)?;
        if version < MIGRATIONS.len() {
            migrate(&mut connection, path)?;
        }
        let installation = events::installation_key(&connection)?;
        Ok(Store { connection, installation })
    }

    /// Opens an existing database for a command that must not create one.
    ///
    /// # Errors
    /// As [`Store::open`], and [`StoreError::Open`] where there is no file.
    pub fn open_existing(path: &Path) -> Result<Store, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_with_flags(path, flags).map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
        Store::open(path)
    }
}

/// Durable at every commit: with a write-ahead log, `FULL` syncs the log before a commit answers.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    use_write_ahead_log(connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Unlike other statements, this one does not wait for a process that does the same at this moment: the answer is busy at
/// once, so that two who wait for each other do not wait for ever.
fn use_write_ahead_log(connection: &Connection) -> rusqlite::Result<()> {
    let mut attempts = 1;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(fault) if fault.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && attempts < LOG_ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(LOG_PAUSE);
            }
            done => return done,
        }
    }
}

/// How many migrations were applied; none to a new file.
fn schema_version(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let wrap = |source| StoreError::Open { path: path.to_owned(), source };
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(wrap);
    if number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(0);
    }
    if number("PRAGMA application_id")? != APPLICATION_ID {
        return Err(StoreError::Foreign { path: path.to_owned() });
    }
    let found = number("PRAGMA user_version")?;
    let known = usize::try_from(found).ok().filter(|found| *found <= MIGRATIONS.len());
    known.ok_or(StoreError::Newer { path: path.to_owned(), found, known: MIGRATIONS.len() })
}

/// Applies the migrations that are missing, in one transaction.
fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let wrap = |source| StoreError::Migrate { path: path.to_owned(), source };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrap)?;
    // Asked again under the lock: another process may have been quicker.
    let applied = schema_version(&transaction, path)?;
    for migration in &MIGRATIONS[applied..] {
        transaction.execute_batch(migration).map_err(wrap)?;
    }
    let version = format!("PRAGMA user_version = {}", MIGRATIONS.len());
    transaction.execute_batch(&version).and_then(|()| transaction.commit()).map_err(wrap)
}

/// Names the step in which SQL failed.
fn step(step: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
    move |source| StoreError::Sql { step, source }
}
