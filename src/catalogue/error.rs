//! What can be wrong with a catalogue, and whose fault it is.

use std::fmt;
use std::io;

/// The longest piece of a bad value that a message repeats, in characters.
const SHOWN_CHARS: usize = 40;
/// How many of the skipped rows are described; the others are only counted.
pub const MAX_REPORTED_ROWS: usize = 5;

/// Why a catalogue was not read.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error(
        "cannot open the catalogue {file}: there is no such file; expected a CSV catalogue, `throttler catalog fetch` downloads one"
    )]
    Missing { file: String },
    #[error("cannot read the catalogue {file}")]
    Read { file: String, source: io::Error },
    #[error("cannot keep the times of {file} in a temporary file")]
    Spool { file: String, source: io::Error },
    #[error("{file} is not a catalogue: it is {found}; expected CSV with a header line")]
    NotCsv { file: String, found: String },
    #[error("{file}, line {line}: there is no column {column}, only {found}; expected one of that name")]
    NoColumn { file: String, line: u64, column: String, found: String },
    #[error("{file}, line {line}: column {column} stands twice in the header; expected each name once")]
    TwiceColumn { file: String, line: u64, column: String },
    #[error("{0}")]
    Row(BadRow),
    #[error("'{0}' is not a time column: expected a name from the header, or a number from 1")]
    TimeColumn(String),
    #[error("'{0}' is not a time format: expected rfc3339, epoch-s, epoch-ms or epoch-us")]
    TimeFormat(String),
}

/// Whose fault a failure is; the command line's exit status follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The input is not what it should be: exit status 3.
    Data,
    /// The input could not be read at all: exit status 1.
    Reading,
    /// The question was wrong: exit status 2.
    Usage,
}

/// A row that says nothing usable, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The file's name, or that of the stream.
    pub file: String,
    /// The physical line on which the row starts, from 1. Line feeds are counted, also those within quotes.
    pub line: u64,
    pub fault: Fault,
}

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// More or fewer fields than the header has.
    Fields { found: usize, expected: usize },
    /// A quote inside an unquoted field, or text after a closing quote.
    StrayQuote,
    /// A carriage return that no line feed follows, outside quotes.
    StrayReturn,
    /// The input ends within quotes.
    Unterminated,
    /// Longer than [`MAX_ROW_BYTES`](super::MAX_ROW_BYTES).
    TooLong,
    /// A field that does not read as what its column holds. The value is shortened.
    Value { column: String, value: String, expected: &'static str },
}

/// The rows that were skipped because they were bad.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BadRows {
    /// How many.
    pub count: u64,
    /// The first [`MAX_REPORTED_ROWS`] of them, in reading order.
    pub first: Vec<BadRow>,
}

impl CatalogueError {
    /// Whose fault it is.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self {
            Self::Missing { .. } | Self::Read { .. } | Self::Spool { .. } => Blame::Reading,
            Self::NotCsv { .. } | Self::NoColumn { .. } | Self::TwiceColumn { .. } | Self::Row(_) => Blame::Data,
            Self::TimeColumn(_) | Self::TimeFormat(_) => Blame::Usage,
        }
    }

    /// The same failure in a file whose first line is `lines` further on.
    pub(super) fn moved(self, lines: u64) -> CatalogueError {
        match self {
            Self::Row(row) => Self::Row(BadRow { line: row.line + lines, ..row }),
            other => other,
        }
    }

    /// A failure to open or read a file.
    pub(super) fn reading(file: &str, source: io::Error) -> CatalogueError {
        let file = file.to_owned();
        if source.kind() == io::ErrorKind::NotFound { Self::Missing { file } } else { Self::Read { file, source } }
    }
}

impl Fault {
    /// A value that is not what its column holds.
    pub(super) fn value(column: &str, value: &[u8], expected: &'static str) -> Fault {
        Fault::Value { column: column.to_owned(), value: shortened(value), expected }
    }
}

impl BadRows {
    /// Counts one more.
    pub(super) fn push(&mut self, row: BadRow) {
        self.count += 1;
        if self.first.len() < MAX_REPORTED_ROWS {
            self.first.push(row);
        }
    }

    /// The same rows of a file whose first line is `lines` further on.
    pub(super) fn moved(mut self, lines: u64) -> BadRows {
        self.first.iter_mut().for_each(|row| row.line += lines);
        self
    }

    /// Counts those that follow in reading order.
    pub(super) fn append(&mut self, later: BadRows) {
        self.count += later.count;
        let room = MAX_REPORTED_ROWS - self.first.len();
        self.first.extend(later.first.into_iter().take(room));
    }
}

/// The beginning of a text that comes from outside, fit for one line of a message.
pub(super) fn shortened(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.file, self.line)?;
        match &self.fault {
            Fault::Fields { found: 1, expected } => write!(f, ": the row has 1 field; expected {expected}, as in the first row"),
            Fault::Fields { found, expected } => {
                write!(f, ": the row has {found} fields; expected {expected}, as in the first row")
            }
            Fault::StrayQuote => write!(f, ": a stray quote; expected quotes around a whole field, and doubled within it"),
            Fault::StrayReturn => write!(f, ": a stray carriage return; expected a line feed after it"),
            Fault::Unterminated => write!(f, ": a quote is opened and never closed; expected a closing quote"),
            Fault::TooLong => {
                write!(f, ": the row is longer than {} bytes; expected a closing quote before", super::MAX_ROW_BYTES)
            }
            Fault::Value { column, value, expected } => write!(f, ", column {column}: '{value}' is not {expected}"),
        }
    }
}
