//! Moving an installation from one database to another, be they files or on a server: every row as it is, in one transaction, which
//! ends only if both have the same rows then, by count and checksum.

use rusqlite::types::Value;
use sha2::{Digest, Sha256};

use super::sql::{self, Connection, ToSql, Transaction};
use super::{DaemonLock, Location, Store, StoreError, step};

/// Rows that are read, and written, at a time.
const PAGE: usize = 500;

/// A table with the columns that tell its rows apart, in the order in which rows refer to earlier ones.
const TABLES: [(&str, &[&str]); 13] = [
    ("installation", &["only"]),
    ("events", &["event_key"]),
    ("event_ids", &["id"]),
    ("revisions", &["event_key", "seen_at"]),
    ("subscribers", &["subscriber_key"]),
    ("limiters", &["subscriber_key"]),
    ("contents", &["content_key"]),
    ("terms", &["terms_key"]),
    ("outbox", &["delivery_key"]),
    ("decisions", &["event_key", "subscriber_key"]),
    ("updates", &["update_key"]),
    ("changes", &["change_key"]),
    ("notices", &["delivery_key"]),
];
/// The same of a table that has one row from the beginning.
const NOTICING: (&str, &[&str]) = ("noticing", &["only"]);

/// A table that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    pub table: &'static str,
    pub rows: u64,
    /// Of all rows in any order, in hexadecimal.
    pub checksum: String,
}

/// Counts rows, and adds up what tells them from others.
#[derive(Default, PartialEq)]
struct Sum {
    rows: u64,
    lanes: [u64; 4],
}

impl Sum {
    fn add(&mut self, row: &[Value]) {
        let mut hash = Sha256::new();
        for value in row {
            let (kind, bytes): (u8, &[u8]) = match value {
                Value::Null => (0, &[]),
                Value::Integer(value) => (1, &value.to_be_bytes()),
                Value::Real(value) => (2, &value.to_bits().to_be_bytes()),
                Value::Text(value) => (3, value.as_bytes()),
                Value::Blob(value) => (4, value),
            };
            hash.update([kind]);
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        self.rows += 1;
        for (lane, part) in self.lanes.iter_mut().zip(hash.finalize().chunks_exact(8)) {
            *lane = lane.wrapping_add(part.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        }
    }

    fn checksum(&self) -> String {
        self.lanes.map(|lane| format!("{lane:016x}")).concat()
    }
}

impl Store {
    /// Copies all that a database holds into one that holds nothing, while no daemon runs on either. `done` is told of each table.
    ///
    /// # Errors
    /// [`StoreError::Locked`] or [`StoreError::InUse`] where a daemon runs, [`StoreError::NotEmpty`] if there is something already,
    /// [`StoreError::Copied`] if what was written is not what was read; the target is as it was then.
    pub fn copy(from: &Location, to: &Location, mut done: impl FnMut(&Copied)) -> Result<Vec<Copied>, StoreError> {
        let (mut source, mut target) = (Store::open_existing(from)?, Store::open(to)?);
        let _locks = (source.alone(from)?, target.alone(to)?);
        for connection in [&source.connection, &target.connection] {
            wait_for_the_other(connection).map_err(step("begin a copy"))?;
        }
        let moment = source.connection.begin_reading().map_err(step("begin reading what is to be copied"))?;
        let transaction = target.connection.begin().map_err(step("begin a copy"))?;
        if let Some((table, _)) = TABLES[1..].iter().find(|(table, _)| !is_empty(&transaction, table)) {
            return Err(StoreError::NotEmpty { at: to.clone(), table });
        }
        defer_references(&transaction).map_err(step("begin a copy"))?;
        let mut copied = Vec::new();
        for (table, keys) in TABLES.into_iter().chain([NOTICING]) {
            let one = copy_table(&moment, &transaction, table, keys)?;
            done(&one);
            copied.push(one);
        }
        have_counted(&transaction).map_err(step("have the server count what was copied"))?;
        transaction.commit().map_err(step("commit a copy"))?;
        Ok(copied)
    }

    /// Keeps daemons away as long as it is held, as far as there is something to hold.
    fn alone(&mut self, at: &Location) -> Result<Option<DaemonLock>, StoreError> {
        match at {
            Location::File(path) => DaemonLock::acquire(path).map(Some),
            Location::Server(_) if self.polls()? => Ok(None),
            Location::Server(_) => Err(StoreError::InUse { at: at.clone() }),
        }
    }
}

fn is_empty(transaction: &Transaction<'_>, table: &str) -> bool {
    let any = transaction.prepare_cached(&format!("SELECT 1 FROM {table} LIMIT 1")).and_then(|mut find| find.exists([]));
    any.is_ok_and(|any| !any)
}

/// Each side waits while the other works, for minutes where there is much, and a server may end a session that waits.
fn wait_for_the_other(connection: &Connection) -> sql::Result<()> {
    if let Some(session) = connection.server() {
        session.batch("SET idle_session_timeout = 0; SET idle_in_transaction_session_timeout = 0")?;
    }
    Ok(())
}

/// A server plans by the statistics that it has, and with none as if there were next to nothing, until it counts by itself.
fn have_counted(transaction: &Transaction<'_>) -> sql::Result<()> {
    if let Some(session) = transaction.server() {
        session.batch(&format!("ANALYZE {}", TABLES.map(|(table, _)| table).join(", ")))?;
    }
    Ok(())
}

/// Events refer to each other in any order.
fn defer_references(transaction: &Transaction<'_>) -> sql::Result<()> {
    match (transaction.sqlite(), transaction.server()) {
        (Some(connection), _) => connection.pragma_update(None, "defer_foreign_keys", true)?,
        (_, Some(session)) => session.batch("SET CONSTRAINTS ALL DEFERRED")?,
        _ => {}
    }
    Ok(())
}

fn copy_table(from: &Connection, to: &Transaction<'_>, table: &'static str, keys: &[&str]) -> Result<Copied, StoreError> {
    let columns = columns(from, table).map_err(step("read which columns there are"))?;
    // What the making of the target put there.
    to.execute(&format!("DELETE FROM {table}"), []).map_err(step("empty a table"))?;
    let mut read = Sum::default();
    pages(from, table, &columns, keys, |rows| {
        for row in rows {
            read.add(row);
        }
        write(to, table, &columns, rows)
    })
    .map_err(step("copy a table"))?;
    let mut written = Sum::default();
    pages(to, table, &columns, keys, |rows| {
        for row in rows {
            written.add(row);
        }
        Ok(())
    })
    .map_err(step("read what was copied"))?;
    if read != written {
        return Err(StoreError::Copied { table, read: read.rows, written: written.rows });
    }
    if let ([key], Some(session)) = (keys, to.server())
        && key.ends_with("_key")
        && table != "limiters"
    {
        let next = format!("SELECT setval(pg_get_serial_sequence('{table}', '{key}'), (SELECT max({key}) FROM {table}))");
        session.batch(&next).map_err(step("continue the numbers of rows"))?;
    }
    Ok(Copied { table, rows: read.rows, checksum: read.checksum() })
}

/// The columns of a table that both kinds of database have.
fn columns(connection: &Connection, table: &str) -> sql::Result<Vec<String>> {
    let sql = if connection.sqlite().is_some() {
        "SELECT name FROM pragma_table_info(?1) ORDER BY name"
    } else {
        "SELECT column_name::text FROM information_schema.columns
         WHERE table_schema = current_schema() AND table_name = ?1 AND column_name <> 'link_key' ORDER BY column_name"
    };
    connection.prepare_cached(sql)?.query_map([table], |row| row.get(0))?.collect()
}

/// Hands out all rows of a table, a page at a time.
fn pages(
    connection: &Connection,
    table: &str,
    columns: &[String],
    keys: &[&str],
    mut page: impl FnMut(&[Vec<Value>]) -> sql::Result<()>,
) -> sql::Result<()> {
    let list: Vec<String> = columns.iter().map(|column| expression(connection, table, column)).collect();
    let quoted: Vec<String> = keys.iter().map(|key| format!("\"{key}\"")).collect();
    let (list, order) = (list.join(", "), quoted.join(", "));
    let beyond: Vec<String> = (1..=keys.len()).map(|number| format!("?{number}")).collect();
    let places: Vec<usize> = keys.iter().filter_map(|key| columns.iter().position(|column| column == key)).collect();
    let mut reached: Vec<Value> = Vec::new();
    loop {
        let after = if reached.is_empty() { String::new() } else { format!("WHERE ({order}) > ({})", beyond.join(", ")) };
        let sql = format!("SELECT {list} FROM {table} {after} ORDER BY {order} LIMIT {PAGE}");
        let parameters: Vec<&dyn ToSql> = reached.iter().map(|value| value as &dyn ToSql).collect();
        let mut statement = connection.prepare_cached(&sql)?;
        let read = statement.query_map(parameters.as_slice(), |row| (0..columns.len()).map(|at| row.get(at)).collect())?;
        let rows: Vec<Vec<Value>> = read.collect::<sql::Result<_>>()?;
        drop(statement);
        page(&rows)?;
        match rows.last() {
            Some(row) if rows.len() == PAGE => reached = places.iter().map(|at| row[*at].clone()).collect(),
            _ => return Ok(()),
        }
    }
}

/// A column as the other kind of database has it: on a server the subscribers still to be asked may be shared out.
fn expression(connection: &Connection, table: &str, column: &str) -> String {
    if connection.server().is_some() && (table, column) == ("events", "dispatch_from") {
        let shared = "(SELECT min(from_key) FROM shares AS s WHERE s.event_key = events.event_key)";
        format!("iif(dispatch_from = {}, {shared}, dispatch_from)", i64::MAX)
    } else {
        format!("\"{column}\"")
    }
}

fn write(to: &Transaction<'_>, table: &str, columns: &[String], rows: &[Vec<Value>]) -> sql::Result<()> {
    let names: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let row: Vec<String> = (1..=columns.len()).map(|number| format!("?{number}")).collect();
    let insert = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), row.join(", "));
    let mut inserts = to.batch(&insert)?;
    for row in rows {
        let parameters: Vec<&dyn ToSql> = row.iter().map(|value| value as &dyn ToSql).collect();
        inserts.add(parameters.as_slice())?;
    }
    inserts.finish()
}
