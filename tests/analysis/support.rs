//! Inputs for the tests: the shipped catalogue, fuller captures where they are present, and streams of bytes.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use throttler::catalogue::Source;
use throttler::rate::Rate;
use throttler::time::{Span, Timestamp};

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

/// The definition, pair by pair: the bucket, and whether a run attains the level.
pub fn bucket_by_pairs(rate: Rate, times: &[Timestamp]) -> u64 {
    let window = i128::from(rate.window().ticks());
    let most = (0..times.len()).flat_map(|i| (i..times.len()).map(move |j| (i, j))).map(|(i, j)| need(rate, times, i, j)).max();
    most.map_or(0, |need| u64::try_from((need + window - 1).div_euclid(window)).expect("positive"))
}

/// Tokens that the events `i..=j` need at once, times the window.
pub fn need(rate: Rate, times: &[Timestamp], i: usize, j: usize) -> i128 {
    let elapsed = i128::from(times[j].ticks() - times[i].ticks());
    (j - i + 1) as i128 * i128::from(rate.window().ticks()) - i128::from(rate.limit()) * elapsed
}

pub fn some_rate() -> impl Strategy<Value = Rate> {
    let ordinary = (1_u64..50, 1_u64..100).prop_map(|(limit, window)| (limit, Span::from_ticks(window)));
    let extreme = (1_u64..=u64::from(Rate::MAX_LIMIT), 1_u64..=Rate::MAX_WINDOW.ticks())
        .prop_map(|(limit, window)| (limit, Span::from_ticks(window)));
    prop_oneof![3 => ordinary, 1 => extreme].prop_map(|(limit, window)| Rate::new(limit, window).expect("in range"))
}

pub fn some_times() -> impl Strategy<Value = Vec<Timestamp>> {
    let close = prop::collection::vec(0_i64..300, 0..60);
    let far = prop::collection::vec(Timestamp::MIN.ticks()..=Timestamp::MAX.ticks(), 0..20);
    prop_oneof![3 => close, 1 => far].prop_map(|mut found| {
        found.sort_unstable();
        ticks(&found)
    })
}
