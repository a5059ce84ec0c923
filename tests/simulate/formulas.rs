//! The formulas, against published values and against themselves written out with factorials.

use throttler::simulate::statistics::{Estimate, erlang_b, poisson_truncated};

/// `a^k e^-a / k!` for `k` from 0 on, for means small enough for a float.
fn poisson(mean: f64, k: u32) -> f64 {
    (1..=k).fold((-mean).exp(), |term, i| term * mean / f64::from(i))
}

/// To two decimals, as it is published.
fn percent(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

#[test]
fn erlangs_b_gives_the_published_shares() {
    let served = |servers: u32, load: f64| percent(1.0 - erlang_b(100 / servers, load / f64::from(servers)));
    assert_eq!([80.0, 100.0, 120.0].map(|load| served(1, load)), ["99.60", "92.43", "80.37"]);
    // Published from simulated runs as 95.0, 87.9 and 80.2.
    assert_eq!([4, 10, 20].map(|servers| served(servers, 80.0)), ["94.98", "87.83", "80.09"]);
}

#[test]
fn the_truncated_poisson_distribution_gives_the_published_shares() {
    assert_eq!([80.0, 100.0, 120.0].map(|load| percent(poisson_truncated(100, load))), ["99.94", "96.01", "83.23"]);
}

#[test]
fn erlangs_b_is_the_last_share_of_a_truncated_poisson_distribution() {
    for slots in [1, 2, 5, 20, 100] {
        for load in [0.1, 1.0, 7.5, 80.0, 130.0] {
            let all: f64 = (0..=slots).map(|k| poisson(load, k)).sum();
            let expected = poisson(load, slots) / all;
            assert!((erlang_b(slots, load) / expected - 1.0).abs() < 1e-9, "{slots} slots at {load}");
        }
    }
    assert!((erlang_b(0, 3.0) - 1.0).abs() < f64::EPSILON, "without slots nothing is served");
}

#[test]
fn the_truncated_mean_is_the_sum_of_its_terms() {
    for limit in [1, 2, 5, 20, 100, 400] {
        for mean in [0.1, 1.0, 7.5, 80.0, 130.0] {
            let sum: f64 = (0..1_000).map(|k| poisson(mean, k) * f64::from(k.min(limit))).sum();
            assert!((poisson_truncated(limit, mean) / (sum / mean) - 1.0).abs() < 1e-9, "{limit} at {mean}");
        }
    }
}

/// Far beyond the exponents of a float: half of a limit asked for is served whole, twice the limit half.
#[test]
fn large_means_do_not_underflow() {
    assert!((poisson_truncated(1_000_000, 500_000.0) - 1.0).abs() < 1e-9);
    assert!((poisson_truncated(1_000_000, 2_000_000.0) - 0.5).abs() < 1e-9);
    assert!((poisson_truncated(5, 0.0) - 1.0).abs() < f64::EPSILON);
}

#[test]
fn a_mean_comes_with_its_standard_error() {
    let close =
        |found: Estimate, mean: f64, stderr: f64| (found.mean - mean).abs() < 1e-12 && (found.stderr - stderr).abs() < 1e-12;
    // The variance of 1, 2, 3, 4 is 5/3, of their mean 5/12.
    assert!(close(Estimate::of(&[1.0, 2.0, 3.0, 4.0]), 2.5, (5.0_f64 / 12.0).sqrt()));
    assert!(close(Estimate::of(&[7.0]), 7.0, 0.0));
    assert!(close(Estimate::of(&[]), 0.0, 0.0));
}
