//! By which lanes anything can leave: those of the subscribers that there are. Only looks, also at a database of another version.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::rows::Json;
use super::{StoreError, step};
use crate::channel::Lane;
use crate::subscriber::Subscriber;

/// The most subscribers that are looked at.
const MOST: usize = 100_000;

/// The lanes of all subscribers in the database at `path`; `None` if there are none, or more than can be looked at in a moment.
/// What cannot be read of one is left out.
///
/// # Errors
/// [`StoreError::Open`] or [`StoreError::Sql`] if the database cannot be read.
pub fn lanes(path: &Path) -> Result<Option<Vec<Lane>>, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags);
    let connection = opened.map_err(|source| StoreError::Open { path: path.to_owned(), source })?;
    let read = || -> rusqlite::Result<Option<Vec<Lane>>> {
        let mut statement = connection.prepare("SELECT settings FROM subscribers WHERE removed_at IS NULL LIMIT ?1")?;
        let mut rows = statement.query(params![i64::try_from(MOST + 1).unwrap_or(i64::MAX)])?;
        let (mut lanes, mut seen) = (BTreeSet::new(), 0);
        while let Some(row) = rows.next()? {
            seen += 1;
            if let Ok(Json(subscriber)) = row.get::<_, Json<Subscriber>>(0) {
                lanes.insert(Lane::of(&subscriber));
            }
        }
        Ok((1..=MOST).contains(&seen).then(|| lanes.into_iter().collect()))
    };
    read().map_err(step("look at the subscribers"))
}
