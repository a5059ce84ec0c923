//! Parameters of statements, in every form that `rusqlite` takes them.

use rusqlite::types::{ToSql, ToSqlOutput};

use super::Result;

/// A parameter and, where the text names it, its name with the colon.
pub(in crate::store) type Bound<'p> = (Option<&'p str>, ToSqlOutput<'p>);

/// What `SQLite` takes as it is, and a server as values.
pub(in crate::store) trait Params: rusqlite::Params {
    /// The values in the order of their numbers.
    fn values(&self) -> Result<Vec<Bound<'_>>>;
}

fn numbered<'p>(values: impl Iterator<Item = &'p (impl ToSql + ?Sized + 'p)>) -> Result<Vec<Bound<'p>>> {
    values.map(|value| Ok((None, value.to_sql()?))).collect()
}

impl Params for [&(dyn ToSql + Send + Sync); 0] {
    fn values(&self) -> Result<Vec<Bound<'_>>> {
        Ok(Vec::new())
    }
}

impl Params for &[&dyn ToSql] {
    fn values(&self) -> Result<Vec<Bound<'_>>> {
        numbered(self.iter().copied())
    }
}

impl Params for &[(&str, &dyn ToSql)] {
    fn values(&self) -> Result<Vec<Bound<'_>>> {
        self.iter().map(|(name, value)| Ok((Some(*name), value.to_sql()?))).collect()
    }
}

/// As in `rusqlite`, for so many: an array of any length would leave the type of an empty one open.
macro_rules! arrays {
    ($($length:literal)+) => {$(
        impl<T: ToSql> Params for [T; $length] {
            fn values(&self) -> Result<Vec<Bound<'_>>> {
                numbered(self.iter())
            }
        }
    )+};
}
arrays!(1 2 3);
