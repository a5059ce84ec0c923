//! By which lanes anything can leave: those of the subscribers that there are. Only looks, also at a database of another version.

use std::collections::BTreeSet;

use rusqlite::OpenFlags;

use super::rows::Json;
use super::sql::{self, Connection, params};
use super::{Location, StoreError, step, upgrade};
use crate::channel::Lane;
use crate::subscriber::Subscriber;

/// The most subscribers that are looked at.
const MOST: usize = 100_000;

/// The lanes of all subscribers in this database; `None` if there are none, or more than can be looked at in a moment. What cannot
/// be read of one is left out.
///
/// # Errors
/// [`StoreError::Open`], [`StoreError::Reach`] or [`StoreError::Sql`] if the database cannot be read.
pub fn lanes(at: &Location) -> Result<Option<Vec<Lane>>, StoreError> {
    let connection = match at {
        Location::File(path) => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let opened = rusqlite::Connection::open_with_flags(path, flags);
            Connection::Sqlite(opened.map_err(|source| StoreError::Open { path: path.clone(), source })?)
        }
        Location::Server(url) => match upgrade::look_at_server(url)? {
            Some(session) => Connection::Postgres(Box::new(session)),
            None => return Ok(None),
        },
    };
    let read = || -> sql::Result<Option<Vec<Lane>>> {
        let mut statement = connection.prepare_cached("SELECT settings FROM subscribers WHERE removed_at IS NULL LIMIT ?1")?;
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
