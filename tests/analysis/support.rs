//! Inputs for the tests: the shipped catalogue, fuller captures where they are present, and streams of bytes.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use throttler::catalogue::Source;
use throttler::rate::Rate;
use throttler::time::Timestamp;

pub fn rate(text: &str) -> Rate {
    text.parse().expect(text)
}

pub fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

pub fn ticks(ticks: &[i64]) -> Vec<Timestamp> {
    ticks.iter().map(|ticks| Timestamp::from_ticks(*ticks).expect("in range")).collect()
}

pub fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv")
}

/// A capture that is not part of the project; `None`, with a printed reason, where it is absent.
pub fn capture(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not there", path.display());
    None
}

pub fn file(path: PathBuf) -> Vec<Source> {
    vec![Source::File(path)]
}

pub fn stream(name: &str, text: impl Into<Vec<u8>>) -> Source {
    Source::Stream { name: name.to_owned(), input: Box::new(Cursor::new(text.into())) }
}
