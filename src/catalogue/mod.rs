//! Reads catalogues of any size and in any order: the USGS CSV, and any CSV with a column of times.
//!
//! `rows` splits a stream by RFC 4180, `header` finds the columns by name, `scan` streams the times that match a filter in
//! constant memory, `parallel` does so with several threads and the same result, `events` gives whole events. Where the
//! events lead is `analysis`' business; downloading a catalogue is `feed`'s.

mod error;
mod events;
mod header;
mod masks;
mod order;
mod parallel;
mod rows;
mod scan;
mod source;
mod stamp;

use std::num::NonZeroUsize;
use std::str::FromStr;

use crate::event::Magnitude;
use crate::time::Timestamp;

pub use error::{BadRow, BadRows, Blame, CatalogueError, Fault, MAX_REPORTED_ROWS};
pub use events::{Events, Newest, read_events, read_newest_events};
pub use order::{Disorder, InOrder, Reading, Side, read_in_order, read_times};
pub use parallel::MAX_THREADS;
pub use rows::MAX_ROW_BYTES;
pub use scan::Progress;
pub use source::Source;
pub use stamp::TimeFormat;

/// What is read from a catalogue. The default reads a USGS catalogue, all of it, and stops at the first bad row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub time_column: TimeColumn,
    pub time_format: TimeFormat,
    pub filter: Filter,
    /// Columns that the file must have although no filter asks for them.
    pub needs: Vec<&'static str>,
    /// Count and pass over rows that are not well formed instead of stopping at the first.
    pub skip_bad_rows: bool,
}

/// Which events count. The default lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// This raw magnitude or more; an event without one does not match.
    pub min_magnitude: Option<Magnitude>,
    /// One of these types, like `earthquake`, in any case; none means all.
    pub kinds: Vec<String>,
    /// At this instant or later.
    pub from: Option<Timestamp>,
    /// Before this instant.
    pub to: Option<Timestamp>,
}

/// Where the times stand.
///
/// By name the file must have a header. By number it may have one: the first row is taken for a header if its field in
/// that column is a word, which is neither empty nor begins with a digit or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeColumn {
    /// As the header calls it; case and surrounding blanks do not matter.
    Name(String),
    /// Counted from 1.
    Number(NonZeroUsize),
}

impl Default for TimeColumn {
    fn default() -> TimeColumn {
        TimeColumn::Name("time".to_owned())
    }
}

/// A number from 1, or else a name.
impl FromStr for TimeColumn {
    type Err = CatalogueError;

    fn from_str(text: &str) -> Result<TimeColumn, CatalogueError> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return if text.trim().is_empty() {
                Err(CatalogueError::TimeColumn(text.to_owned()))
            } else {
                Ok(TimeColumn::Name(text.to_owned()))
            };
        }
        text.parse().map(TimeColumn::Number).map_err(|_| CatalogueError::TimeColumn(text.to_owned()))
    }
}

impl Query {
    /// Whether this reads the USGS layout: then a magnitude that is no number is an error even if none is asked for.
    fn is_usgs(&self) -> bool {
        self.time_column == TimeColumn::default() && self.time_format == TimeFormat::default()
    }
}
