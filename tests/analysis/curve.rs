//! The rate–bucket curve.

use proptest::prelude::*;
use throttler::analysis::{Corner, curve, needs};
use throttler::catalogue::{Query, read_times};
use throttler::rate::Rate;
use throttler::time::{Span, Timestamp};

use crate::support::{bucket_by_pairs, file, rate, shipped, some_times};

/// What a corner's run needs at a rate, times the rate's window.
fn need_of(corner: &Corner, rate: Rate) -> i128 {
    let run = corner.critical_run;
    let window = i128::from(rate.window().ticks());
    i128::from(run.events) * window - i128::from(rate.limit()) * i128::from(run.duration().ticks())
}

/// Whether the corner's rate is at most this one.
fn is_at_most(corner: &Corner, rate: Rate) -> bool {
    let product = |limit: u64, ticks: u64| u128::from(limit) * u128::from(ticks);
    product(corner.rate.limit(), rate.window().ticks()) <= product(u64::from(rate.limit()), corner.rate.window().ticks())
}

fn bucket_on(corners: &[Corner], rate: Rate) -> u64 {
    let corner = corners.iter().rfind(|corner| is_at_most(corner, rate)).expect("a rate within the curve");
    let window = i128::from(rate.window().ticks());
    u64::try_from((need_of(corner, rate) + window - 1) / window).expect("positive")
}

#[test]
fn the_curve_of_eleven_years_passes_through_every_known_bucket() {
    let (times, _) = read_times(&mut file(shipped()), &Query::default(), 1, &|_| ()).expect("the shipped catalogue");
    let corners = curve(&times, rate("1/h"), rate("38/h"));
    for (limit, bucket) in [(1, 157), (2, 120), (3, 95), (5, 74), (7, 62), (10, 49), (20, 26), (38, 6)] {
        assert_eq!(bucket_on(&corners, rate(&format!("{limit}/h"))), bucket, "{limit}/h");
    }
    let ends = [corners.first(), corners.last()].map(|corner| corner.map(|corner| (corner.rate.to_string(), corner.bucket)));
    assert_eq!(ends, [Some(("1/h".to_owned(), 157)), Some(("38/h".to_owned(), 6))]);
    let hour = Span::from_seconds(3_600);
    assert!(corners.is_sorted_by(|earlier, later| earlier.rate.per(hour) < later.rate.per(hour)));
    assert!(corners.is_sorted_by(|earlier, later| earlier.level > later.level));
    let slopes: Vec<_> = corners
        .windows(2)
        .map(|pair| (pair[1].level - pair[0].level) / (pair[1].rate.per(hour) - pair[0].rate.per(hour)))
        .collect();
    assert!(slopes.is_sorted_by(|earlier, later| earlier < later), "the curve is convex and every corner is one: {slopes:?}");
}

#[test]
fn one_rate_is_one_point_and_nothing_has_no_curve() {
    let times: Vec<Timestamp> = ["2025-01-01", "2025-01-02"].iter().map(|text| text.parse().expect("a time")).collect();
    assert_eq!(curve(&times, rate("5/h"), rate("10/2h")).len(), 1);
    assert_eq!(curve(&[], rate("5/h"), rate("9/h")), []);
}

proptest! {
    #[test]
    fn between_two_corners_the_run_of_the_lower_one_decides(
        times in some_times(),
        one in (1_u64..40, 1_u64..40),
        other in (1_u64..40, 1_u64..40),
        share in 0_u64..=12,
    ) {
        let rate = |(limit, window): (u64, u64)| Rate::new(limit, Span::from_ticks(window)).expect("in range");
        // The rate between the two: their mediant with weights.
        let (low, high) = if one.0 * other.1 <= other.0 * one.1 { (one, other) } else { (other, one) };
        let between = rate((low.0 * (12 - share) + high.0 * share, low.1 * (12 - share) + high.1 * share));
        let corners = curve(&times, rate(one), rate(other));
        prop_assert_eq!(corners.is_empty(), times.is_empty());
        if !times.is_empty() {
            prop_assert_eq!(bucket_on(&corners, between), bucket_by_pairs(between, &times));
            prop_assert_eq!(needs(&times, &[between]).results[0].bucket, bucket_by_pairs(between, &times));
        }
        for corner in &corners {
            let level = corner.critical_run.events as f64
                - corner.critical_run.duration().ticks() as f64 * corner.rate.limit() as f64 / corner.rate.window().ticks() as f64;
            prop_assert!((level - corner.level).abs() <= 1e-9 * corner.level, "{corner:?}");
        }
    }
}
