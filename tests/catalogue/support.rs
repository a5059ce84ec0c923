//! Ways to read the same bytes.

use std::io::{Cursor, Write};

use tempfile::NamedTempFile;
use throttler::catalogue::{BadRows, CatalogueError, Query, Source, read_times};
use throttler::time::Timestamp;

/// What reading gives: the times and the skipped rows, or the message.
pub type Outcome = Result<(Vec<Timestamp>, BadRows), String>;

pub fn outcome(found: Result<(Vec<Timestamp>, throttler::catalogue::Reading), CatalogueError>) -> Outcome {
    found.map(|(times, reading)| (times, reading.bad_rows)).map_err(|error| error.to_string())
}

fn stream(name: &str, bytes: &[u8]) -> Source {
    Source::Stream { name: name.to_owned(), input: Box::new(Cursor::new(bytes.to_vec())) }
}

/// Reads bytes as a stream called `test.csv`.
pub fn read(bytes: &[u8], query: &Query) -> Result<Vec<Timestamp>, CatalogueError> {
    read_times(&mut [stream("test.csv", bytes)], query, 1, &|_| ()).map(|(times, _)| times)
}

/// The same beside an empty catalogue, so that the ids matter and each row is looked at by itself.
pub fn read_row_by_row(bytes: &[u8], query: &Query) -> Result<Vec<Timestamp>, CatalogueError> {
    let mut sources = [stream("test.csv", bytes), stream("empty.csv", b"time,mag,id\n")];
    read_times(&mut sources, query, 1, &|_| ()).map(|(times, _)| times)
}

pub fn read_file(file: &NamedTempFile, query: &Query, threads: usize) -> Outcome {
    outcome(read_times(&mut [Source::File(file.path().to_owned())], query, threads, &|_| ()))
}

pub fn saved(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("written");
    file
}
