//! How things stand, in numbers.

use super::rows::At;
use super::{Store, StoreError, queries, step};
use crate::time::Timestamp;

/// How many there are of what, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStatus {
    /// Events that stand for themselves: what was merged into another does not count.
    pub events: u64,
    /// The latest origin among them.
    pub newest_origin_at: Option<Timestamp>,
    /// Events about which subscribers are still to be asked.
    pub undecided_events: u64,
    pub active: u64,
    pub paused: u64,
    pub disabled: u64,
    pub due: u64,
    /// Under way.
    pub leased: u64,
    pub dead: u64,
    /// When the first of the messages that are due or under way was made.
    pub oldest_due_at: Option<Timestamp>,
}

/// What is still to be done, and for how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Events about which subscribers are still to be asked.
    pub to_decide: u64,
    /// Messages due or under way.
    pub waiting: u64,
    /// Active subscribers.
    pub subscribers: u64,
}

impl Store {
    /// What is still to be done. A file counts a million messages in some tens of milliseconds, a server in a second.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn backlog(&self) -> Result<Backlog, StoreError> {
        let read = self.connection.prepare_cached(queries::BACKLOG).and_then(|mut statement| {
            statement.query_row([], |row| {
                let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                Ok(Backlog { to_decide: count(0)?, waiting: count(1)?, subscribers: count(2)? })
            })
        });
        read.map_err(step("read what is still to be done"))
    }

    /// How things stand.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn status(&self) -> Result<StoreStatus, StoreError> {
        let read = self.connection.query_row(queries::STANDING, [], |row| {
            let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
            let at = |column| row.get::<_, Option<At>>(column).map(|at| at.map(|at| at.0));
            Ok(StoreStatus {
                events: count("events")?,
                newest_origin_at: at("newest")?,
                undecided_events: count("undecided")?,
                active: count("active")?,
                paused: count("paused")?,
                disabled: count("disabled")?,
                due: count("due")?,
                leased: count("leased")?,
                dead: count("dead")?,
                oldest_due_at: at("oldest")?,
            })
        });
        read.map_err(step("read how things stand"))
    }
}
