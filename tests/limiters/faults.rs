//! Faults that were reported of well-known limiters, one test each.

use proptest::prelude::*;
use throttler::limiter::{Algorithm, Limit, Limiter, Request, StateError, Verdict, decide_all};
use throttler::rate::{Rate, RateError};
use throttler::time::Span;

use crate::support::{SECOND, admitted, all_limits, any_limit, at, cases, limit_of, parsed};

const TEN_YEARS: u64 = Rate::MAX_WINDOW.ticks();

#[test]
fn rates_are_validated_when_configured() {
    assert_eq!(Rate::new(0, Span::from_seconds(1)), Err(RateError::Limit(0)));
    assert_eq!(Rate::new(1_000_000_001, Span::from_seconds(1)), Err(RateError::Limit(1_000_000_001)));
    assert_eq!(Rate::new(1, Span::ZERO), Err(RateError::Window(Span::ZERO)));
    let too_long = Span::from_ticks(TEN_YEARS + 1);
    assert_eq!(Rate::new(1, too_long), Err(RateError::Window(too_long)));
    for text in ["0/h", "5/0s", "5/11y", "-5/h", "5/4000d", "1000000001/s"] {
        assert!(text.parse::<Rate>().is_err(), "{text}");
    }
}

/// One library admits 415 of a burst of 1,000, because `b * w / n` overflows.
#[test]
fn the_largest_products_do_not_overflow() {
    for (bucket, window) in [(1_000, TEN_YEARS), (1_000_000_000, TEN_YEARS), (1_000_000_000, 1)] {
        for n in [1, 7, 1_000_000_000] {
            for limit in all_limits(n, window, bucket) {
                let mut limiter = Limiter::new(limit);
                let burst = limit.burst();
                assert_eq!(limiter.outlook(at(0), Request::ONE).remaining, u64::from(burst), "{limit:?}");
                assert_eq!(limiter.admit(at(0), Request::costing(burst)), Verdict::Admitted, "{limit:?}");
                assert_eq!(limiter.admit(at(0), Request::ONE), Verdict::Refused, "{limit:?}");
            }
        }
    }
    let times = [at(0); 2_000];
    assert_eq!(admitted(limit_of(Algorithm::TokenBucket, 1, TEN_YEARS, 1_000), &times).len(), 1_000);
}

/// Another enforces 10^9 a second where 6 * 10^8 were asked for, because it rounds the time of a token to a nanosecond.
#[test]
fn a_token_of_a_fraction_of_a_tick_is_exact() {
    let mut limiter = Limiter::new(parsed(Algorithm::TokenBucket, "600000000/s", None));
    assert_eq!(limiter.admit(at(0), Request::costing(600_000_000)), Verdict::Admitted);
    for (tick, tokens) in [(1, 600), (1_000, 600_000), (SECOND, 600_000_000), (9 * SECOND, 600_000_000)] {
        assert_eq!(limiter.outlook(at(tick), Request::ONE).remaining, tokens);
    }
}

#[test]
fn after_a_long_idle_time_exactly_the_bucket_passes_once() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut limiter = Limiter::new(parsed(algorithm, "5/h", Some(5)));
        let year = 366 * 86_400 * SECOND;
        for idle in 1..4 {
            let passed = (0..20).filter(|_| limiter.admit(at(idle * year), Request::ONE) == Verdict::Admitted).count();
            assert_eq!(passed, 5);
            // And not again a moment later: the next token needs its twelve minutes.
            let next = at(idle * year + 720 * SECOND - 1);
            assert_eq!(limiter.admit(next, Request::ONE), Verdict::Refused);
        }
    }
}

/// No fraction of a refill is thrown away by asking, and none is minted.
#[test]
fn frequent_asking_neither_starves_nor_mints() {
    for (n, seconds) in [(7, 3_600), (1, 3_600), (599, 3_600)] {
        let mut limiter = Limiter::new(parsed(Algorithm::TokenBucket, &format!("{n}/h"), Some(1)));
        let passed =
            (0..=10 * seconds * 10).filter(|tenth| limiter.admit(at(tenth * SECOND / 10), Request::ONE) == Verdict::Admitted);
        // One at once. Each further one comes as soon as its token is there, at the next tenth of a second.
        let tenths_a_token = (3_600 * 10 + n - 1) / n;
        assert_eq!(i64::try_from(passed.count()).expect("small"), 1 + 10 * seconds * 10 / tenths_a_token, "{n}/h");
    }
}

/// While tokens are left they are what they were; an empty bucket gains what the clock moves forward, and no more.
#[test]
fn times_that_step_back_and_forth_mint_nothing() {
    let mut limiter = Limiter::new(parsed(Algorithm::TokenBucket, "5/h", Some(5)));
    assert_eq!(limiter.admit(at(0), Request::costing(3)), Verdict::Admitted);
    let tremble = |step: i64| at(if step % 2 == 0 { -SECOND } else { 0 });
    for step in 0..10_000 {
        assert_eq!(limiter.admit(tremble(step), Request::costing(3)), Verdict::Refused);
    }
    assert_eq!(limiter.admit(at(0), Request::costing(2)), Verdict::Admitted);
    let passed = (0..10_000).filter(|&step| limiter.admit(tremble(step), Request::ONE) == Verdict::Admitted).count();
    assert!(passed <= 5_000 * 5 / 3_600, "{passed} after 5,000 seconds forward");
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn retry_at_is_rounded_up_also_in_whole_seconds(limit in any_limit(), start in -(1_i64 << 50)..(1_i64 << 50)) {
        let mut limiter = Limiter::new(limit);
        limiter.admit(at(start), Request::costing(limit.burst()));
        let outlook = limiter.outlook(at(start), Request::ONE);
        let (retry_at, seconds) = (outlook.retry_at.expect("one fits"), outlook.retry_after_s(at(start)).expect("one fits"));
        let waited = at(start).plus(Span::from_seconds(seconds));
        prop_assert!(waited >= retry_at && waited < retry_at.plus(Span::from_seconds(1)));
        prop_assume!(retry_at < throttler::time::Timestamp::MAX);
        let early = at(retry_at.ticks() - 1);
        prop_assert_eq!(limiter.clone().admit(early, Request::ONE), Verdict::Refused);
        prop_assert_eq!(limiter.admit(waited, Request::ONE), Verdict::Admitted);
    }

    /// Under any algorithm: after a refusal every answer at every later time is what it would have been without.
    #[test]
    fn a_refused_request_costs_nothing(
        limit in any_limit(),
        refused in 1..20_usize,
        pauses in prop::collection::vec(0..1_000_u128, 1..10),
    ) {
        let window = u128::from(limit.rate().window().ticks());
        let mut asked = Limiter::new(limit);
        asked.admit(at(0), Request::costing(limit.burst() / 2 + 1));
        let mut quiet = asked.clone();
        let mut now = 0;
        for pause in pauses {
            for _ in 0..refused {
                let left = asked.outlook(at(now), Request::ONE).remaining;
                let too_much = Request::costing(u32::try_from(left + 1).expect("at most 10^9 + 1"));
                prop_assert!(asked.admit(at(now), too_much) != Verdict::Admitted);
            }
            now += i64::try_from(window * pause / 500).expect("below twenty years");
            prop_assert_eq!(asked.outlook(at(now), Request::ONE), quiet.outlook(at(now), Request::ONE));
            prop_assert_eq!(asked.decide(at(now), Request::ONE), quiet.decide(at(now), Request::ONE));
        }
    }
}

#[test]
fn with_several_limits_all_are_checked_before_any_is_charged() {
    const ONE: Request = Request::ONE;
    let [mut wide, mut narrow, mut daily] =
        [("100/h", 100), ("1/h", 1), ("2/d", 2)].map(|(rate, b)| Limiter::new(parsed(Algorithm::TokenBucket, rate, Some(b))));
    let passed = decide_all(&mut [(&mut wide, ONE), (&mut narrow, ONE), (&mut daily, ONE)], at(0)).expect("all have room");
    assert_eq!(passed.iter().map(|decision| decision.outlook.remaining).collect::<Vec<_>>(), [99, 0, 1]);

    // Refused by the second alone: its answer, and nobody is charged.
    let before = (wide.clone(), narrow.clone(), daily.clone());
    let (index, decision) = decide_all(&mut [(&mut wide, ONE), (&mut narrow, ONE), (&mut daily, ONE)], at(SECOND))
        .expect_err("the narrow one is empty");
    assert_eq!((index, decision.verdict, decision.outlook.retry_at), (1, Verdict::Refused, Some(at(3_600 * SECOND))));
    assert_eq!((&wide, &narrow, &daily), (&before.0, &before.1, &before.2));

    // Refused by two: the longer wait is reported, and never is the longest.
    assert_eq!(daily.admit(at(SECOND), Request::ONE), Verdict::Admitted);
    let two = Request::costing(2);
    let mut refusal = |requests: [Request; 3]| {
        let mut limiters = [(&mut wide, requests[0]), (&mut narrow, requests[1]), (&mut daily, requests[2])];
        let (index, decision) = decide_all(&mut limiters, at(2 * SECOND)).expect_err("refused");
        (index, decision.verdict)
    };
    assert_eq!(refusal([ONE, ONE, ONE]), (2, Verdict::Refused));
    assert_eq!(refusal([two, two, two]), (1, Verdict::Never));
    assert_eq!(refusal([two, ONE, two]), (2, Verdict::Refused), "each is asked for its own");
}

#[test]
fn a_raise_counts_at_once_and_a_lowered_limit_wipes_nothing() {
    for algorithm in Algorithm::ALL {
        let limit = |rate, b: u64| parsed(algorithm, rate, algorithm.has_bucket().then_some(b));
        let mut limiter = Limiter::new(limit("5/h", 5));
        assert_eq!(limiter.admit(at(0), Request::costing(5)), Verdict::Admitted);
        let raised = limiter.carried_over(limit("8/h", 8), at(0));
        assert_eq!((raised.limit(), raised.outlook(at(0), Request::ONE).remaining), (limit("8/h", 8), 3), "{algorithm}");
        let mut lowered = limiter.carried_over(limit("3/h", 3), at(0));
        assert_eq!(lowered.admit(at(0), Request::ONE), Verdict::Refused, "{algorithm}");
    }
}

/// A missing row is a new limiter, which is full; a row that cannot be read is an error, and no limiter at all.
#[test]
fn a_missing_row_is_full_and_an_unreadable_one_is_no_decision() {
    let limit: Limit = parsed(Algorithm::TokenBucket, "5/h", Some(5));
    assert_eq!(Limiter::new(limit).outlook(at(0), Request::ONE).remaining, 5);
    assert_eq!(Limiter::from_bytes(&[]), Err(StateError::Short(0)));
}
