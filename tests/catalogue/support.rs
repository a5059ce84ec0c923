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

/// Reads bytes as a stream called `test.csv`.
pub fn read(bytes: &[u8], query: &Query) -> Result<Vec<Timestamp>, CatalogueError> {
    let source = Source::Stream { name: "test.csv".to_owned(), input: Box::new(Cursor::new(bytes.to_vec())) };
    read_times(&mut [source], query, 1, &|_| ()).map(|(times, _)| times)
}

pub fn read_file(file: &NamedTempFile, query: &Query, threads: usize) -> Outcome {
    outcome(read_times(&mut [Source::File(file.path().to_owned())], query, threads, &|_| ()))
}

pub fn saved(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("written");
    file
}
