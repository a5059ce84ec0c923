//! Streams the times of the events that match, in constant memory: the fast way through a catalogue.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::sync::Arc;

use fearless_simd::dispatch;

use super::error::{BadRow, BadRows, CatalogueError, Fault};
use super::header::{self, Columns, Opened, near_field, raw_field, unquoted};
use super::rows::{Row, Rows, Stop, TakeRow};
use super::stamp::StampReader;
use super::{Query, Source, TimeFormat, parallel};
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
    while scanner.fill(&mut batch, MAX_BATCH)? {
        if each(&batch).is_break() {
            break;
        }
        batch.clear();
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

    /// The physical line on which the row starts.
    pub(super) fn line_of(&self, row: &Row) -> u64 {
        self.rows.line_of(row)
    }

    /// What the row's id field says; nothing without such a column.
    pub(super) fn id(&self, row: &Row) -> Cow<'_, [u8]> {
        let field = self.columns.id.and_then(|column| raw_field(self.rows.bytes(row), column));
        unquoted(field.unwrap_or_default())
    }

    pub(super) fn bytes(&self, row: &Row) -> &[u8] {
        self.rows.bytes(row)
    }

    /// Adds the next times to `batch` until it has `most`, or there are no more: `false` if it stays empty.
    pub(super) fn fill(&mut self, batch: &mut Vec<Timestamp>, most: usize) -> Result<bool, CatalogueError> {
        while batch.len() < most {
            if self.pending.is_none() {
                self.take_usual(batch, most);
            }
            if batch.len() == most {
                break;
            }
            match self.next_match()? {
                Some((_, at)) => batch.push(at),
                None => break,
            }
        }
        Ok(!batch.is_empty())
    }

    /// Takes rows that have been found already, as long as they are of the usual form; every other row, good or bad, is left
    /// to [`Scanner::judge`].
    fn take_usual(&mut self, batch: &mut Vec<Timestamp>, most: usize) {
        let (columns, filter) = (&*self.columns, &self.query.filter);
        if columns.time != 0 || columns.kind.is_some() || self.query.time_format != TimeFormat::Rfc3339 {
            return;
        }
        // Room for all of them is made beforehand, which is cheaper than looking for it row by row.
        let known = batch.len();
        batch.resize(known.saturating_add(self.rows.ready()).min(most), Timestamp::MIN);
        let mut usual = Usual {
            stamps: self.stamps.clone(),
            fields: columns.count,
            magnitude: columns.magnitude,
            least: filter.min_magnitude,
            from: filter.from.unwrap_or(Timestamp::MIN),
            end: filter.to.map_or(i64::MAX, Timestamp::ticks),
            times: &mut batch[known..],
            taken: 0,
        };
        let (rows, stop) = (&mut self.rows, self.stop);
        dispatch!(rows.level(), _ => rows.take_while(stop, &mut usual));
        self.stamps = usual.stamps;
        let taken = usual.taken;
        batch.truncate(known + taken);
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
                Err(fault) => self.refuse(self.line_of(&row), fault)?,
            }
        }
    }

    /// The row's time if it matches.
    fn judge(&mut self, row: &Row) -> Result<Option<Timestamp>, Fault> {
        let (columns, filter) = (&*self.columns, &self.query.filter);
        if row.fields != columns.count {
            return Err(Fault::Fields { found: row.fields, expected: columns.count });
        }
        let bytes = self.rows.bytes(row);
        let field = |column| unquoted(raw_field(bytes, column).unwrap_or_default());
        let stamp = field(columns.time);
        let not_a_time = || Fault::value(&columns.time_name, &stamp, self.query.time_format.expected());
        let at = self.stamps.read(&stamp).ok_or_else(not_a_time)?;
        if let Some(column) = columns.magnitude {
            let magnitude = magnitude(&field(column))?;
            if filter.min_magnitude.is_some_and(|least| magnitude.is_none_or(|found| found < least)) {
                return Ok(None);
            }
        }
        if let Some(column) = columns.kind {
            let kind = field(column);
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

/// Takes rows of the usual form, as nearly all are: the time first, a short magnitude near it.
struct Usual<'b> {
    stamps: StampReader,
    fields: usize,
    magnitude: Option<usize>,
    least: Option<Magnitude>,
    from: Timestamp,
    /// The first tick that is too late.
    end: i64,
    /// Where the times of those that match go, and how many did.
    times: &'b mut [Timestamp],
    taken: usize,
}

impl TakeRow for Usual<'_> {
    #[expect(clippy::inline_always, reason = "the caller decides for which processor it is compiled")]
    #[inline(always)]
    fn take(&mut self, row: &[u8], fields: usize, separators: u64) -> Option<()> {
        if fields != self.fields {
            return None;
        }
        let next = self.times.get_mut(self.taken)?;
        let at = self.stamps.read_at_start(row)?;
        let mut matches = at >= self.from && at.ticks() < self.end;
        if let Some(column) = self.magnitude {
            let hundredths = near_field(row, separators, column).and_then(short_magnitude)?;
            if let Some(least) = self.least {
                matches &= hundredths_as_magnitude(hundredths)? >= least;
            }
        }
        // Written down in any case, and kept if it matches.
        *next = at;
        self.taken += usize::from(matches);
        Some(())
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

/// The hundredths in a short plain field like `5`, `4.9` or `5.36`, of which there are as many as rows.
#[expect(clippy::inline_always, reason = "a call would take as long as it does")]
#[inline(always)]
fn short_magnitude(field: &[u8]) -> Option<u32> {
    let text = match *field {
        [_, _, _, _] => u32::from_le_bytes(*field.first_chunk()?),
        [ones, point, tenths] => u32::from_le_bytes([ones, point, tenths, b'0']),
        [ones] => u32::from_le_bytes([ones, b'.', b'0', b'0']),
        _ => return None,
    };
    // What is left of each byte after subtracting the form: a digit or, of the point, nothing.
    let digits = text ^ u32::from_le_bytes(*b"0.00");
    // Adding lifts the top bit of each byte that is more.
    if (digits | digits.wrapping_add(0x7676_7f76)) & 0x8080_8080 != 0 {
        return None;
    }
    let [ones, _, tenths, hundredths] = digits.to_le_bytes().map(u32::from);
    Some(ones * 100 + tenths * 10 + hundredths)
}

/// The same value as by the general way, because a quotient of two exact numbers is rounded once.
#[inline]
fn hundredths_as_magnitude(hundredths: u32) -> Option<Magnitude> {
    Magnitude::new(f64::from(hundredths) / 100.0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(text: &str) -> Option<Magnitude> {
        short_magnitude(text.as_bytes()).and_then(hundredths_as_magnitude)
    }

    #[test]
    fn short_magnitudes_have_the_value_of_the_general_way() {
        for hundredths in 0..1_000 {
            let (ones, rest) = (hundredths / 100, hundredths % 100);
            for text in [format!("{ones}"), format!("{ones}.{}", rest / 10), format!("{ones}.{rest:02}")] {
                assert_eq!(short(&text), text.parse().ok(), "{text}");
            }
        }
        for text in ["", "-1", "12", "5.", ".5", "5.x", "5.123", "x", "5,1", "5e1", "x.5", "5.5x", ".55", "5..5"] {
            assert_eq!(short(text), None, "{text}");
        }
    }
}
