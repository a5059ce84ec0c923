//! Bringing an older database to the current schema: forward only, all in one transaction, with a copy of what it was beside it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};

use super::backup::copy;
use super::rows::At;
use super::sql::{Beside, Session};
use super::{LEAST_SERVER, MIGRATIONS, SERVER_MIGRATIONS, ServerUrl, SqlError, StoreError, step};

/// The `application_id` that the first migration writes into the file.
const APPLICATION_ID: i64 = 0x7468_726F;
/// Copies of older versions that are kept; the oldest go.
const KEPT: usize = 2;
/// What `SQLite` keeps beside a database while it is written.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// How many migrations were applied; none to a new file.
pub(super) fn schema_version(connection: &Connection, path: &Path) -> Result<usize, StoreError> {
    let wrap = |source| StoreError::Open { path: path.to_owned(), source };
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(wrap);
    if number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(0);
    }
    if number("PRAGMA application_id")? != APPLICATION_ID {
        return Err(StoreError::Foreign { at: path.into() });
    }
    let found = number("PRAGMA user_version")?;
    let known = usize::try_from(found).ok().filter(|found| *found <= MIGRATIONS.len());
    known.ok_or(StoreError::Newer { at: path.into(), found, known: MIGRATIONS.len() })
}

/// Applies the migrations that are missing, in one transaction, after a copy.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let wrap = |source| StoreError::Migrate { path: path.to_owned(), source };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(wrap)?;
    // Asked again under the lock: another process may have been quicker.
    let applied = schema_version(&transaction, path)?;
    let older = applied > 0 && applied < MIGRATIONS.len();
    if older {
        let kept = copy_before(path, applied + 1);
        keep(path, &kept).map_err(|source| StoreError::CopyBefore { path: path.to_owned(), copy: kept, source })?;
    }
    for migration in &MIGRATIONS[applied..] {
        transaction.execute_batch(migration).map_err(wrap)?;
    }
    let version = format!("PRAGMA user_version = {}", MIGRATIONS.len());
    transaction.execute_batch(&version).and_then(|()| transaction.commit()).map_err(wrap)?;
    if older {
        // One copy too many harms nobody.
        let _ = remove_oldest(path);
    }
    Ok(())
}

/// What the database was before this migration: `throttler.db.before-0007`.
fn copy_before(path: &Path, migration: usize) -> PathBuf {
    beside(path, &format!(".before-{migration:04}"))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Copies the database into a file that appears when it is whole, checked and on the disk. The caller holds the lock on
/// writing, so that another connection reads exactly what is about to change.
fn keep(path: &Path, kept: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let draft = beside(kept, ".draft");
    let made = write_draft(path, &draft).and_then(|()| Ok(fs::rename(&draft, kept)?));
    if made.is_err() {
        // What is in the way is told by the fault above.
        let _ = remove_draft(&draft);
        return made;
    }
    Ok(File::open(directory_of(path))?.sync_all()?)
}

fn write_draft(path: &Path, draft: &Path) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // An earlier start may have been cut off.
    remove_draft(draft)?;
    // It holds addresses and secrets.
    File::options().write(true).create_new(true).mode(0o600).open(draft)?;
    let source = Connection::open(path)?;
    // There is no clock here: the last poll, or the last subscriber added, is the last that the copy knows of.
    let last = "SELECT max(at) AS at FROM (SELECT max(polled_at) AS at FROM installation
                                           UNION ALL SELECT max(created_at) FROM subscribers)";
    let made_at =
        source.query_row(last, [], |row| row.get::<_, Option<At>>("at")).map_err(step("read how new the database is"))?;
    copy(&source, draft, made_at.map(|at| at.0), |_| {})?;
    Ok(File::open(draft)?.sync_all()?)
}

fn remove_draft(draft: &Path) -> io::Result<()> {
    for file in BESIDE.map(|end| beside(draft, end)).iter().map(PathBuf::as_path).chain([draft]) {
        match fs::remove_file(file) {
            Err(fault) if fault.kind() != ErrorKind::NotFound => return Err(fault),
            _ => {}
        }
    }
    Ok(())
}

/// Removes all copies but the newest.
fn remove_oldest(path: &Path) -> io::Result<()> {
    let mut prefix = path.file_name().map(OsString::from).unwrap_or_default();
    prefix.push(".before-");
    let prefix = prefix.into_encoded_bytes();
    let mut copies = Vec::new();
    for entry in fs::read_dir(directory_of(path))? {
        let name = entry?.file_name();
        let number = name.as_encoded_bytes().strip_prefix(prefix.as_slice());
        if number.is_some_and(|number| number.len() == 4 && number.iter().all(u8::is_ascii_digit)) {
            copies.push(name);
        }
    }
    copies.sort();
    copies.iter().rev().skip(KEPT).try_for_each(|name| fs::remove_file(directory_of(path).join(name)))
}

/// Opens a session with a server, and brings its schema up to date; what it was before is the server's backups' affair.
pub(super) fn open_server(url: &Arc<ServerUrl>) -> Result<Session, StoreError> {
    let session = reach(url)?;
    if server_version(&session)? < SERVER_MIGRATIONS.len() {
        let wrap = |source: SqlError| StoreError::MigrateServer { url: url.to_string(), source };
        migrate_server(&session).map_err(wrap)?;
    }
    Ok(session)
}

/// A session with a server that has a database of ours, as it is; `None` if it has none yet.
pub(super) fn look_at_server(url: &Arc<ServerUrl>) -> Result<Option<Session>, StoreError> {
    let session = reach(url)?;
    Ok((server_version(&session)? > 0).then_some(session))
}

/// Whether a server has a database of ours, without making one.
pub(super) fn is_there(url: &Arc<ServerUrl>) -> Result<(), StoreError> {
    look_at_server(url)?.map(|_| ()).ok_or_else(|| StoreError::NotThere { url: url.to_string() })
}

fn reach(url: &Arc<ServerUrl>) -> Result<Session, StoreError> {
    let wrap = |source: SqlError| StoreError::Reach { url: url.to_string(), source };
    let session = Session::open(Arc::clone(url)).map_err(|fault| wrap(fault.into()))?;
    let found = "SELECT current_setting('server_version_num')::int4 / 10000, current_setting('server_version')";
    let (number, name) =
        session.first(found).map(|row| (row.get::<_, i32>(0), row.get(1))).map_err(|fault| wrap(fault.into()))?;
    if number >= LEAST_SERVER { Ok(session) } else { Err(StoreError::OldServer { url: url.to_string(), found: name }) }
}

/// How many migrations were applied; none to an empty schema.
fn server_version(session: &Session) -> Result<usize, StoreError> {
    let at = || Arc::clone(session.url()).into();
    let first = |sql: &str| session.first(sql).map(|row| row.get::<_, i64>(0)).map_err(step("read the version of the schema"));
    if first(
        "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = 'throttler_schema'",
    )? == 0
    {
        // An event table of somebody else's would be taken for ours.
        let others =
            "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v')";
        return if first(others)? == 0 { Ok(0) } else { Err(StoreError::Foreign { at: at() }) };
    }
    let found = first("SELECT version FROM throttler_schema")?;
    let known = usize::try_from(found).ok().filter(|found| *found <= SERVER_MIGRATIONS.len());
    known.ok_or_else(|| StoreError::Newer { at: at(), found, known: SERVER_MIGRATIONS.len() })
}

/// Applies the migrations that are missing, in one transaction.
fn migrate_server(session: &Session) -> Result<(), SqlError> {
    session.begin(Beside::Nobody)?;
    // Asked again under the lock: another process may have been quicker.
    let done = || -> Result<(), SqlError> {
        let there = "SELECT to_regclass('throttler_schema') IS NOT NULL";
        let applied: i64 =
            if session.first(there)?.get(0) { session.first("SELECT version FROM throttler_schema")?.get(0) } else { 0 };
        for migration in SERVER_MIGRATIONS.iter().skip(usize::try_from(applied).unwrap_or(usize::MAX)) {
            session.batch(migration)?;
        }
        Ok(session.batch(&format!("UPDATE throttler_schema SET version = {}", SERVER_MIGRATIONS.len()))?)
    };
    match done() {
        Ok(()) => Ok(session.commit()?),
        Err(fault) => {
            session.rollback();
            Err(fault)
        }
    }
}
