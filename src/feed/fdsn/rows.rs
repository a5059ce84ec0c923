//! The CSV that the service answers with: which rows there are, byte for byte, with the id and the time of each.

use std::collections::HashSet;
use std::io::{BufRead, Read as _};

use url::Url;

use super::client::in_the_body;
use crate::feed::error::FeedError;
use crate::feed::lines::{CSV, MAX_LINE_BYTES, Splitter, lines};
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
    let mut lines = lines(body);
    let (_, header) = lines.next().unwrap_or_default();
    let mut columns = Columns::find(url.as_str(), header)?;
    let mut rows = Vec::new();
    for (line, bytes) in lines {
        let (id, time) = columns.of(bytes).map_err(|fault| row_fault(line, &fault))?;
        let at =
            time.parse().map_err(|_| row_fault(line, &format!("its time is '{}': expected RFC 3339", wire::excerpt(&time))))?;
        rows.push(Row { id, at, bytes });
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
    let mut line = |number| {
        let mut line = Vec::new();
        let read = input.by_ref().take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line);
        read.map_err(|source| fault(number, &source.to_string())).map(|_| line)
    };
    let header = line(1)?.trim_ascii_end().to_vec();
    if header.is_empty() {
        return Ok((header, HashSet::new()));
    }
    let mut columns = Columns::find(name, &header)?;
    let mut ids = HashSet::new();
    for number in 2.. {
        let line = line(number)?;
        if line.is_empty() {
            break;
        }
        ids.insert(columns.of(line.trim_ascii_end()).map_err(|found| fault(number, &found))?.0);
    }
    Ok((header, ids))
}

/// Where the needed fields stand.
struct Columns {
    splitter: Splitter,
    count: usize,
    id: usize,
    time: usize,
}

impl Columns {
    fn find(origin: &str, header: &[u8]) -> Result<Columns, FeedError> {
        let mut splitter = Splitter::new(CSV);
        let names = splitter.fields(header).unwrap_or_default();
        let place = |name: &str| names.iter().position(|field| field.eq_ignore_ascii_case(name));
        let Some((id, time)) = place("id").zip(place("time")) else {
            let found = format!("'{}'", wire::excerpt(&String::from_utf8_lossy(header)));
            return Err(FeedError::NotCatalogue { url: origin.to_owned(), found });
        };
        Ok(Columns { splitter, count: names.len(), id, time })
    }

    /// The id and the time of a row, or what is wrong with it.
    fn of(&mut self, row: &[u8]) -> Result<(String, String), String> {
        let mut row = self.splitter.fields(row)?;
        if row.len() != self.count {
            return Err(format!("{} fields: expected {}, as in the header", row.len(), self.count));
        }
        let mut take = |column: usize| std::mem::take(&mut row[column]);
        match take(self.id) {
            id if id.is_empty() => Err("it has no id".to_owned()),
            id => Ok((id, take(self.time))),
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
