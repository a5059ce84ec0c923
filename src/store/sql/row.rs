//! Rows of either database.

use std::fmt::Display;

use rusqlite::types::{FromSql, ValueRef};
use tokio_postgres::types::{FromSql as FromServer, Type};

use super::postgres::Fault;
use super::{Error, Result};

/// Names a column: by its place or its name.
pub(in crate::store) trait Column: rusqlite::RowIndex + tokio_postgres::row::RowIndex + Display + Copy {}

impl Column for usize {}
impl Column for &str {}

/// One row.
pub(in crate::store) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// A value where it stands.
    pub fn get_ref<I: Column>(&self, column: I) -> Result<ValueRef<'_>> {
        match self {
            Row::Sqlite(row) => Ok(row.get_ref(column)?),
            Row::Postgres(row) => Ok(row.try_get::<_, Value<'_>>(column).map_err(Fault::from)?.0),
        }
    }

    pub fn get<I: Column, T: FromSql>(&self, column: I) -> Result<T> {
        match self {
            Row::Sqlite(row) => Ok(row.get(column)?),
            Row::Postgres(row) => {
                let Value(value) = row.try_get(column).map_err(Fault::from)?;
                T::column_result(value).map_err(|fault| Error::Column { column: column.to_string(), fault })
            }
        }
    }
}

/// A server's value as one of `SQLite`'s classes of storage.
struct Value<'r>(ValueRef<'r>);

impl<'r> FromServer<'r> for Value<'r> {
    fn from_sql(kind: &Type, raw: &'r [u8]) -> std::result::Result<Value<'r>, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Value(match *kind {
            Type::BOOL => ValueRef::Integer(bool::from_sql(kind, raw)?.into()),
            Type::INT4 => ValueRef::Integer(i32::from_sql(kind, raw)?.into()),
            Type::INT8 => ValueRef::Integer(i64::from_sql(kind, raw)?),
            Type::FLOAT8 => ValueRef::Real(f64::from_sql(kind, raw)?),
            Type::BYTEA => ValueRef::Blob(raw),
            _ => ValueRef::Text(raw),
        }))
    }

    fn from_sql_null(_: &Type) -> std::result::Result<Value<'r>, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Value(ValueRef::Null))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(
            *kind,
            Type::BOOL
                | Type::INT4
                | Type::INT8
                | Type::FLOAT8
                | Type::BYTEA
                | Type::TEXT
                | Type::VARCHAR
                | Type::NAME
                | Type::JSON
        )
    }
}

/// Rows, one after the other.
pub(in crate::store) enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres { rows: Vec<tokio_postgres::Row>, next: usize },
}

impl Rows<'_> {
    pub(super) fn server(rows: Vec<tokio_postgres::Row>) -> Rows<'static> {
        Rows::Postgres { rows, next: 0 }
    }

    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        match self {
            Rows::Sqlite(rows) => Ok(rows.next()?.map(Row::Sqlite)),
            Rows::Postgres { rows, next } => {
                let row = rows.get(*next);
                *next += 1;
                Ok(row.map(Row::Postgres))
            }
        }
    }
}

/// What is made of rows, one after the other.
pub(in crate::store) struct MappedRows<'s, F> {
    rows: Rows<'s>,
    read: F,
}

impl<'s, F> MappedRows<'s, F> {
    pub(super) fn new(rows: Rows<'s>, read: F) -> MappedRows<'s, F> {
        MappedRows { rows, read }
    }
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for MappedRows<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        match self.rows.next() {
            Ok(Some(row)) => Some((self.read)(&row)),
            Ok(None) => None,
            Err(fault) => Some(Err(fault)),
        }
    }
}
