//! One limit over several servers, in smaller versions of the published experiment.

use throttler::limiter::Algorithm::{self, SlidingLog, TokenBucket};
use throttler::simulate::Work;
use throttler::simulate::split::{Split, SplitRow, Unsynchronised, UnsynchronisedRow};
use throttler::simulate::traffic::Shape;
use throttler::simulate::variants::Sharing;
use throttler::time::Span;

use crate::support::{assert_published, published_rate};

fn found() -> Vec<SplitRow> {
    let setup = Split { runs: 8, length: Span::from_seconds(400 * 60), ..Split::published(published_rate(), 1) };
    setup.run(&Work::QUIET).expect("an experiment")
}

fn row(found: &[SplitRow], shape: Shape, algorithm: Algorithm, servers: u32) -> SplitRow {
    let row = found.iter().find(|row| (row.shape, row.limit.algorithm(), row.servers) == (shape, algorithm, servers));
    *row.expect("a row for each")
}

#[test]
fn shares_of_a_log_lose_what_erlang_says() {
    let found = found();
    for (servers, published) in [(1, 99.6), (4, 95.0), (10, 87.9), (20, 80.2)] {
        let row = row(&found, Shape::Steady, SlidingLog, servers);
        assert_published(&format!("{servers} servers"), row.served, published);
        assert_published(&format!("{servers} servers, formula"), row.served, row.exact.expect("a formula") * 100.0);
    }
}

#[test]
fn page_loads_and_buckets_lose_little() {
    let found = found();
    for (servers, published) in [(1, 71.0), (10, 67.7)] {
        assert_published("page loads", row(&found, Shape::PageLoads, SlidingLog, servers).served, published);
    }
    for (servers, published) in [(1, 100.0), (10, 99.6)] {
        assert_published("buckets", row(&found, Shape::Steady, TokenBucket, servers).served, published);
    }
}

#[test]
fn what_does_not_divide_is_still_all_shared_out() {
    let setup = Split {
        servers: vec![7],
        shapes: vec![Shape::Steady],
        load_percent: 1_000,
        runs: 1,
        length: Span::from_seconds(3_600),
        ..Split::published(published_rate(), 3)
    };
    let found = setup.run(&Work::QUIET).expect("an experiment");
    // At ten times the limit every server fills every one of the sixty windows.
    assert_eq!(row(&found, Shape::Steady, Algorithm::FixedWindow, 7).admitted, 60 * 100);
}

#[test]
fn separate_steps_let_more_through_with_more_servers_and_longer_gaps_and_an_atomic_step_does_not() {
    let setup = Unsynchronised { rushes: 20, ..Unsynchronised::usual(published_rate(), 1).expect("a limit") };
    let found = setup.run(&Work::QUIET).expect("an experiment");
    let of = |sharing, servers, gap| {
        let wanted = |row: &&UnsynchronisedRow| (row.sharing, row.servers, row.gap) == (sharing, servers, Span::from_millis(gap));
        found.iter().find(wanted).expect("a row for each").busiest_window.mean
    };
    for row in &found {
        let alone_or_atomic = row.servers == 1 || row.sharing == Sharing::Atomic;
        assert!(!alone_or_atomic || row.worst_window <= 100, "{row:?}");
    }
    let servers = [1, 2, 4, 10, 20].map(|servers| of(Sharing::Separate, servers, 5));
    assert!(servers.is_sorted_by(|fewer, more| fewer < more) && servers[4] > 2.0 * servers[0], "{servers:?}");
    let gaps = [1, 2, 5].map(|gap| of(Sharing::Separate, 20, gap));
    assert!(100.0 < gaps[0] && gaps[0] < gaps[1] && gaps[1] < gaps[2], "{gaps:?}");
}
