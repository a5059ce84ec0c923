//! A statement that is run for many rows, and nobody asks what each of them changed. `SQLite` runs it row by row; to a server all
//! rows go with one statement, since the way there and back takes longer than the work.

use std::collections::VecDeque;

use rusqlite::types::{ToSqlOutput, Value};

use super::postgres::Session;
use super::{Connection, Error, Params, Result, Row, dialect};

/// Keys that are reserved together.
const KEYS_AT_ONCE: i64 = 512;

/// Rows for one statement. Whoever adds some finishes the batch before the transaction is committed, which is refused otherwise.
pub(in crate::store) enum Batch<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres { session: &'c Session, sql: String, rows: Vec<Vec<Value>> },
}

/// The same for an `INSERT` of rows that get a number, which is known at once.
pub(in crate::store) enum NumberedBatch<'c> {
    Sqlite(&'c rusqlite::Connection, rusqlite::CachedStatement<'c>),
    Postgres {
        session: &'c Session,
        sql: String,
        rows: Vec<Vec<Value>>,
        /// Answers with keys of the table that nobody else gets.
        reserve: String,
        /// How many are reserved next: one for the first row, which may be the only one.
        next_time: i64,
        reserved: VecDeque<i64>,
    },
}

impl Connection {
    /// Rows for an `INSERT … VALUES (…)`, or an `UPDATE … WHERE …`, with parameters like `?1`.
    pub fn batch(&self, sql: &str) -> Result<Batch<'_>> {
        Ok(match self {
            Connection::Sqlite(connection) => Batch::Sqlite(connection.prepare_cached(sql)?),
            Connection::Postgres(session) => Batch::Postgres { session, sql: sql.to_owned(), rows: Vec::new() },
        })
    }

    /// Rows for an `INSERT INTO table (…) VALUES (…)` that leaves out this column, the key.
    pub fn numbered_batch(&self, sql: &str, table: &str, column: &str) -> Result<NumberedBatch<'_>> {
        Ok(match self {
            Connection::Sqlite(connection) => NumberedBatch::Sqlite(connection, connection.prepare_cached(sql)?),
            Connection::Postgres(session) => NumberedBatch::Postgres {
                session,
                sql: dialect::with_key(sql, column),
                rows: Vec::new(),
                reserve: format!("SELECT nextval(pg_get_serial_sequence('{table}', '{column}')) FROM generate_series(1, ?1)"),
                next_time: 1,
                reserved: VecDeque::new(),
            },
        })
    }
}

impl Batch<'_> {
    /// Runs the statement for a row; on a server with all others when they are finished.
    pub fn add(&mut self, parameters: impl Params) -> Result<()> {
        match self {
            Batch::Sqlite(statement) => {
                statement.execute(parameters)?;
            }
            Batch::Postgres { session, rows, .. } => {
                rows.push(owned(&parameters)?);
                session.gather();
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        match self {
            Batch::Sqlite(_) => Ok(()),
            Batch::Postgres { session, sql, rows } => session.execute_for_all(&sql, &rows),
        }
    }
}

impl NumberedBatch<'_> {
    /// Inserts a row as [`Batch::add`] does: its key.
    pub fn add(&mut self, parameters: impl Params) -> Result<i64> {
        match self {
            NumberedBatch::Sqlite(connection, statement) => {
                statement.execute(parameters)?;
                Ok(connection.last_insert_rowid())
            }
            NumberedBatch::Postgres { session, rows, reserve, next_time, reserved, .. } => {
                if reserved.is_empty() {
                    let keys = session.query(reserve, &[*next_time].values()?)?;
                    *next_time = KEYS_AT_ONCE;
                    *reserved = keys.iter().map(|row| Row::Postgres(row).get(0)).collect::<Result<_>>()?;
                }
                let key = reserved.pop_front().ok_or(rusqlite::Error::QueryReturnedNoRows)?;
                let mut row = owned(&parameters)?;
                row.push(Value::Integer(key));
                rows.push(row);
                session.gather();
                Ok(key)
            }
        }
    }

    pub fn finish(self) -> Result<()> {
        match self {
            NumberedBatch::Sqlite(..) => Ok(()),
            NumberedBatch::Postgres { session, sql, rows, .. } => session.execute_for_all(&sql, &rows),
        }
    }
}

/// A row's values, kept until they are sent.
fn owned(parameters: &impl Params) -> Result<Vec<Value>> {
    let value = |value| match value {
        ToSqlOutput::Borrowed(value) => {
            Value::try_from(value).map_err(|fault| Error::Column { column: "parameter".to_owned(), fault })
        }
        ToSqlOutput::Owned(value) => Ok(value),
        _ => Ok(Value::Null),
    };
    parameters.values()?.into_iter().map(|(_, of)| value(of)).collect()
}
