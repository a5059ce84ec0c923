//! The shipped catalogue, and the comparison with files.

use std::fs;
use std::path::{Path, PathBuf};

use throttler::catalogue::Source;
use throttler::rate::Rate;
use throttler::time::Timestamp;

pub fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

pub fn rate(text: &str) -> Rate {
    text.parse().expect(text)
}

pub fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub fn catalogue() -> Vec<Source> {
    vec![Source::File(project("data/quakes_2015_2025.csv"))]
}

/// Compares with a file of the project, or writes it where that is asked for.
pub fn assert_is_file(path: &str, found: &str) {
    let file = project(path);
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        fs::write(&file, found).expect("the picture can be written");
        return;
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if expected != found {
        let line = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
        let line = line.unwrap_or_else(|| expected.lines().count().min(found.lines().count()));
        panic!(
            "{path} differs from line {} on:\n  expected {:?}\n  found    {:?}",
            line + 1,
            expected.lines().nth(line),
            found.lines().nth(line)
        );
    }
}

/// Compares with `tests/plot/golden/NAME`.
pub fn assert_is_golden(name: &str, found: &str) {
    assert_is_file(&format!("tests/plot/golden/{name}"), found);
}
