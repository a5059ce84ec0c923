//! The right answers that are known: the tables of the limiters' definitions, on the catalogue and on three patterns.

use std::path::Path;

use throttler::limiter::{Algorithm, Limit, Limiter, Request, Verdict};
use throttler::time::Timestamp;

use crate::support::{SECOND, admitted, at, busiest, fits, parsed};

/// The shipped catalogue, and the fuller one that is only sometimes at hand.
const SHIPPED: &str = "data/quakes_2015_2025.csv";
const FULLER: &str = "../shared/data/reference_2015_2025_all_types.csv";

/// The times of a catalogue in its column `time`.
fn times_of(path: &Path) -> Vec<Timestamp> {
    let mut reader = csv::Reader::from_path(path).expect("a readable catalogue");
    let column = reader.headers().expect("headers").iter().position(|name| name == "time").expect("a column 'time'");
    let mut times: Vec<_> =
        reader.records().map(|record| record.expect("a row")[column].parse::<Timestamp>().expect("a time")).collect();
    times.sort_unstable();
    times
}

fn shipped() -> Vec<Timestamp> {
    times_of(Path::new(SHIPPED))
}

/// The two days of the M8.8 off Kamchatka.
fn two_days() -> Vec<Timestamp> {
    let (from, to): (Timestamp, Timestamp) =
        ("2025-07-29T12:00:00Z".parse().expect("a time"), "2025-07-31T12:00:00Z".parse().expect("a time"));
    shipped().into_iter().filter(|t| (from..to).contains(t)).collect()
}

/// Five an hour, with a bucket of this size where there is one.
fn five_an_hour(algorithm: Algorithm, bucket: u64) -> Limit {
    parsed(algorithm, "5/h", algorithm.has_bucket().then_some(bucket))
}

fn refused(limit: Limit, times: &[Timestamp]) -> usize {
    times.len() - admitted(limit, times).len()
}

/// What a token bucket of 5, a sliding log, a fixed window and both sliding counters refuse at 5/h.
fn refused_by_all(times: &[Timestamp]) -> [usize; 5] {
    let counter = five_an_hour(Algorithm::SlidingCounter, 5);
    [
        five_an_hour(Algorithm::TokenBucket, 5),
        five_an_hour(Algorithm::SlidingLog, 5),
        five_an_hour(Algorithm::FixedWindow, 5),
        counter,
        fits(counter),
    ]
    .map(|limit| refused(limit, times))
}

#[test]
fn eleven_years_at_five_an_hour() {
    let times = shipped();
    assert_eq!(times.len(), 18_738);
    assert_eq!(refused_by_all(&times)[..4], [197, 370, 276, 302]);
}

#[test]
fn the_fuller_catalogue_at_five_an_hour() {
    if !Path::new(FULLER).exists() {
        println!("skipped: {FULLER} is not here");
        return;
    }
    let times = times_of(Path::new(FULLER));
    assert_eq!(times.len(), 19_045);
    assert_eq!(refused_by_all(&times), [197, 371, 277, 303, 398]);
    assert_eq!([74, 73].map(|bucket| refused(five_an_hour(Algorithm::TokenBucket, bucket), &times)), [0, 1]);
}

#[test]
fn a_bucket_of_74_loses_nothing_and_one_of_73_a_single_event() {
    let times = shipped();
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        assert_eq!([74, 73].map(|bucket| refused(five_an_hour(algorithm, bucket), &times)), [0, 1], "{algorithm}");
    }
}

#[test]
fn the_smallest_lossless_buckets_of_other_rates() {
    let times = shipped();
    for (n, bucket) in [(1, 157), (2, 120), (3, 95), (5, 74), (7, 62), (10, 49), (20, 26), (38, 6)] {
        let limit = |b| parsed(Algorithm::TokenBucket, &format!("{n}/h"), Some(b));
        assert_eq!(refused(limit(bucket), &times), 0, "{n}/h with {bucket}");
        assert!(refused(limit(bucket - 1), &times) > 0, "{n}/h with {}", bucket - 1);
    }
}

#[test]
fn the_two_days_of_the_m8_8() {
    let times = two_days();
    assert_eq!(times.len(), 189);
    let counter = five_an_hour(Algorithm::SlidingCounter, 5);
    for (limit, expected) in [
        (five_an_hour(Algorithm::FixedWindow, 5), (114, 9)),
        (five_an_hour(Algorithm::SlidingLog, 5), (107, 5)),
        (counter, (111, 7)),
        (fits(counter), (99, 6)),
        (five_an_hour(Algorithm::TokenBucket, 5), (120, 9)),
    ] {
        let passed = admitted(limit, &times);
        let ticks: Vec<_> = passed.iter().map(|t| i128::from(t.ticks())).collect();
        assert_eq!(
            (passed.len(), busiest(&ticks, 3_600 * i128::from(SECOND))),
            expected,
            "{} {}",
            limit.algorithm(),
            limit.rule()
        );
    }
}

/// In exact departures, fractions of a tick included: never a sixth in a half-open hour.
#[test]
fn the_leaky_bucket_on_the_two_days_of_the_m8_8() {
    let limit = five_an_hour(Algorithm::LeakyBucket, 5);
    let Limiter::LeakyBucket(mut queue) = Limiter::new(limit) else { unreachable!("a leaky bucket") };
    let mut departures = Vec::new();
    let mut waits = Vec::new();
    for t in two_days() {
        let departure = queue.departure(t);
        if queue.admit(t, Request::ONE) == Verdict::Admitted {
            departures.push(departure.scaled);
            waits.push(departure.at(5).since(t).ticks());
        }
    }
    assert_eq!(departures.len(), 120);
    assert_eq!(waits.iter().filter(|wait| **wait > 0).count(), 87);
    assert_eq!(waits.iter().max().map(|ticks| ticks / 1_000_000), Some(2_871));
    assert_eq!(busiest(&departures, 5 * 3_600 * i128::from(SECOND)), 5);
}

/// Ten per 60 s: fixed window, log, counter by `below` and by `fits`, token bucket of ten.
fn patterns(seconds: &[i64]) -> [usize; 5] {
    let times: Vec<_> = seconds.iter().map(|second| at(second * SECOND)).collect();
    let of = |algorithm| parsed(algorithm, "10/60s", None);
    let counter = of(Algorithm::SlidingCounter);
    [of(Algorithm::FixedWindow), of(Algorithm::SlidingLog), counter, fits(counter), of(Algorithm::TokenBucket)]
        .map(|limit| admitted(limit, &times).len())
}

#[test]
fn pattern_a_ten_on_each_side_of_a_boundary() {
    let seconds = [[59; 10], [61; 10]].concat();
    assert_eq!(patterns(&seconds), [20, 10, 11, 10, 10]);
}

#[test]
fn pattern_b_one_a_second() {
    let seconds: Vec<_> = (0..120).collect();
    assert_eq!(patterns(&seconds), [20, 20, 20, 19, 29]);
}

/// Where a bucket in floating point admits 19: six refills of a sixth sum to 0.9999….
#[test]
fn pattern_c_ten_at_once_and_then_one_a_second() {
    let seconds: Vec<_> = [0; 10].into_iter().chain(1..=60).collect();
    let [fixed, log, counter, _, bucket] = patterns(&seconds);
    assert_eq!([fixed, log, counter, bucket], [11, 11, 10, 20]);
}
