//! The store: everything SQL. It speaks in domain terms (record these events, decide this chunk, claim these deliveries);
//! each call that writes is one transaction.

mod decisions;
mod deliveries;
mod events;
mod ledger;
mod lock;
mod rows;
mod subscribers;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use rusqlite_migration::{M, Migrations};

pub use decisions::{Candidate, Chunk, DispatchTask, Waking};
pub use deliveries::{Claimed, Settlement};
pub use events::Ingested;
pub use ledger::{LedgerRow, SubscriberCounts};
pub use lock::DaemonLock;
pub use subscribers::{StoredSubscriber, SubscriberKey};

/// How long a statement waits for another process's transaction.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// The migrations in order; `user_version` counts those applied.
const MIGRATIONS: &[M<'static>] = &[M::up(include_str!("../../migrations/0001_first.sql"))];

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
    #[error("cannot bring the database {path} to the current schema")]
    Migrate { path: PathBuf, source: rusqlite_migration::Error },
    #[error("cannot {step}")]
    Sql { step: &'static str, source: rusqlite::Error },
    #[error("cannot read {what} in the database: {fault}")]
    Row { what: String, fault: String },
    #[error("another throttler daemon (process {pid}) already runs on this database: {lock}")]
    Locked { lock: PathBuf, pid: String },
    #[error("cannot lock {lock}")]
    Lock { lock: PathBuf, source: std::io::Error },
    #[error("there is no subscriber '{0}'; `throttler subscriber list` shows them")]
    NoSubscriber(String),
    #[error("there is already a subscriber '{0}'; `throttler subscriber set` changes it")]
    SubscriberExists(String),
}

impl Store {
    /// Opens the database, creates it if there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Newer`] if a newer program wrote it; [`StoreError::Open`] or [`StoreError::Migrate`] otherwise. The
    /// data are as they were then.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let wrap = |source| StoreError::Open { path: path.to_owned(), source };
        let mut connection = Connection::open(path).map_err(wrap)?;
        configure(&connection).map_err(wrap)?;
        refuse_newer(&connection, path)?;
        let migrations = Migrations::from_slice(MIGRATIONS);
        migrations.to_latest(&mut connection).map_err(|source| StoreError::Migrate { path: path.to_owned(), source })?;
        let installation = events::installation_key(&mut connection)?;
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
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn refuse_newer(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
    if usize::try_from(found).is_ok_and(|found| found <= MIGRATIONS.len()) {
        Ok(())
    } else {
        Err(StoreError::Newer { path: path.to_owned(), found, known: MIGRATIONS.len() })
    }
}

/// Names the step in which SQL failed.
fn step(step: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
    move |source| StoreError::Sql { step, source }
}
