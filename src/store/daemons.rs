//! What the daemons on one server tell of themselves, each in a row, so that whoever asks on one machine learns of all. Of a database
//! in a file only one daemon knows, whose note lies beside it.

use std::path::{Path, PathBuf};

use super::rows::{At, Json};
use super::sql::{Session, params};
use super::{DaemonNote, Store, StoreError, step};
use crate::time::Span;

/// How long one that was not heard of since is remembered.
const REMEMBERED: Span = Span::from_seconds(7 * 86_400);
/// What is told of in an answer at most, the last heard of first.
const MOST: i64 = 1_000;

/// One of the daemons on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colleague {
    /// Its machine's name for itself.
    pub host: String,
    /// Where it has its files, as the beginning of their names.
    pub files: PathBuf,
    pub note: DaemonNote,
    /// Whether it is the one that polls, by the lock that its session holds.
    pub polls: bool,
}

impl Store {
    /// Puts what a daemon tells of itself in place of what it told before; nothing where the database is in a file.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the server does not take it.
    pub fn note_for_others(&self, host: &str, files: &Path, note: &DaemonNote) -> Result<(), StoreError> {
        if self.connection.server().is_none() {
            return Ok(());
        }
        let wrong = || step("tell the others of this daemon");
        let tell = "INSERT INTO daemons (host, files, session, noted_at, note) VALUES (?1, ?2, pg_backend_pid(), ?3, ?4)
                    ON CONFLICT (host, files) DO UPDATE
                    SET session = excluded.session, noted_at = excluded.noted_at, note = excluded.note";
        let files = files.to_string_lossy();
        self.connection.execute(tell, params![host, files, At(note.noted_at), Json(note)]).map_err(wrong())?;
        let forget = "DELETE FROM daemons WHERE noted_at < ?1";
        self.connection.execute(forget, [At(note.noted_at.minus(REMEMBERED))]).map(|_| ()).map_err(wrong())
    }

    /// All daemons on this server that were heard of in the last days; `None` where the database is in a file.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the server does not say, or a row holds what no daemon writes.
    pub fn colleagues(&self) -> Result<Option<Vec<Colleague>>, StoreError> {
        let Some(polls) = self.connection.server().map(Session::lock_of_polling) else { return Ok(None) };
        let wrong = || step("read which daemons there are");
        let sql = format!(
            "SELECT host, files, note,
                    EXISTS (SELECT 1 FROM pg_locks AS l WHERE l.pid = session AND {polls}) AS polls
             FROM daemons ORDER BY noted_at DESC, host, files LIMIT {MOST}"
        );
        let mut statement = self.connection.prepare_cached(&sql).map_err(wrong())?;
        let read = statement.query_map([], |row| {
            let (files, Json(note)): (String, _) = (row.get("files")?, row.get("note")?);
            Ok(Colleague { host: row.get("host")?, files: files.into(), note, polls: row.get("polls")? })
        });
        read.and_then(Iterator::collect).map(Some).map_err(wrong())
    }
}
