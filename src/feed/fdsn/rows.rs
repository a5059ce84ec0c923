//! The CSV that the service answers with: which rows there are, byte for byte, with the id and the time of each.

use std::collections::HashSet;
use std::io::BufRead;

use csv::{ByteRecord, ReaderBuilder};
use url::Url;

use super::client::in_the_body;
use crate::feed::error::FeedError;
use crate::feed::wire;
use crate::time::Timestamp;

/// A catalogue's header and rows as they were served, without their line ends.
pub(super) struct Table<'a> {
    pub header: &'a [u8],
    /// Oldest first; those of one instant as they came.
    pub rows: Vec<Row<'a>>,
}

pub(super) struct Row<'a> {
    pub id: String,
    pub at: Timestamp,
    pub bytes: &'a [u8],
}

/// Reads an answer; `None` if it is empty, which means that nothing matches.
///
/// # Errors
/// [`FeedError::NotCatalogue`], or what a JSON document says instead; [`FeedError::CatalogueRow`] for a row that is cut off.
pub(super) fn read<'a>(url: &Url, body: &'a [u8]) -> Result<Option<Table<'a>>, FeedError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let begins = body.trim_ascii_start().first();
    if begins.is_none() {
        return Ok(None);
    }
    if matches!(begins, Some(b'{' | b'<')) {
        in_the_body(url, wire::parse(body))?;
    }
    let row_fault = |line, fault: &str| FeedError::CatalogueRow { url: url.to_string(), line, fault: fault.to_owned() };
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(body);
    let mut record = ByteRecord::new();
    let (mut columns, mut header): (Option<Columns>, &[u8]) = (None, b"");
    let mut rows = Vec::new();
    loop {
        let start = reader.position().clone();
        // A reader of bytes in memory, of records of any length, has nothing to complain of.
        if !reader.read_byte_record(&mut record).map_err(|fault| row_fault(start.line(), &wire::excerpt(&fault.to_string())))? {
            break;
        }
        let offset = |position: &csv::Position| usize::try_from(position.byte()).unwrap_or(usize::MAX).min(body.len());
        let bytes = body[offset(&start)..offset(reader.position())].trim_ascii();
        let Some(columns) = &columns else {
            columns = Some(Columns::find(url.as_str(), &record)?);
            header = bytes;
            continue;
        };
        let line = start.line();
        if record.len() != columns.count {
            return Err(row_fault(line, &format!("{} fields: expected {}, as in the header", record.len(), columns.count)));
        }
        let text = |column| std::str::from_utf8(record.get(column).unwrap_or_default()).unwrap_or_default();
        let (id, time) = (text(columns.id), text(columns.time));
        let at =
            time.parse().map_err(|_| row_fault(line, &format!("its time is '{}': expected RFC 3339", wire::excerpt(time))))?;
        if id.is_empty() {
            return Err(row_fault(line, "it has no id"));
        }
        rows.push(Row { id: id.to_owned(), at, bytes });
    }
    rows.sort_by_key(|row| row.at);
    Ok(Some(Table { header, rows }))
}

/// The header and the ids of rows that were written by us.
///
/// # Errors
/// As [`read`], with `name` for the file.
pub(super) fn read_ids(name: &str, mut input: impl BufRead) -> Result<(Vec<u8>, HashSet<String>), FeedError> {
    let fault = |line, fault: &str| FeedError::CatalogueRow { url: name.to_owned(), line, fault: fault.to_owned() };
    let mut header = Vec::new();
    input.read_until(b'\n', &mut header).map_err(|source| fault(1, &source.to_string()))?;
    header.truncate(header.trim_ascii_end().len());
    if header.is_empty() {
        return Ok((header, HashSet::new()));
    }
    let names = ReaderBuilder::new().has_headers(false).from_reader(&header[..]).into_byte_records().next();
    let columns = Columns::find(name, &names.and_then(Result::ok).unwrap_or_default())?;
    let mut ids = HashSet::new();
    for record in ReaderBuilder::new().has_headers(false).flexible(true).from_reader(input).into_byte_records() {
        let record = record.map_err(|source| fault(0, &source.to_string()))?;
        let id = record.get(columns.id).filter(|_| record.len() == columns.count);
        let id = id.ok_or_else(|| fault(record.position().map_or(0, csv::Position::line) + 1, "not a whole row"))?;
        ids.insert(String::from_utf8_lossy(id).into_owned());
    }
    Ok((header, ids))
}

/// Where the needed fields stand.
struct Columns {
    count: usize,
    id: usize,
    time: usize,
}

impl Columns {
    fn find(origin: &str, header: &ByteRecord) -> Result<Columns, FeedError> {
        let place = |name: &[u8]| header.iter().position(|field| field.trim_ascii().eq_ignore_ascii_case(name));
        match (place(b"id"), place(b"time")) {
            (Some(id), Some(time)) => Ok(Columns { count: header.len(), id, time }),
            _ => {
                let found = header.iter().map(String::from_utf8_lossy).collect::<Vec<_>>().join(",");
                Err(FeedError::NotCatalogue { url: origin.to_owned(), found: format!("'{}'", wire::excerpt(&found)) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let url = Url::parse("http://127.0.0.1/query").expect("a URL");
        match read(&url, text.as_bytes()) {
            Err(fault) => fault.to_string(),
            Ok(None) => "nothing".to_owned(),
            Ok(Some(table)) => table.rows.iter().map(|row| String::from_utf8_lossy(row.bytes) + "|").collect(),
        }
    }

    #[test]
    fn rows_are_kept_as_they_were_served() {
        let text = "time,id,place\r\n2015-01-02T00:00:00.000Z,b,\"x, \"\"y\"\"\"\r\n2015-01-01T00:00:00.500Z,a,Ō";
        assert_eq!(told(text), "2015-01-01T00:00:00.500Z,a,Ō|2015-01-02T00:00:00.000Z,b,\"x, \"\"y\"\"\"|");
        assert_eq!((told(""), told(" \n"), told("time,id\n")), ("nothing".into(), "nothing".into(), String::new()));
    }

    #[test]
    fn what_is_no_catalogue_is_named() {
        for (text, expected) in [
            ("<!DOCTYPE html><html>", "got an HTML page or XML"),
            ("Error 500: oops\n", "expected CSV with the columns id and time, got 'Error 500: oops'"),
            ("{\"metadata\":{\"status\":503,\"error\":\"busy\"}}", "the feed reports status 503: busy"),
            (
                "{\"metadata\":{\"status\":400,\"error\":\"9 matching events exceeds search limit of 5\"}}",
                "more events than it gives",
            ),
            ("time,id,place\n2015-01-01T00:00:00.000Z,a", "line 2: 2 fields: expected 3"),
            ("time,id\nyesterday,a\n", "line 2: its time is 'yesterday'"),
            ("time,id\n2015-01-01T00:00:00.000Z,\n", "line 2: it has no id"),
        ] {
            assert!(told(text).contains(expected), "{text}: {}", told(text));
        }
    }
}
