//! How domain values stand in columns.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::sql::{self, Row};
use crate::time::Timestamp;

/// A timestamp as microseconds since the epoch.
pub(super) struct At(pub Timestamp);

impl ToSql for At {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.ticks().into())
    }
}

impl FromSql for At {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<At> {
        let ticks = i64::column_result(value)?;
        Timestamp::from_ticks(ticks).map(At).map_err(|_| FromSqlError::OutOfRange(ticks))
    }
}

/// A value written with `Display` and read with `FromStr`.
pub(super) struct Word<T>(pub T);

impl<T: std::fmt::Display> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.to_string().into())
    }
}

impl<T: std::str::FromStr> FromSql for Word<T>
where
    T::Err: std::fmt::Display,
{
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Word<T>> {
        let text = value.as_str()?;
        text.parse().map(Word).map_err(|fault: T::Err| FromSqlError::Other(fault.to_string().into()))
    }
}

/// A value as JSON text.
pub(super) struct Json<T>(pub T);

impl<T: Serialize> ToSql for Json<&T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(self.0).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        Ok(text.into())
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Json<T>> {
        serde_json::from_str(value.as_str()?).map(Json).map_err(|fault| FromSqlError::Other(fault.into()))
    }
}

/// An optional timestamp column.
pub(super) fn optional_at(row: &Row<'_>, column: &str) -> sql::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<At>>(column)?.map(|at| at.0))
}
