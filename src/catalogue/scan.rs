//! Streams the times of the events that match, in constant memory: the fast way through a catalogue.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::error::{BadRow, BadRows, CatalogueError, Fault};
use super::header::{self, Columns, Opened, raw_field, unquoted};
use super::rows::{Row, Rows, Stop};
use super::stamp::StampReader;
use super::{Query, Source};
use crate::event::Magnitude;
use crate::time::Timestamp;

/// The most times that are handed on together.
pub const MAX_BATCH: usize = 8_192;

/// Is told how many bytes of the inputs have been read since it was last told, for a progress bar.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Reads one input and gives `each` the times of the matching events, in reading order, in batches of at most
/// [`MAX_BATCH`]; when it breaks, reading ends.
pub(super) fn scan_source(
    source: &mut Source,
    query: &Query,
    _threads: usize,
    progress: Progress<'_>,
    each: &mut dyn FnMut(&[Timestamp]) -> ControlFlow<()>,
) -> Result<BadRows, CatalogueError> {
    let name = source.name();
    let mut scanner = Scanner::open(Counted { input: source.open()?, progress }, &name, query)?;
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while scanner.fill(&mut batch)? {
        if each(&batch).is_break() {
            break;
        }
    }
    Ok(scanner.skipped)
}

/// Tells the progress of reading.
struct Counted<'a, R> {
    input: R,
    progress: Progress<'a>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        (self.progress)(read as u64);
        Ok(read)
    }
}

/// Opens each file and finds its columns, so that a wrong one is known before long work begins.
pub(super) fn check(sources: &mut [Source], query: &Query) -> Result<(), CatalogueError> {
    for source in sources.iter_mut().filter(|source| matches!(source, Source::File(_))) {
        let name = source.name();
        header::open(source.open()?, &name, query)?;
    }
    Ok(())
}

/// The matching rows of one input, one at a time.
pub(super) struct Scanner<'q, R> {
    rows: Rows<R>,
    columns: Arc<Columns>,
    query: &'q Query,
    file: String,
    stamps: StampReader,
    /// The first row, if it is no header.
    pending: Option<Row>,
    /// Rows that start here or later are not of this scan.
    stop: u64,
    pub skipped: BadRows,
}

impl<'q, R: Read> Scanner<'q, R> {
    /// Reads the header and is ready for the first row.
    pub(super) fn open(input: R, file: &str, query: &'q Query) -> Result<Scanner<'q, R>, CatalogueError> {
        let Opened { rows, columns, first, .. } = header::open(input, file, query)?;
        Ok(Scanner {
            rows,
            columns: Arc::new(columns),
            query,
            file: file.to_owned(),
            stamps: StampReader::new(query.time_format),
            pending: first,
            stop: u64::MAX,
            skipped: BadRows::default(),
        })
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// What the row's id field says; nothing without such a column.
    pub(super) fn id(&self, row: &Row) -> Cow<'_, [u8]> {
        let field = self.columns.id.and_then(|column| raw_field(self.rows.bytes(row), column));
        unquoted(field.unwrap_or_default())
    }

    pub(super) fn bytes(&self, row: &Row) -> &[u8] {
        self.rows.bytes(row)
    }

    /// Fills `batch` with the next times; `false` if there are none.
    pub(super) fn fill(&mut self, batch: &mut Vec<Timestamp>) -> Result<bool, CatalogueError> {
        batch.clear();
        while batch.len() < MAX_BATCH {
            match self.next_match()? {
                Some((_, at)) => batch.push(at),
                None => break,
            }
        }
        Ok(!batch.is_empty())
    }

    /// The next row that matches, and its time.
    #[inline]
    pub(super) fn next_match(&mut self) -> Result<Option<(Row, Timestamp)>, CatalogueError> {
        loop {
            let row = match self.pending.take() {
                Some(row) => row,
                None if self.rows.position() >= self.stop => return Ok(None),
                None => match self.rows.next_row() {
                    Ok(Some(row)) => row,
                    Ok(None) => return Ok(None),
                    Err(stop) => {
                        self.stopped(stop)?;
                        continue;
                    }
                },
            };
            match self.judge(&row) {
                Ok(Some(at)) => return Ok(Some((row, at))),
                Ok(None) => {}
                Err(fault) => self.refuse(row.line, fault)?,
            }
        }
    }

    /// The row's time if it matches.
    #[inline]
    fn judge(&mut self, row: &Row) -> Result<Option<Timestamp>, Fault> {
        let columns = &*self.columns;
        if row.fields != columns.count {
            return Err(Fault::Fields { found: row.fields, expected: columns.count });
        }
        let bytes = self.rows.bytes(row);
        let field = raw_field(bytes, columns.time).unwrap_or_default();
        let Some(at) = self.stamps.read(&unquoted(field)) else {
            return Err(Fault::value(&columns.time_name, &unquoted(field), self.query.time_format.expected()));
        };
        let filter = &self.query.filter;
        if let Some(column) = columns.magnitude {
            let magnitude = magnitude(&unquoted(raw_field(bytes, column).unwrap_or_default()))?;
            if filter.min_magnitude.is_some_and(|least| magnitude.is_none_or(|found| found < least)) {
                return Ok(None);
            }
        }
        if let Some(column) = columns.kind {
            let kind = unquoted(raw_field(bytes, column).unwrap_or_default());
            if !filter.kinds.iter().any(|wanted| wanted.as_bytes().eq_ignore_ascii_case(&kind)) {
                return Ok(None);
            }
        }
        let in_time = filter.from.is_none_or(|from| at >= from) && filter.to.is_none_or(|to| at < to);
        Ok(in_time.then_some(at))
    }

    /// Passes over a row that is not one, or gives up.
    #[cold]
    fn stopped(&mut self, stop: Stop) -> Result<(), CatalogueError> {
        let read = |error| CatalogueError::reading(&self.file, error);
        match stop {
            Stop::Read(error) => Err(read(error)),
            Stop::Fault(fault, line) => {
                self.refuse(line, fault)?;
                self.rows.skip_line().map_err(|error| CatalogueError::reading(&self.file, error))
            }
        }
    }

    /// Counts a bad row, or gives up.
    #[cold]
    pub(super) fn refuse(&mut self, line: u64, fault: Fault) -> Result<(), CatalogueError> {
        if !self.query.skip_bad_rows {
            return Err(header::bad_row(&self.file, line, fault));
        }
        self.skipped.push(BadRow { file: self.file.clone(), line, fault });
        Ok(())
    }
}

/// The magnitude that a field states, `None` if it is empty.
#[inline]
pub(super) fn magnitude(field: &[u8]) -> Result<Option<Magnitude>, Fault> {
    if field.is_empty() {
        return Ok(None);
    }
    let parsed = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
    parsed.map(Some).ok_or_else(|| Fault::value("mag", field, "a magnitude: expected a number from -10 to 12"))
}
