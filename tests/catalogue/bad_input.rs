//! Everything that can be wrong with a file is named with its place, its value and what was expected.

use throttler::catalogue::{Blame, CatalogueError, Filter, MAX_REPORTED_ROWS, MAX_ROW_BYTES, Query, Source, read_times};

use crate::support::{read, saved};

const HEADER: &str = "time,latitude,mag,place\n";
const GOOD: &str = "2025-01-01T00:00:00.000Z,1.5,5.0,\"a, b\"\n";

fn error(text: &str, query: &Query) -> CatalogueError {
    read(text.as_bytes(), query).expect_err("bad input")
}

#[test]
fn a_bad_row_is_named_by_file_line_column_and_value() {
    for (row, message) in [
        ("yesterday,1,5,x\n", "line 5, column time: 'yesterday' is not a time: expected RFC 3339"),
        (",1,5,x\n", "line 5, column time: '' is not a time"),
        ("2025-02-30T00:00:00.000Z,1,5,x\n", "column time: '2025-02-30T00:00:00.000Z' is not a time"),
        ("2025-01-01,1,five,x\n", "line 5, column mag: 'five' is not a magnitude: expected a number from -10 to 12"),
        ("2025-01-01,1,99,x\n", "line 5, column mag: '99' is not a magnitude"),
        ("2025-01-01,1,5\n", "line 5: the row has 3 fields; expected 4, as in the first row"),
        ("2025-01-01\n", "line 5: the row has 1 field; expected 4"),
        ("2025-01-01,1,5,x,y\n", "line 5: the row has 5 fields; expected 4"),
        ("2025-01-01,1,5,x\"y\"\n", "line 5: a stray quote"),
        ("2025-01-01,1,5,\"x\"y\n", "line 5: a stray quote"),
        ("2025-01-01,1,5,\"x\n", "line 5: a stray quote"),
        ("2025-01-01,1\r,5,x\n", "line 5: a stray carriage return"),
    ] {
        // The second good row holds a line feed, so the bad one starts on line 5.
        let text = format!("{HEADER}{GOOD}2025-01-01,1,,\"two\nlines\"\n{row}{GOOD}");
        let error = error(&text, &Query::default());
        assert!(error.to_string().starts_with("test.csv, line 5"), "{error}");
        assert!(error.to_string().contains(message), "{row:?}: {error}");
        assert_eq!(error.blame(), Blame::Data);
    }
}

#[test]
fn a_quote_that_is_never_closed_is_named_where_its_row_starts() {
    let open = error(&format!("{HEADER}{GOOD}2025-01-01,1,5,\"x\n2025-01-01,1,5,x\n"), &Query::default());
    assert_eq!(open.to_string(), "test.csv, line 3: a quote is opened and never closed; expected a closing quote");
    let long = error(&format!("{HEADER}{GOOD}2025-01-01,1,5,\"{}", "x\n".repeat(MAX_ROW_BYTES)), &Query::default());
    assert_eq!(long.to_string(), "test.csv, line 3: the row is longer than 1048576 bytes; expected a closing quote before");
}

#[test]
fn a_long_or_strange_value_is_shortened_and_made_visible() {
    let error = error(&format!("{HEADER}\u{1b}[31m{},1,5,x\n", "y".repeat(1_000)), &Query::default());
    assert!(error.to_string().contains(&format!("'\\u{{1b}}[31m{}…'", "y".repeat(35))), "{error}");
}

#[test]
fn bad_rows_are_skipped_and_counted_on_request() {
    let bad = "yesterday,1,5,x\n2025-01-01,1,five,x\n2025-01-01,1,5,\"x\n2025-01-01,1,5,x\"y\n2025-01-01\n,1,5,x\n";
    let text = format!("{HEADER}{GOOD}{bad}{GOOD}2025-01-01,1,5,\"open\n");
    let file = saved(text.as_bytes());
    let query = Query { skip_bad_rows: true, ..Query::default() };
    let mut sources = [Source::File(file.path().to_owned())];
    let (times, reading) = read_times(&mut sources, &query, 1, &|_| ()).expect("good rows");
    assert_eq!((times.len(), reading.bad_rows.count), (2, 7));
    let lines: Vec<_> = reading.bad_rows.first.iter().map(|row| row.line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7]);
    assert_eq!(lines.len(), MAX_REPORTED_ROWS);
}

#[test]
fn what_is_no_csv_is_recognised() {
    for (text, found) in [
        ("<!DOCTYPE html>\n<html><body>Gateway Timeout</body></html>", "an HTML page ('<!DOCTYPE html>')"),
        ("\u{feff}\n  <HTML>busy</HTML>", "an HTML page"),
        (
            "Error 400: Bad Request\n\n286412 matching events exceeds search limit of 20000.",
            "the error text 'Error 400: Bad Request'",
        ),
        ("{\"type\":\"FeatureCollection\"}", "JSON"),
        ("<?xml version=\"1.0\"?><q:quakeml/>", "an XML document"),
        ("\u{1f}", "no column time"),
    ] {
        let error = error(text, &Query::default());
        assert!(error.to_string().contains(found), "{error}");
        assert_eq!(error.blame(), Blame::Data);
    }
    let error = read(b"\x1f\x8b\x08\0\0\0\0\0", &Query::default()).expect_err("gzip");
    assert!(error.to_string().contains("compressed with gzip"), "{error}");
}

#[test]
fn what_is_no_csv_is_recognised_in_whatever_pieces_it_comes() {
    // Found by fuzzing: the excerpt, and behind blanks the page itself, depended on how much the first read gave.
    let long = format!("<html>{}Gateway Timeout</html>", " ".repeat(30));
    for text in [format!("{}<html>busy</html>", "\n".repeat(200)), long.repeat(30), format!("{{{}", " ".repeat(300))] {
        let whole = read(text.as_bytes(), &Query::default()).expect_err("no catalogue").to_string();
        assert!(whole.contains("an HTML page ('<html>") || whole.contains("JSON"), "{whole}");
        for size in [1, 7, 64, 1_000] {
            let input = Box::new(Pieces { bytes: text.clone().into_bytes(), at: 0, size });
            let mut sources = [Source::Stream { name: "test.csv".into(), input }];
            let pieces = read_times(&mut sources, &Query::default(), 1, &|_| ()).expect_err("no catalogue").to_string();
            assert_eq!(pieces, whole, "{size} bytes at a time");
        }
    }
}

/// Gives so many bytes at a time.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
    size: usize,
}

impl std::io::Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let end = self.bytes.len().min(self.at + self.size.min(buffer.len()));
        buffer[..end - self.at].copy_from_slice(&self.bytes[self.at..end]);
        Ok(end - std::mem::replace(&mut self.at, end))
    }
}

#[test]
fn a_missing_file_says_how_to_get_one() {
    let mut sources = [Source::File("no/such/catalogue.csv".into())];
    let error = read_times(&mut sources, &Query::default(), 2, &|_| ()).expect_err("no file");
    assert!(error.to_string().contains("no/such/catalogue.csv: there is no such file"), "{error}");
    assert!(error.to_string().contains("throttler catalog fetch"), "{error}");
    assert_eq!(error.blame(), Blame::Reading);
    let mut sources = [Source::File(std::env::temp_dir())];
    let error = read_times(&mut sources, &Query::default(), 2, &|_| ()).expect_err("a directory");
    assert_eq!(error.blame(), Blame::Reading);
}

#[test]
fn a_column_that_a_filter_needs_is_asked_for_before_any_row_is_read() {
    let by_magnitude = Filter { min_magnitude: Some("5".parse().expect("a magnitude")), ..Filter::default() };
    let by_type = Filter { kinds: vec!["earthquake".to_owned()], ..Filter::default() };
    for (filter, column) in [(by_magnitude, "mag"), (by_type, "type")] {
        let bad = saved(b"time,mag,type\nyesterday,5,earthquake\n");
        let without = saved(b"time,place\n2025-01-01,x\n");
        let mut both = [&bad, &without].map(|file| Source::File(file.path().to_owned()));
        let error = read_times(&mut both, &Query { filter, ..Query::default() }, 1, &|_| ()).expect_err("no column");
        assert!(error.to_string().contains(&format!("line 1: there is no column {column}, only time, place")), "{error}");
        assert_eq!(error.blame(), Blame::Data);
    }
    let twice = error("time,mag,time\n", &Query::default());
    assert!(twice.to_string().contains("line 1: column time stands twice"), "{twice}");
    let none = error("id,place\n", &Query::default());
    assert!(none.to_string().contains("no column time, only id, place"), "{none}");
}
