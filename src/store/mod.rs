//! The store: everything SQL. It speaks in domain terms (record these events, decide this chunk, claim these deliveries);
//! each call that writes is one transaction.

mod backup;
mod changes;
mod confirmations;
mod decisions;
mod deliveries;
mod events;
mod feed_state;
mod lanes;
mod ledger;
mod lock;
mod messages;
mod note;
mod notices;
mod outbox;
mod overview;
mod prune;
mod queries;
mod report;
mod rows;
mod status;
mod subscribers;
mod unlinked;
mod unsubscribe;
mod updates;
mod upgrade;
mod withdrawals;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, InterruptHandle, OpenFlags};

use crate::time::Timestamp;

pub use backup::{BackupPart, FromBackup};
pub use changes::Judging;
pub use decisions::{Candidate, Chunk, DispatchTask, Waking};
pub use deliveries::{Ahead, Claim, Claimed, Place, Room, Settlement};
pub use events::Ingested;
pub use lanes::lanes;
pub use ledger::{HistoryRow, LedgerRow, SubscriberCounts, UpdateRow};
pub use lock::DaemonLock;
pub use note::{DaemonNote, Reload, Turns, Watched};
pub use notices::{ClaimedNotice, NoticeCounts, NoticeRow};
pub use outbox::{DeliveryStatus, MessageRow, OutboxRow, Retried};
pub use overview::{MessageMoment, Quake};
pub use prune::{PruneCursor, Pruned};
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

/// What a connection keeps of the database in memory at most: more than a transaction changes.
const CACHE_KIB: i64 = 32 * 1_024;
/// How long the log becomes before it is moved into the database, so that a page that changes again and again is moved once:
/// 32 MiB.
const CHECKPOINT_PAGES: i64 = 8_192;

/// The migrations in order; `user_version` counts those applied.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/0001_first.sql"),
    include_str!("../../migrations/0002_quiet_hours.sql"),
    include_str!("../../migrations/0003_news.sql"),
    include_str!("../../migrations/0004_feed.sql"),
    include_str!("../../migrations/0005_outbox.sql"),
    include_str!("../../migrations/0006_unsubscribe.sql"),
    include_str!("../../migrations/0007_notices.sql"),
    include_str!("../../migrations/0008_retention.sql"),
    include_str!("../../migrations/0009_fan_out.sql"),
    include_str!("../../migrations/0010_recoveries.sql"),
];

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
    #[error("the database {path} is not brought to the current schema, because it cannot be copied to {copy} before")]
    CopyBefore { path: PathBuf, copy: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
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
    /// Opens the database, creates it if there is none, and brings its schema up to date; what it was before is copied
    /// beside it first.
    ///
    /// # Errors
    /// [`StoreError::Newer`] if a newer throttler wrote it, [`StoreError::Foreign`] if another program;
    /// [`StoreError::CopyBefore`] if there is no room for the copy; [`StoreError::Open`] or [`StoreError::Migrate`]
    /// otherwise. The data are as they were then.
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
        let version = upgrade::schema_version(&connection, path)?;
        configure(&connection).map_err(wrap)?;
        if version < MIGRATIONS.len() {
            upgrade::migrate(&mut connection, path)?;
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

    /// Opens an existing database to read from beside the daemon's own connection: what would write fails.
    ///
    /// # Errors
    /// As [`Store::open_existing`].
    pub fn open_reader(path: &Path) -> Result<Store, StoreError> {
        let store = Store::open_existing(path)?;
        let only_read = store.connection.pragma_update(None, "query_only", true);
        only_read.map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
        Ok(store)
    }

    /// What breaks off a statement of this connection from another thread.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(Arc::new(self.connection.get_interrupt_handle()))
    }
}

/// Breaks off what a connection is doing.
#[derive(Clone)]
pub struct Interrupt(Arc<InterruptHandle>);

impl Interrupt {
    /// The statement that runs now ends with an error; without one nothing happens.
    pub fn now(&self) {
        self.0.interrupt();
    }
}

/// Durable at every commit: with a write-ahead log, `FULL` syncs the log before a commit answers.
fn configure(connection: &Connection) -> rusqlite::Result<()> {
    use_write_ahead_log(connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
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

/// Names the step in which SQL failed.
fn step(step: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
    move |source| StoreError::Sql { step, source }
}
