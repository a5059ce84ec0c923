//! Finds the columns by name, and recognises what is no CSV at all.

use std::borrow::Cow;
use std::io::Read;

use super::error::{CatalogueError, Fault, shortened};
use super::rows::{Row, Rows, Stop};
use super::{BadRow, Query, TimeColumn};

/// Where in a row the needed fields stand, counted from 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    /// How many fields a row has.
    pub count: usize,
    pub time: usize,
    /// What messages call the time column.
    pub time_name: String,
    pub magnitude: Option<usize>,
    pub kind: Option<usize>,
    pub id: Option<usize>,
    /// As the header has them; empty without a header.
    pub names: Vec<String>,
}

/// A stream whose first row has been looked at.
pub(super) struct Opened<R> {
    pub rows: Rows<R>,
    pub columns: Columns,
    /// The first row, if it is no header.
    pub first: Option<Row>,
}

impl Columns {
    /// The place of the column of this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|found| found.eq_ignore_ascii_case(name))
    }
}

/// Reads the first row and finds the columns that `query` needs.
pub(super) fn open<R: Read>(input: R, file: &str, query: &Query) -> Result<Opened<R>, CatalogueError> {
    let mut rows = Rows::new(input, 0, 1, Vec::new());
    let beginning = rows.begin().map_err(|error| CatalogueError::reading(file, error))?;
    if let Some(found) = recognise(beginning) {
        return Err(CatalogueError::NotCsv { file: file.to_owned(), found });
    }
    let first = match rows.next_row() {
        Ok(first) => first,
        Err(Stop::Read(error)) => return Err(CatalogueError::reading(file, error)),
        Err(Stop::Fault(fault, line)) => return Err(bad_row(file, line, fault)),
    };
    let Some(row) = first else {
        return Ok(Opened { rows, columns: Columns::default(), first: None });
    };
    let bytes = rows.bytes(&row);
    if let TimeColumn::Number(number) = &query.time_column {
        let index = number.get() - 1;
        let Some(field) = raw_field(bytes, index) else {
            let column = number.to_string();
            let found = format!("{} columns", row.fields);
            return Err(CatalogueError::NoColumn { file: file.to_owned(), line: rows.line_of(&row), column, found });
        };
        if unquoted(field).first().is_none_or(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+')) {
            let columns = Columns { count: row.fields, ..Columns::default() };
            let columns = resolve(columns, file, rows.line_of(&row), query)?;
            return Ok(Opened { rows, columns, first });
        }
    }
    let names = fields(bytes).map(|field| String::from_utf8_lossy(&unquoted(field)).trim().to_owned()).collect();
    let columns = resolve(Columns { count: row.fields, names, ..Columns::default() }, file, rows.line_of(&row), query)?;
    Ok(Opened { rows, columns, first: None })
}

/// Finds what `query` needs, before any long work.
fn resolve(mut columns: Columns, file: &str, line: u64, query: &Query) -> Result<Columns, CatalogueError> {
    let needed = |columns: &Columns, name: &str| {
        let missing =
            || CatalogueError::NoColumn { file: file.to_owned(), line, column: name.to_owned(), found: listed(columns) };
        let place = columns.find(name).ok_or_else(missing)?;
        let twice = columns.names[place + 1..].iter().any(|other| other.eq_ignore_ascii_case(name));
        if twice {
            return Err(CatalogueError::TwiceColumn { file: file.to_owned(), line, column: name.to_owned() });
        }
        Ok(place)
    };
    (columns.time, columns.time_name) = match &query.time_column {
        TimeColumn::Name(name) => (needed(&columns, name.trim())?, name.trim().to_owned()),
        TimeColumn::Number(number) => (number.get() - 1, number.to_string()),
    };
    if query.filter.min_magnitude.is_some() || (query.is_usgs() && columns.find("mag").is_some()) {
        columns.magnitude = Some(needed(&columns, "mag")?);
    }
    if !query.filter.kinds.is_empty() {
        columns.kind = Some(needed(&columns, "type")?);
    }
    for name in &query.needs {
        needed(&columns, name)?;
    }
    columns.id = columns.find("id");
    Ok(columns)
}

fn listed(columns: &Columns) -> String {
    if columns.names.is_empty() {
        return format!("{} columns without a header", columns.count);
    }
    shortened(columns.names.join(", ").as_bytes())
}

/// What a stream is that begins like this, if not CSV.
fn recognise(beginning: &[u8]) -> Option<String> {
    let text = beginning.trim_ascii_start();
    let begins = |prefix: &[u8]| text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let first_line = || shortened(text.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii());
    if begins(b"<!doctype") || begins(b"<html") {
        Some(format!("an HTML page ('{}')", first_line()))
    } else if begins(b"<?xml") {
        Some("an XML document".to_owned())
    } else if begins(b"{") {
        Some("JSON".to_owned())
    } else if begins(b"\x1f\x8b") {
        Some("compressed with gzip".to_owned())
    } else if begins(b"error ") && text.get(6).is_some_and(u8::is_ascii_digit) {
        Some(format!("the error text '{}'", first_line()))
    } else {
        None
    }
}

pub(super) fn bad_row(file: &str, line: u64, fault: Fault) -> CatalogueError {
    CatalogueError::Row(BadRow { file: file.to_owned(), line, fault })
}

/// The fields of a row that `Rows` gave, as they stand, with their quotes.
pub(super) fn fields(row: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(row);
    std::iter::from_fn(move || {
        let row = rest?;
        let (field, after) = split_field(row);
        rest = after;
        Some(field)
    })
}

/// One field, as it stands, if its end is among the separators of the row's first 64 bytes.
#[expect(clippy::inline_always, reason = "a call would take as long as it does")]
#[inline(always)]
pub(super) fn near_field(row: &[u8], mut separators: u64, index: usize) -> Option<&[u8]> {
    let mut start = 0;
    if let Some(between) = index.checked_sub(1) {
        for _ in 0..between {
            separators &= separators.wrapping_sub(1);
        }
        start = separators.trailing_zeros() as usize + 1;
        separators &= separators.wrapping_sub(1);
    }
    row.get(start..separators.trailing_zeros() as usize).filter(|_| separators != 0)
}

/// One field, as it stands.
#[inline]
pub(super) fn raw_field(row: &[u8], index: usize) -> Option<&[u8]> {
    let mut rest = row;
    for _ in 0..index {
        rest = split_field(rest).1?;
    }
    Some(split_field(rest).0)
}

/// The first field and what stands behind its comma.
#[inline]
fn split_field(row: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut from = 0;
    if row.first() == Some(&b'"') {
        // The row is well formed: a comma behind an even number of quotes is a separator.
        let mut inside = false;
        from = row
            .iter()
            .position(|byte| {
                (*byte == b',' && !inside) || {
                    inside ^= *byte == b'"';
                    false
                }
            })
            .unwrap_or(row.len());
    }
    match memchr::memchr(b',', &row[from..]) {
        Some(comma) => (&row[..from + comma], Some(&row[from + comma + 1..])),
        None => (row, None),
    }
}

/// What a field says: without the quotes around it, and each doubled one once.
#[inline]
pub(super) fn unquoted(field: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = field.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return Cow::Borrowed(field);
    };
    if memchr::memchr(b'"', inner).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut text = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        text.push(*byte);
        if *byte == b'"' {
            bytes.next();
        }
    }
    Cow::Owned(text)
}
