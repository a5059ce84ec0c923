//! Streams the times of the events that match, in constant memory: the fast way through a catalogue.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use super::error::{BadRow, BadRows, CatalogueError, Fault};
use super::header::{self, Columns, Opened, near_field, raw_field, unquoted};
use super::rows::{Row, Rows, Stop};
use super::stamp::StampReader;
use super::{Query, Source, parallel};
use crate::event::Magnitude;
use crate::time::Timestamp;

/// The most times that are handed on together.
pub const MAX_BATCH: usize = 8_192;

/// Is told how many bytes of the inputs have been read since it was last told, for a progress bar.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// Reads one input and gives `each` the times of the matching events, in reading order, in batches of at most
/// [`MAX_BATCH`]; when it breaks, reading ends. `threads` is how many parse a large file.
pub(super) fn scan_source(
    source: &mut Source,
    query: &Query,
    threads: usize,
    progress: Progress<'_>,
    each: &mut dyn FnMut(&[Timestamp]) -> ControlFlow<()>,
) -> Result<BadRows, CatalogueError> {
    let name = source.name();
    if let Source::File(path) = source
        && threads > 1
        // What is no ordinary file cannot be opened twice.
        && path.is_file()
    {
        return parallel::scan_file(path, &name, query, threads, progress, each);
    }
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
pub(super) struct Counted<'a, R> {
    pub input: R,
    pub progress: Progress<'a>,
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

    /// The rows that start before the byte `stop`, of an input whose columns are known. Lines count from that of `rows`.
    pub(super) fn of_rows(rows: Rows<R>, columns: Arc<Columns>, file: &str, query: &'q Query, stop: u64) -> Scanner<'q, R> {
        let stamps = StampReader::new(query.time_format);
        let (file, skipped) = (file.to_owned(), BadRows::default());
        Scanner { rows, columns, query, file, stamps, pending: None, stop, skipped }
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Gives the buffer of the rows back, and the rows that were skipped.
    pub(super) fn into_parts(self) -> (Vec<u8>, BadRows) {
        (self.rows.into_buffer(), self.skipped)
    }

    /// Where the next row starts, and on which line.
    pub(super) fn position(&self) -> (u64, u64) {
        (self.rows.position(), self.rows.line())
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
        let at = match self.stamps.read_at_start(bytes) {
            Some(at) if columns.time == 0 => at,
            _ => {
                let field = unquoted(raw_field(bytes, columns.time).unwrap_or_default());
                let expected = self.query.time_format.expected();
                self.stamps.read(&field).ok_or_else(|| Fault::value(&columns.time_name, &field, expected))?
            }
        };
        let filter = &self.query.filter;
        if let Some(column) = columns.magnitude {
            let near = self.rows.near_separators(row).and_then(|separators| near_field(bytes, separators, column));
            if filter.min_magnitude.is_some() || !near.is_some_and(is_short_magnitude) {
                let magnitude = match near.and_then(short_magnitude) {
                    Some(magnitude) => Some(magnitude),
                    None => magnitude(&unquoted(raw_field(bytes, column).unwrap_or_default()))?,
                };
                if filter.min_magnitude.is_some_and(|least| magnitude.is_none_or(|found| found < least)) {
                    return Ok(None);
                }
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

/// Whether [`short_magnitude`] has an answer.
#[inline]
fn is_short_magnitude(field: &[u8]) -> bool {
    match *field {
        [ones] => ones.is_ascii_digit(),
        [ones, b'.', tenths] => ones.is_ascii_digit() && tenths.is_ascii_digit(),
        [ones, b'.', tenths, hundredths] => [ones, tenths, hundredths].iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// The magnitude that a short plain field like `5`, `4.9` or `5.36` states: the same value as by the general way, because
/// a quotient of two exact numbers is rounded once.
#[inline]
fn short_magnitude(field: &[u8]) -> Option<Magnitude> {
    let digit = |byte: u8| Some(byte.wrapping_sub(b'0')).filter(|digit| *digit <= 9).map(f64::from);
    let value = match *field {
        [ones] => digit(ones)?,
        [ones, b'.', tenths] => (digit(ones)? * 10.0 + digit(tenths)?) / 10.0,
        [ones, b'.', tenths, hundredths] => (digit(ones)? * 100.0 + digit(tenths)? * 10.0 + digit(hundredths)?) / 100.0,
        _ => return None,
    };
    Magnitude::new(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_magnitudes_have_the_value_of_the_general_way() {
        for hundredths in 0..1_000 {
            let (ones, rest) = (hundredths / 100, hundredths % 100);
            for text in [format!("{ones}"), format!("{ones}.{}", rest / 10), format!("{ones}.{rest:02}")] {
                assert_eq!(short_magnitude(text.as_bytes()), text.parse().ok(), "{text}");
                assert!(is_short_magnitude(text.as_bytes()), "{text}");
            }
        }
        for text in ["", "-1", "12", "5.", ".5", "5.x", "5.123", "x", "5,1", "5e1"] {
            assert_eq!(short_magnitude(text.as_bytes()), None, "{text}");
            assert!(!is_short_magnitude(text.as_bytes()), "{text}");
        }
    }
}
