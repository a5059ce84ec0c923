//! What large events get beyond the limit: a reserve that small ones never touch, a free pass, a cost by magnitude.

use proptest::prelude::*;
use throttler::event::Magnitude;
use throttler::limiter::{Algorithm, CostStep, Limit, Limiter, Passage, Policy, Request, Reserve, Verdict};

use crate::support::{SECOND, all_limits, at, cases, parsed};

fn magnitude(value: f64) -> Magnitude {
    Magnitude::new(value).expect("a magnitude")
}

/// Kept for events of M 6; those of M 5.5 cost 2.
fn with_reserve(limit: Limit, keep: u32) -> Policy {
    Policy {
        reserve: Some(Reserve { keep, from: magnitude(6.0) }),
        costs: vec![CostStep { from: magnitude(5.5), cost: 2 }, CostStep { from: magnitude(6.0), cost: 1 }],
        ..Policy::plain(limit)
    }
}

#[test]
fn the_request_follows_the_magnitude() {
    let policy = with_reserve(parsed(Algorithm::TokenBucket, "5/h", Some(5)), 2);
    for (of, cost, keep) in
        [(None, 1, 2), (Some(5.4), 1, 2), (Some(5.5), 2, 2), (Some(5.99), 2, 2), (Some(6.0), 1, 0), (Some(8.8), 1, 0)]
    {
        assert_eq!(policy.request(of.map(magnitude)), Request { cost, keep }, "{of:?}");
    }
}

#[test]
fn what_always_passes_takes_a_token_only_if_there_is_one() {
    let policy = Policy { always_from: Some(magnitude(7.0)), ..Policy::plain(parsed(Algorithm::TokenBucket, "5/h", Some(2))) };
    let mut limiter = Limiter::new(policy.limit);
    let mut passage = |of: f64| policy.rule(&mut limiter, Some(magnitude(of)), at(0)).passage;
    assert_eq!([passage(7.0), passage(5.0), passage(5.0)], [Passage::Limiter, Passage::Limiter, Passage::Withheld]);
    assert_eq!([passage(6.99), passage(7.0), passage(8.8)], [Passage::Withheld, Passage::Always, Passage::Always]);

    // The two that passed for free are no debt: the next token is there after a fifth of an hour.
    let ruling = policy.rule(&mut limiter, Some(magnitude(5.0)), at(720 * SECOND));
    assert!(ruling.passes());
}

#[test]
fn an_event_that_costs_more_than_there_ever_is_is_told_apart() {
    let limit = parsed(Algorithm::SlidingLog, "5/h", None);
    let policy = Policy { costs: vec![CostStep { from: magnitude(6.0), cost: 6 }], ..Policy::plain(limit) };
    let ruling = policy.rule(&mut Limiter::new(limit), Some(magnitude(6.0)), at(0));
    assert_eq!(ruling.passage, Passage::Impossible);
    let free_pass = Policy { always_from: Some(magnitude(6.5)), ..policy };
    assert_eq!(free_pass.rule(&mut Limiter::new(limit), Some(magnitude(6.5)), at(0)).passage, Passage::Always);
}

proptest! {
    #![proptest_config(cases(500))]

    /// However many small events come, and whenever: as many large ones as are kept pass at once, at that very moment and
    /// at any later one. And small and large together never exceed the promise.
    #[test]
    fn small_events_never_take_what_is_kept_for_large_ones(
        (n, bucket, keep) in (2..30_u64, 3..30_u64).prop_flat_map(|(n, bucket)| (Just(n), Just(bucket), 1..=n.min(bucket) / 2)),
        window in 1..5_000_u64,
        small in prop::collection::vec((0..4_u32, 0..1_000_u64, prop::bool::ANY), 1..80),
        pause in 0..1_000_u64,
    ) {
        for limit in all_limits(n, window, bucket) {
            let policy = with_reserve(limit, u32::try_from(keep).expect("small"));
            let mut limiter = Limiter::new(limit);
            let (mut now, mut passed) = (0_i64, Vec::new());
            for (order, part, costly) in &small {
                now += i64::try_from(window * part / 1_000 / 10_u64.pow(*order)).expect("small");
                let of = magnitude(if *costly { 5.5 } else { 5.0 });
                if policy.rule(&mut limiter, Some(of), at(now)).passes() {
                    passed.push((now, policy.request(Some(of)).cost));
                }
            }
            now += i64::try_from(window * pause / 1_000).expect("small");
            for i in 0..keep {
                let ruling = policy.rule(&mut limiter, Some(magnitude(6.0)), at(now));
                prop_assert_eq!(ruling.passage, Passage::Limiter, "the large event {} of {}: {:?}", i + 1, keep, limit);
                passed.push((now, 1));
            }
            if limit.algorithm() != Algorithm::LeakyBucket {
                for (i, (start, _)) in passed.iter().enumerate() {
                    let end = start + i64::try_from(window).expect("small");
                    let in_stretch: u32 = passed[i..].iter().take_while(|(t, _)| *t < end).map(|(_, cost)| cost).sum();
                    prop_assert!(u64::from(in_stretch) <= policy.promise().most_in_any_window);
                }
            }
        }
    }

    /// Events that always pass do so whatever came before, and leave the limiter as it would be without them when it has
    /// nothing for them.
    #[test]
    fn large_events_always_pass(which in 0..6_usize, events in prop::collection::vec((0..40_i64, 5..9_i32), 1..80)) {
        let limit = all_limits(3, 100, 3)[which];
        let policy = Policy { always_from: Some(magnitude(7.0)), ..Policy::plain(limit) };
        let (mut limiter, mut now) = (Limiter::new(limit), 0);
        for (pause, whole) in events {
            now += pause;
            let mut without = limiter.clone();
            let refused = without.admit(at(now), Request::ONE) != Verdict::Admitted;
            let ruling = policy.rule(&mut limiter, Some(magnitude(whole.into())), at(now));
            prop_assert_eq!(ruling.passes(), !refused || whole >= 7);
            prop_assert_eq!(&limiter, &without);
        }
    }
}
