//! Honest traffic: smaller versions of the published experiment.

use throttler::limiter::Algorithm::{self, FixedWindow, LeakyBucket, SlidingCounter, SlidingLog, TokenBucket};
use throttler::simulate::Work;
use throttler::simulate::clients::{Clients, ClientsResult, ClientsRow, Role};
use throttler::simulate::traffic::Shape::{self, BigBursts, PageLoads, SmallBursts, Steady};
use throttler::time::Span;

use crate::support::{assert_published, published_rate};

/// 8 runs of 300 minutes.
fn found(traffic: &[(Shape, u32)]) -> ClientsResult {
    let setup = Clients::published(published_rate(), 1);
    let setup = Clients { traffic: traffic.to_vec(), runs: 8, length: Span::from_seconds(300 * 60), ..setup };
    setup.run(&Work::QUIET).expect("an experiment")
}

fn row(found: &ClientsResult, traffic: (Shape, u32), algorithm: Algorithm, bucket: Option<u32>) -> ClientsRow {
    let wanted = |row: &&ClientsRow| {
        let limiter = (row.limit.algorithm(), row.limit.bucket(), row.role) == (algorithm, bucket, Role::Chosen);
        limiter && (row.shape, row.load_percent) == traffic
    };
    *found.rows.iter().find(wanted).expect("a row for each")
}

#[test]
fn steady_traffic_is_served_as_the_formulas_say() {
    let loads = [80, 100, 120].map(|load| (Steady, load));
    let found = found(&loads);
    for (algorithm, published) in [(SlidingLog, [99.60, 92.43, 80.37]), (FixedWindow, [99.94, 96.01, 83.23])] {
        for (traffic, published) in loads.into_iter().zip(published) {
            let row = row(&found, traffic, algorithm, None);
            assert_published(&format!("{algorithm} at {traffic:?}"), row.served, published);
            assert_published(&format!("{algorithm} at {traffic:?}, formula"), row.served, row.exact.expect("a formula") * 100.0);
        }
    }
    let counter = row(&found, (Steady, 80), SlidingCounter, None);
    assert_published("wrong rejects", counter.wrong_reject, 0.06);
    assert_published("wrong admits", counter.wrong_admit, 1.0);
}

#[test]
fn bursts_are_served_as_published() {
    let found = found(&[(PageLoads, 30), (PageLoads, 80), (BigBursts, 80), (SmallBursts, 80)]);
    let of = |traffic, algorithm, bucket| row(&found, traffic, algorithm, bucket);
    assert_published("page loads", of((PageLoads, 80), SlidingLog, None).served, 71.0);
    assert_published("few page loads", of((PageLoads, 30), SlidingLog, None).served, 91.0);
    assert_published("big bursts, log", of((BigBursts, 80), SlidingLog, None).served, 56.2);
    assert_published("big bursts, bucket", of((BigBursts, 80), TokenBucket, Some(50)).served, 54.2);
    let counter = of((PageLoads, 80), SlidingCounter, None);
    assert_published("wrong rejects", counter.wrong_reject, 12.0);
    assert_published("wrong admits", counter.wrong_admit, 8.1);
    let safe = found.rows.iter().find(|row| (row.shape, row.load_percent, row.role) == (PageLoads, 80, Role::BestSafe));
    let safe = safe.expect("the best safe bucket");
    assert_published("best safe bucket", safe.served, 59.8);
    assert!(safe.worst_window <= 100 && u64::from(safe.limit.burst() + safe.limit.rate().limit()) == 100, "{safe:?}");
    // The busiest minute of 300 is a little below that of 2,000.
    let busiest = |algorithm, bucket| of((SmallBursts, 80), algorithm, bucket).busiest_window.mean;
    assert!((125.0..=150.0).contains(&busiest(SlidingCounter, None)));
    assert!((146.0..=149.0).contains(&busiest(TokenBucket, Some(50))));
    assert!((168.0..=174.0).contains(&busiest(TokenBucket, Some(75))));
}

#[test]
fn no_limiter_breaks_its_own_promise() {
    let found = found(&Shape::ALL.map(|shape| (shape, 100)));
    for row in &found.rows {
        assert!(row.worst_window <= row.limit.promise().most_in_any_window, "{row:?}");
        assert!(row.admitted <= row.offered && row.busiest_window.mean <= row.worst_window as f64, "{row:?}");
        let literal = row.limit.algorithm() == SlidingLog;
        assert!(!literal || (row.wrong_reject.mean, row.wrong_admit.mean) == (0.0, 0.0), "the log is the rule: {row:?}");
    }
    // A queue takes in what the bucket admits, and lets it leave evenly.
    for bucket in [50, 75] {
        let of = |algorithm| row(&found, (PageLoads, 100), algorithm, Some(bucket));
        assert_eq!(of(LeakyBucket).admitted, of(TokenBucket).admitted);
        assert_eq!((of(LeakyBucket).worst_window, of(TokenBucket).worst_window), (100, u64::from(bucket) + 99));
    }
}

#[test]
fn gcra_admits_what_a_bucket_that_counts_its_tokens_admits() {
    let found = found(&Shape::ALL.map(|shape| (shape, 80)));
    assert_eq!((found.compared, found.same), (5 * 2 * 8, 5 * 2 * 8));
}

#[test]
fn the_traffic_asks_for_its_load() {
    for row in found(&Shape::ALL.map(|shape| (shape, 50))).rows {
        let expected = 8.0 * 300.0 * 50.0;
        let tolerance = if row.shape == Steady { 0.01 } else { 0.12 };
        assert!((row.offered as f64 / expected - 1.0).abs() < tolerance, "{} asks {} times", row.shape, row.offered);
    }
}
