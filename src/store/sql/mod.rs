//! One way of speaking to either database, `SQLite` in this process or a `PostgreSQL` server, in the words of `rusqlite`: its types of
//! values and parameters are those of both. The texts are the dialect that both have in common; where they differ, `dialect` says how.

mod dialect;
pub(super) mod listen;
mod params;
mod postgres;
mod row;

use std::cell::Cell;

use rusqlite::TransactionBehavior;

pub(super) use self::params::Params;
pub(super) use self::postgres::{Cancel, Session};
pub(super) use self::row::{MappedRows, Row, Rows};
pub(super) use rusqlite::types::{FromSqlError, ToSql};
pub(super) use rusqlite::{named_params, params};

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Server(#[from] postgres::Fault),
    /// A column holds what it should not.
    #[error("the column {column} cannot be read: {fault}")]
    Column { column: String, fault: FromSqlError },
}

pub(super) type Result<T> = std::result::Result<T, Error>;

/// Takes the absence of a row for an answer.
pub(super) trait OptionalExtension<T> {
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(Error::Sqlite(rusqlite::Error::QueryReturnedNoRows)) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

/// One connection.
pub(super) enum Connection {
    Sqlite(rusqlite::Connection),
    Postgres(Box<Session>),
}

/// Who else may write while a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// Nobody: `SQLite` has one writer at a time, and a server is asked for a lock that is nobody else's.
    Nobody,
    /// On a server those who say the same; what they touch in common they lock row by row.
    Others,
}

impl Connection {
    /// A transaction that writes, alone.
    pub fn begin(&self) -> Result<Transaction<'_>> {
        Transaction::begin(self, Beside::Nobody)
    }

    /// A transaction that writes, on a server beside others of its kind.
    pub fn begin_beside_others(&self) -> Result<Transaction<'_>> {
        Transaction::begin(self, Beside::Others)
    }

    /// A transaction that reads one moment.
    pub fn begin_reading(&self) -> Result<Transaction<'_>> {
        match self {
            Connection::Sqlite(connection) => {
                let inner = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Deferred)?;
                Ok(Transaction { connection: self, sqlite: Some(inner), is_open: Cell::new(false) })
            }
            Connection::Postgres(session) => {
                session.begin_reading()?;
                Ok(Transaction { connection: self, sqlite: None, is_open: Cell::new(true) })
            }
        }
    }

    /// A statement, which is prepared once for all of its uses by this connection.
    pub fn prepare_cached(&self, sql: &str) -> Result<Statement<'_>> {
        Ok(match self {
            Connection::Sqlite(connection) => Statement::Sqlite(connection.prepare_cached(sql)?),
            Connection::Postgres(session) => Statement::Postgres { session, sql: sql.to_owned() },
        })
    }

    pub fn execute(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        match self {
            Connection::Sqlite(connection) => Ok(connection.execute(sql, parameters)?),
            Connection::Postgres(session) => Ok(session.execute(sql, &parameters.values()?)?),
        }
    }

    pub fn query_row<T>(&self, sql: &str, parameters: impl Params, read: impl FnOnce(&Row<'_>) -> Result<T>) -> Result<T> {
        self.prepare_cached(sql)?.query_row(parameters, read)
    }

    /// Inserts one row: the number that it got in this column, which is its key.
    pub fn insert(&self, sql: &str, parameters: impl Params, column: &str) -> Result<i64> {
        self.prepare_insert(sql, column)?.key(parameters)
    }

    /// A statement that inserts one row at a time, which gets a number in this column.
    pub fn prepare_insert(&self, sql: &str, column: &str) -> Result<Insert<'_>> {
        Ok(match self {
            Connection::Sqlite(connection) => Insert::Sqlite(connection, connection.prepare_cached(sql)?),
            // To answer with what it wrote costs SQLite a table of its own.
            Connection::Postgres(session) => Insert::Postgres { session, sql: format!("{sql} RETURNING {column}") },
        })
    }

    /// The `SQLite` behind it, for what only that has.
    pub fn sqlite(&self) -> Option<&rusqlite::Connection> {
        match self {
            Connection::Sqlite(connection) => Some(connection),
            Connection::Postgres(_) => None,
        }
    }

    /// The server's session behind it.
    pub fn server(&self) -> Option<&Session> {
        match self {
            Connection::Sqlite(_) => None,
            Connection::Postgres(session) => Some(session),
        }
    }
}

/// A transaction, which is rolled back unless it is committed.
pub(super) struct Transaction<'c> {
    connection: &'c Connection,
    sqlite: Option<rusqlite::Transaction<'c>>,
    /// Whether the server has one to roll back.
    is_open: Cell<bool>,
}

impl<'c> Transaction<'c> {
    fn begin(connection: &'c Connection, beside: Beside) -> Result<Transaction<'c>> {
        match connection {
            Connection::Sqlite(inner) => {
                let inner = rusqlite::Transaction::new_unchecked(inner, TransactionBehavior::Immediate)?;
                Ok(Transaction { connection, sqlite: Some(inner), is_open: Cell::new(false) })
            }
            Connection::Postgres(session) => {
                session.begin(beside)?;
                Ok(Transaction { connection, sqlite: None, is_open: Cell::new(true) })
            }
        }
    }

    pub fn commit(mut self) -> Result<()> {
        if let Some(inner) = self.sqlite.take() {
            return Ok(inner.commit()?);
        }
        self.is_open.set(false);
        match self.connection {
            Connection::Postgres(session) => Ok(session.commit()?),
            Connection::Sqlite(_) => Ok(()),
        }
    }
}

impl std::ops::Deref for Transaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if let (true, Connection::Postgres(session)) = (self.is_open.get(), self.connection) {
            session.rollback();
        }
    }
}

/// A statement with its parameters still open.
pub(super) enum Statement<'c> {
    Sqlite(rusqlite::CachedStatement<'c>),
    Postgres { session: &'c Session, sql: String },
}

/// A statement that inserts one row at a time.
pub(super) enum Insert<'c> {
    Sqlite(&'c rusqlite::Connection, rusqlite::CachedStatement<'c>),
    Postgres { session: &'c Session, sql: String },
}

impl Insert<'_> {
    /// Inserts a row: its key.
    pub fn key(&mut self, parameters: impl Params) -> Result<i64> {
        match self {
            Insert::Sqlite(connection, statement) => {
                statement.execute(parameters)?;
                Ok(connection.last_insert_rowid())
            }
            Insert::Postgres { session, sql } => {
                let rows = session.query(sql, &parameters.values()?)?;
                Row::Postgres(rows.first().ok_or(rusqlite::Error::QueryReturnedNoRows)?).get(0)
            }
        }
    }
}

impl Statement<'_> {
    pub fn execute(&mut self, parameters: impl Params) -> Result<usize> {
        match self {
            Statement::Sqlite(statement) => Ok(statement.execute(parameters)?),
            Statement::Postgres { session, sql } => Ok(session.execute(sql, &parameters.values()?)?),
        }
    }

    pub fn query(&mut self, parameters: impl Params) -> Result<Rows<'_>> {
        match self {
            Statement::Sqlite(statement) => Ok(Rows::Sqlite(statement.query(parameters)?)),
            Statement::Postgres { session, sql } => Ok(Rows::server(session.query(sql, &parameters.values()?)?)),
        }
    }

    pub fn query_map<T, F>(&mut self, parameters: impl Params, read: F) -> Result<MappedRows<'_, F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        Ok(MappedRows::new(self.query(parameters)?, read))
    }

    /// The first row; [`OptionalExtension::optional`] where there may be none.
    pub fn query_row<T>(&mut self, parameters: impl Params, read: impl FnOnce(&Row<'_>) -> Result<T>) -> Result<T> {
        match self.query(parameters)?.next()? {
            Some(row) => read(&row),
            None => Err(rusqlite::Error::QueryReturnedNoRows.into()),
        }
    }

    /// Whether there is a row.
    pub fn exists(&mut self, parameters: impl Params) -> Result<bool> {
        Ok(self.query(parameters)?.next()?.is_some())
    }
}
