//! Counting what was refused locks a retrying client out; not counting it does not.

use std::collections::VecDeque;

use throttler::limiter::Algorithm::{SlidingCounter, SlidingLog};
use throttler::simulate::lockout::{Lockout, LockoutRow};
use throttler::simulate::variants::{CountsRefused, Recording};
use throttler::simulate::{Stream, Work};
use throttler::time::{Span, Timestamp};

use crate::support::{assert_published, limit, published_rate};

fn found() -> Vec<LockoutRow> {
    let setup = Lockout { runs: 6, tries: vec![1, 5, 10, 60], ..Lockout::published(published_rate(), 1) };
    setup.run(&Work::QUIET).expect("an experiment")
}

#[test]
fn counting_refused_requests_locks_out_and_not_counting_them_does_not() {
    for row in found() {
        let served = row.served.mean;
        match row.recording {
            Recording::Admitted => assert!((0.945..=0.995).contains(&served), "{row:?}"),
            Recording::AdmittedAndRefused if row.pressure() >= 4.0 => assert!((0.01..=0.1).contains(&served), "{row:?}"),
            Recording::AdmittedAndRefused if row.pressure() <= 1.2 => assert!(served >= 0.9, "{row:?}"),
            Recording::AdmittedAndRefused => {}
        }
    }
}

#[test]
fn twenty_five_a_minute_as_published() {
    let found = found();
    let of = |tries, recording| {
        let row = found.iter().find(|row| {
            (row.load_percent, row.tries, row.recording, row.limit) == (25, tries, recording, limit(SlidingLog, "100/60s", None))
        });
        row.expect("a row for each").served
    };
    assert_published("five tries", of(5, Recording::AdmittedAndRefused), 95.0);
    assert_published("ten tries", of(10, Recording::AdmittedAndRefused), 3.9);
    assert_published("not counting", of(10, Recording::Admitted), 97.6);
}

/// The variant log is what it says: fewer than `n` requests of any kind in `(t - w, t]`.
#[test]
fn the_variant_log_counts_every_request() {
    let mut variant = CountsRefused::new(limit(SlidingLog, "3/10s", None), Recording::AdmittedAndRefused).expect("a variant");
    let mut all: VecDeque<Timestamp> = VecDeque::new();
    let mut now = Timestamp::from_ticks(0).expect("the epoch");
    let mut stream = Stream::new(7, 0);
    for _ in 0..5_000 {
        now = now.plus(Span::from_ticks(stream.exponential(3_500_000.0)));
        all.retain(|at| now.since(*at) < Span::from_seconds(10));
        assert_eq!(variant.admit(now), all.len() < 3, "at {now}");
        all.push_back(now);
    }
}

/// The variant counter, likewise, in whole numbers.
#[test]
fn the_variant_counter_counts_every_request() {
    let window = 10_000_000_i64;
    let mut variant = CountsRefused::new(limit(SlidingCounter, "3/10s", None), Recording::AdmittedAndRefused).expect("a variant");
    let (mut all, mut now, mut stream) = (Vec::new(), Timestamp::from_ticks(0).expect("the epoch"), Stream::new(8, 0));
    for _ in 0..5_000 {
        now = now.plus(Span::from_ticks(stream.exponential(3_500_000.0)));
        let (number, elapsed) = (now.ticks() / window, now.ticks() % window);
        let in_window =
            |wanted: i64| all.iter().rev().take(200).map(|at: &Timestamp| i64::from(at.ticks() / window == wanted)).sum::<i64>();
        let estimate_times_window = in_window(number - 1) * (window - elapsed) + in_window(number) * window;
        assert_eq!(variant.admit(now), estimate_times_window < 3 * window, "at {now}");
        all.push(now);
    }
}
