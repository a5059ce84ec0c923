//! The other questions: the smallest rate for a bucket, the smallest bucket that loses little, what a window usually has.

use proptest::prelude::*;
use throttler::analysis::{
    AcceptedLoss, ExactRate, LossyBucket, Percentiles, SmallestRate, Summary, lost, smallest_bucket, smallest_rate, window_counts,
};
use throttler::catalogue::{Query, read_times};
use throttler::time::{Span, Timestamp};

use crate::support::{at, bucket_by_pairs, file, need, rate, shipped, some_rate, some_times, ticks};

fn eleven_years() -> Vec<Timestamp> {
    read_times(&mut file(shipped()), &Query::default(), 1, &|_| ()).expect("the shipped catalogue").0
}

#[test]
fn a_bucket_of_74_needs_nearly_five_an_hour() {
    let times = eleven_years();
    let SmallestRate::Rate { rate: smallest, critical_run } = smallest_rate(&times, 74) else { panic!("there is such a rate") };
    // The 105 events of the critical run: 31 of them must flow in again while it lasts.
    assert_eq!(smallest.to_string(), "31/22339203ms");
    assert_eq!((critical_run.events, critical_run.first), (105, at("2025-07-29T23:24:52.483Z")));
    let hourly = smallest.per(Span::from_seconds(3_600));
    assert!((4.995..4.996).contains(&hourly), "{hourly}");
    assert_eq!(smallest.as_rate(), Some(rate("31/22339203ms")));
}

#[test]
fn some_buckets_need_no_rate_and_some_have_none() {
    let times = ticks(&[5, 5, 5]);
    assert_eq!(smallest_rate(&times, 3), SmallestRate::Any);
    assert!(matches!(smallest_rate(&times, 2), SmallestRate::Never { critical_run } if critical_run.events == 3));
    assert_eq!(smallest_rate(&[], 1), SmallestRate::Any);
}

#[test]
fn a_bucket_of_5_loses_197_and_less_loss_needs_more() {
    let times = eleven_years();
    assert_eq!(lost(&times, rate("5/h"), 5), 197);
    assert_eq!(smallest_bucket(&times, rate("5/h"), 197), LossyBucket { bucket: 5, lost: 197 });
    assert_eq!(smallest_bucket(&times, rate("5/h"), 0), LossyBucket { bucket: 74, lost: 0 });
    assert_eq!(smallest_bucket(&times, rate("5/h"), 18_738), LossyBucket { bucket: 0, lost: 18_738 });
    assert!(lost(&times, rate("5/h"), 4) > 197);
}

#[test]
fn an_accepted_loss_is_a_count_or_an_exact_share() {
    for (text, of_18738) in
        [("0", 0), ("10", 10), ("0%", 0), ("1%", 187), ("0.5%", 93), ("100%", 18_738), ("12.345678901%", 2_313)]
    {
        assert_eq!(text.parse::<AcceptedLoss>().map(|loss| loss.of(18_738)), Ok(of_18738), "{text}");
    }
    // 29 % of 100 is 29, which floating point takes for 28.999….
    assert_eq!("29%".parse::<AcceptedLoss>().map(|loss| loss.of(100)), Ok(29));
    for text in ["", "%", "-1", "1.5", "101%", "100.1%", ".5%", "5.%", "1e2%", "+5", "0.1234567891%", "99999999999999999999"] {
        let error = text.parse::<AcceptedLoss>().expect_err(text);
        assert!(error.to_string().contains("expected a number of events"), "{error}");
    }
}

#[test]
fn percentiles_are_by_nearest_rank_over_windows_with_events_and_over_all() {
    // Windows of ten ticks: 1, 0, 2, 0, 0, 0, 0, 0, 0, 4 events, the first before the epoch.
    let counts = window_counts(&ticks(&[-7, 10, 19, 80, 81, 82, 89]), Span::from_ticks(10)).expect("events");
    assert_eq!(counts.with_events, Percentiles { windows: 3, median: 2, percentile_95: 4, percentile_99: 4, maximum: 4 });
    assert_eq!(counts.all, Percentiles { windows: 10, median: 0, percentile_95: 4, percentile_99: 4, maximum: 4 });
    assert_eq!(window_counts(&[], Span::from_ticks(10)), None);
    assert_eq!(window_counts(&ticks(&[1]), Span::ZERO), None);
}

proptest! {
    #[test]
    fn the_smallest_rate_loses_nothing_and_a_smaller_one_loses(times in some_times(), bucket in 1_u64..12) {
        match smallest_rate(&times, bucket) {
            SmallestRate::Any => prop_assert!(times.len() as u64 <= bucket),
            SmallestRate::Never { critical_run } => {
                prop_assert!(critical_run.events > bucket && critical_run.first == critical_run.last);
            }
            SmallestRate::Rate { rate, .. } => {
                let at_it = Summary::of(rate, &times).expect("events").bucket();
                prop_assert_eq!(at_it, bucket);
                // A step of a thousandth of the rate's own unit below it.
                let window = Span::from_ticks(rate.window().ticks().saturating_mul(1_000));
                if let Some(below) = ExactRate::new(rate.limit() * 1_000 - 1, window) {
                    prop_assert!(Summary::of(below, &times).expect("events").bucket() > bucket);
                }
            }
        }
    }

    #[test]
    fn the_smallest_bucket_is_found_as_by_trying_each(rate in some_rate(), times in some_times(), most in 0_u64..12) {
        let found = smallest_bucket(&times, rate, most);
        let tried = (0..=times.len() as u64).find(|bucket| lost(&times, rate, *bucket) <= most).expect("the last loses nothing");
        prop_assert_eq!(found, LossyBucket { bucket: tried, lost: lost(&times, rate, tried) });
    }

    #[test]
    fn a_bucket_loses_nothing_exactly_from_the_lossless_one_on(rate in some_rate(), times in some_times()) {
        let lossless = bucket_by_pairs(rate, &times);
        prop_assert_eq!(lost(&times, rate, lossless), 0);
        if lossless > 0 {
            prop_assert!(lost(&times, rate, lossless - 1) > 0);
            prop_assert!(need(rate, &times, 0, times.len() - 1) <= i128::from(lossless) * i128::from(rate.window().ticks()));
        }
    }
}
