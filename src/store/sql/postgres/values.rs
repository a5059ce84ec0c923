//! Values on their way to the server.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use tokio_postgres::types::{IsNull, ToSql as ToServer, Type, private::BytesMut, to_sql_checked};

use super::{Fault, Result};
use crate::store::sql::dialect::Parameter;
use crate::store::sql::params::Bound;

/// The values of all rows for one parameter.
#[derive(Debug)]
pub struct Column<'v>(Vec<Sent<'v>>);

impl<'v> Column<'v> {
    pub fn of(rows: &'v [Vec<Value>], at: usize, kind: &Type) -> Result<Column<'v>> {
        let value = |row: &'v Vec<Value>| Sent(row.get(at).map_or(ValueRef::Null, ValueRef::from));
        let values: Vec<Sent<'v>> = rows.iter().map(value).collect();
        match values.iter().map(Sent::kind).find(|found| *found != Type::UNKNOWN && found != kind) {
            Some(found) => Err(Fault::Value(format!("the value of ?{} is {found}: expected {kind}", at + 1))),
            None => Ok(Column(values)),
        }
    }
}

impl ToServer for Column<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.as_slice().to_sql(kind, out)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

pub fn value_of<'p>(parameter: &Parameter, bound: &'p [Bound<'_>]) -> ValueRef<'p> {
    let found = match parameter {
        Parameter::Number(number) => bound.get(*number),
        Parameter::Name(name) => bound.iter().find(|(known, _)| known == &Some(name.as_str())),
    };
    match found.map(|(_, value)| value) {
        Some(ToSqlOutput::Borrowed(value)) => *value,
        Some(ToSqlOutput::Owned(value)) => value.into(),
        // As for SQLite, what is not bound is nothing.
        _ => ValueRef::Null,
    }
}

/// A value on its way to the server.
#[derive(Debug)]
pub struct Sent<'v>(pub ValueRef<'v>);

impl Sent<'_> {
    /// Nothing is of any type: the server finds out which.
    pub fn kind(&self) -> Type {
        match self.0 {
            ValueRef::Null => Type::UNKNOWN,
            ValueRef::Integer(_) => Type::INT8,
            ValueRef::Real(_) => Type::FLOAT8,
            ValueRef::Text(_) => Type::TEXT,
            ValueRef::Blob(_) => Type::BYTEA,
        }
    }
}

impl ToServer for Sent<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self.0 {
            ValueRef::Null => Ok(IsNull::Yes),
            ValueRef::Integer(value) => value.to_sql(kind, out),
            ValueRef::Real(value) => value.to_sql(kind, out),
            ValueRef::Text(value) | ValueRef::Blob(value) => value.to_sql(kind, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
