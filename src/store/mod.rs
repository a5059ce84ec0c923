//! The store: everything SQL. It speaks in domain terms (record these events, decide this chunk, claim these deliveries);
//! each call that writes is one transaction.

mod backup;
mod changes;
mod confirmations;
mod copy;
mod daemons;
mod decisions;
mod deliveries;
mod events;
mod feed_state;
mod lanes;
mod leases;
mod ledger;
mod location;
mod lock;
mod messages;
mod note;
mod notices;
mod outbox;
mod overview;
mod prune;
mod queries;
mod releases;
mod report;
mod rows;
mod server;
mod shared;
mod sql;
mod status;
mod subscribers;
mod telling;
mod unlinked;
mod unsubscribe;
mod updates;
mod upgrade;
mod withdrawals;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{ErrorCode, InterruptHandle, OpenFlags};

use self::sql::Connection;
use crate::time::Timestamp;

pub use backup::{BackupPart, FromBackup};
pub use changes::Judging;
pub use copy::Copied;
pub use daemons::Colleague;
pub use decisions::{Candidate, Chunk, DispatchTask};
pub use deliveries::{Ahead, Claimed, Claims, Place, Room};
pub use events::Ingested;
pub use lanes::lanes;
pub use leases::{Claim, Settlement};
pub use ledger::{HistoryRow, LedgerRow, SubscriberCounts, UpdateRow};
pub use location::Location;
pub use lock::DaemonLock;
pub use note::{DaemonNote, Reload, Turns, Watched};
pub use notices::{ClaimedNotice, NoticeCounts, NoticeRow};
pub use outbox::{DeliveryStatus, MessageRow, OutboxRow, Retried};
pub use overview::{MessageMoment, Quake};
pub use prune::{PruneCursor, Pruned};
pub use report::SubscriberReport;
pub use server::{ServerUrl, ServerUrlError};
pub use shared::{Listening, Nudge};
pub use sql::Error as SqlError;
pub use status::{Backlog, StoreStatus};
pub use subscribers::{StoredSubscriber, SubscriberKey};
pub use unsubscribe::{Unsubscribing, Visitor};
pub use updates::{Listener, UpdateChunk, UpdateTask};

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
    include_str!("../../migrations/sqlite/0001_first.sql"),
    include_str!("../../migrations/sqlite/0002_quiet_hours.sql"),
    include_str!("../../migrations/sqlite/0003_news.sql"),
    include_str!("../../migrations/sqlite/0004_feed.sql"),
    include_str!("../../migrations/sqlite/0005_outbox.sql"),
    include_str!("../../migrations/sqlite/0006_unsubscribe.sql"),
    include_str!("../../migrations/sqlite/0007_notices.sql"),
    include_str!("../../migrations/sqlite/0008_retention.sql"),
    include_str!("../../migrations/sqlite/0009_fan_out.sql"),
    include_str!("../../migrations/sqlite/0010_recoveries.sql"),
];
/// Those of a server, counted in its table `throttler_schema`.
const SERVER_MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/postgres/0001_first.sql"),
    include_str!("../../migrations/postgres/0002_recoveries.sql"),
    include_str!("../../migrations/postgres/0003_daemons.sql"),
];
/// The oldest `PostgreSQL` that has all that is asked of it.
const LEAST_SERVER: i32 = 14;

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
    #[error("cannot reach the database {url}")]
    Reach { url: String, source: SqlError },
    #[error("the server of {url} is PostgreSQL {found}: expected {LEAST_SERVER} or a newer one")]
    OldServer { url: String, found: String },
    #[error("{url} has no database of throttler's yet; `throttler run` or `throttler subscriber add` makes one")]
    NotThere { url: String },
    #[error(
        "the database {at} has schema version {found}, but this program knows only up to {known}: it was written by a newer throttler"
    )]
    Newer { at: Location, found: i64, known: usize },
    #[error("{at} is another program's database: expected one that throttler made, or no file")]
    Foreign { at: Location },
    #[error("cannot bring the database {path} to the current schema")]
    Migrate { path: PathBuf, source: rusqlite::Error },
    #[error("cannot bring the database {url} to the current schema")]
    MigrateServer { url: String, source: SqlError },
    #[error("the database {path} is not brought to the current schema, because it cannot be copied to {copy} before")]
    CopyBefore { path: PathBuf, copy: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("a daemon runs on {at}: expected none while it is copied")]
    InUse { at: Location },
    #[error("{at} holds something already, in its table {table}: expected an empty database to copy into")]
    NotEmpty { at: Location, table: &'static str },
    #[error("the copy of the table {table} is not what was read ({written} rows of {read}), so nothing is copied")]
    Copied { table: &'static str, read: u64, written: u64 },
    #[error("another daemon polls now: this one was stopped or cut off for a while, and what it brought is not recorded")]
    PollsNoMore,
    #[error("cannot {step}")]
    Sql { step: &'static str, source: SqlError },
    #[error(
        "a database on a server is backed up by the server's means, like pg_dump; `throttler database copy` makes a file of it"
    )]
    OnServer,
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
    pub fn open(at: impl Into<Location>) -> Result<Store, StoreError> {
        match at.into() {
            Location::File(path) => {
                let wrap = |source| StoreError::Open { path: path.clone(), source };
                Store::over(rusqlite::Connection::open(&path).map_err(wrap)?, &path)
            }
            Location::Server(url) => Store::on(Connection::Postgres(Box::new(upgrade::open_server(&url)?))),
        }
    }

    /// A fresh database in memory, gone when it is dropped: for a course of events of which only the result is wanted.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn in_memory() -> Result<Store, StoreError> {
        let path = Path::new(":memory:");
        let connection = rusqlite::Connection::open_in_memory();
        Store::over(connection.map_err(|source| StoreError::Open { path: path.to_owned(), source })?, path)
    }

    fn over(mut connection: rusqlite::Connection, path: &Path) -> Result<Store, StoreError> {
        let wrap = |source| StoreError::Open { path: path.to_owned(), source };
        connection.busy_timeout(BUSY_TIMEOUT).map_err(wrap)?;
        // Looks before it writes: what is not ours stays as it is.
        let version = upgrade::schema_version(&connection, path)?;
        configure(&connection).map_err(wrap)?;
        if version < MIGRATIONS.len() {
            upgrade::migrate(&mut connection, path)?;
        }
        Store::on(Connection::Sqlite(connection))
    }

    fn on(connection: Connection) -> Result<Store, StoreError> {
        let installation = events::installation_key(&connection)?;
        Ok(Store { connection, installation })
    }

    /// Opens an existing database for a command that must not create one.
    ///
    /// # Errors
    /// As [`Store::open`], and [`StoreError::Open`] where there is no file.
    pub fn open_existing(at: impl Into<Location>) -> Result<Store, StoreError> {
        let at = at.into();
        match &at {
            Location::File(path) => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                rusqlite::Connection::open_with_flags(path, flags)
                    .map_err(|source| StoreError::Open { path: path.clone(), source })?;
            }
            Location::Server(url) => upgrade::is_there(url)?,
        }
        Store::open(at)
    }

    /// Opens an existing database to read from beside the daemon's own connection: what would write fails.
    ///
    /// # Errors
    /// As [`Store::open_existing`].
    pub fn open_reader(at: impl Into<Location>) -> Result<Store, StoreError> {
        let store = Store::open_existing(at)?;
        let only_read = match &store.connection {
            Connection::Sqlite(connection) => connection.pragma_update(None, "query_only", true).map_err(SqlError::from),
            Connection::Postgres(session) => session.only_read().map_err(SqlError::from),
        };
        only_read.map_err(step("open the database to read"))?;
        store.bound_statements()?;
        Ok(store)
    }

    /// From now on a server that takes long for a statement breaks it off, and one that does not answer at all is given up, so that
    /// nobody waits for ever: for a process that has more to do than this one thing. Until then whatever takes long is waited for
    /// as long as the server lives.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the server does not take it.
    pub fn bound_statements(&self) -> Result<(), StoreError> {
        self.connection.server().map_or(Ok(()), sql::Session::bound).map_err(step("bound how long statements take"))
    }

    /// Whether the database can be used as it is, without changing anything; a file is not looked into.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn check(at: &Location) -> Result<(), StoreError> {
        match at {
            // To look into one would leave files beside it that are whoever's looks.
            Location::File(_) => Ok(()),
            Location::Server(url) => upgrade::look_at_server(url).map(|_| ()),
        }
    }

    /// How much the database takes, in bytes; `None` if that cannot be told.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if a server does not say.
    pub fn bytes(&self) -> Result<Option<u64>, StoreError> {
        match &self.connection {
            Connection::Sqlite(connection) => {
                Ok(connection.path().and_then(|path| std::fs::metadata(path).ok()).map(|about| about.len()))
            }
            Connection::Postgres(session) => {
                let sql = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::int8 FROM pg_class
                           WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'";
                let bytes = session.first(sql).map(|row| row.get::<_, i64>(0)).map_err(step("read the size of the database"))?;
                Ok(u64::try_from(bytes).ok())
            }
        }
    }

    /// The key of the links to leave by that all daemons on a server share: this one, if there was none yet.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written.
    pub fn shared_link_key(&self, own: &str) -> Result<String, StoreError> {
        if self.connection.sqlite().is_some() {
            return Ok(own.to_owned());
        }
        let sql = "UPDATE installation SET link_key = coalesce(link_key, ?1) RETURNING link_key";
        self.connection.query_row(sql, [own], |row| row.get(0)).map_err(step("share the key of links"))
    }

    /// What breaks off a statement of this connection from another thread.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt(match &self.connection {
            Connection::Sqlite(connection) => Means::Handle(Arc::new(connection.get_interrupt_handle())),
            Connection::Postgres(session) => Means::Request(session.canceller()),
        })
    }
}

/// Breaks off what a connection is doing.
#[derive(Clone)]
pub struct Interrupt(Means);

#[derive(Clone)]
enum Means {
    Handle(Arc<InterruptHandle>),
    Request(sql::Cancel),
}

impl Interrupt {
    /// The statement that runs now ends with an error; without one nothing happens.
    pub fn now(&self) {
        match &self.0 {
            Means::Handle(handle) => handle.interrupt(),
            Means::Request(cancel) => cancel.now(),
        }
    }
}

/// Durable at every commit: with a write-ahead log, `FULL` syncs the log before a commit answers.
fn configure(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
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
fn use_write_ahead_log(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
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
fn step<E: Into<SqlError>>(step: &'static str) -> impl FnOnce(E) -> StoreError {
    move |source| StoreError::Sql { step, source: source.into() }
}
