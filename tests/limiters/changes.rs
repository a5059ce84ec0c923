//! A changed limit: no fresh allowance, no longer a wait than the new limit's own refill, and a raise counts at once.

use proptest::prelude::*;
use throttler::limiter::{Algorithm, CounterRule, Limit, Limiter, Request, Verdict};
use throttler::time::Timestamp;

use crate::support::{SECOND, any_limit, at, cases, parsed};

/// A limiter after some traffic, and the time of the last of it.
fn any_used() -> impl Strategy<Value = (Limiter, i64)> {
    let traffic = prop::collection::vec((0..1_000_u128, 0..4_u32, 1..=100_u64), 0..20);
    (any_limit(), -(1_i64 << 50)..(1_i64 << 50), traffic).prop_map(|(limit, start, traffic)| {
        let (mut limiter, mut now) = (Limiter::new(limit), start);
        for (pause, order, percent) in traffic {
            let pause = u128::from(limit.rate().window().ticks()) * pause / 1_000 / 10_u128.pow(order);
            now += i64::try_from(pause).expect("below ten years");
            let cost = (limiter.outlook(at(now), Request::ONE).remaining * percent).div_ceil(100).max(1);
            limiter.admit(at(now), Request::costing(u32::try_from(cost).expect("at most 10^9")));
        }
        (limiter, now)
    })
}

/// The longest that a limit needs to forget all that can be spent.
fn full_refill(limit: Limit) -> i128 {
    let (n, w) = (i128::from(limit.rate().limit()), i128::from(limit.rate().window().ticks()));
    match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::SlidingLog => w,
        Algorithm::SlidingCounter => 2 * w,
        Algorithm::TokenBucket | Algorithm::LeakyBucket => (i128::from(limit.burst()) * w + n - 1) / n,
    }
}

/// A limit of the same algorithm and window, where what is spent is carried over as it is.
fn is_close(old: Limit, new: Limit) -> bool {
    old.algorithm() == new.algorithm() && old.rate().window() == new.rate().window()
}

fn any_change() -> impl Strategy<Value = ((Limiter, i64), Limit)> {
    (any_used(), any_limit(), 1..2_000_u64, any::<bool>()).prop_map(|(used, other, n, same)| {
        let old = used.0.limit();
        let bucket = old.bucket().map(|_| n / 2 + 1);
        let rate = throttler::rate::Rate::new(n, old.rate().window()).expect("a rate");
        let raised_or_lowered = Limit::new(old.algorithm(), rate, bucket).and_then(|limit| limit.with_rule(old.rule()));
        (used, if same { raised_or_lowered.expect("a limit") } else { other })
    })
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// What is left is the new limit's burst less what was spent, at once: more after a raise, and no fresh allowance.
    #[test]
    fn what_was_spent_stays_spent(((old, now), new) in any_change()) {
        let changed = old.carried_over(new, at(now));
        prop_assert_eq!(changed.limit(), new);
        let left = changed.outlook(at(now), Request::ONE).remaining;
        let expected = u64::from(new.burst()).saturating_sub(old.spent(at(now)));
        if is_close(old.limit(), new) && new.rule() == CounterRule::Below && new.algorithm() == Algorithm::SlidingCounter {
            // The fraction of an estimate leaves room for one more by this rule, before the change as after it.
            prop_assert!((expected..=expected + 1).contains(&left), "{left}, not {expected}: {old:?}");
        } else if new.algorithm() == Algorithm::SlidingLog && new.rate().window() < old.limit().rate().window() {
            // Stamps that are older than the new window have left it.
            prop_assert!(left >= expected, "{left}, not {expected}: {old:?}");
        } else {
            prop_assert_eq!(left, expected, "{:?}", old);
        }
    }

    /// Nobody waits longer than if the new limit itself had been used up.
    #[test]
    fn all_is_back_after_the_new_limits_own_refill(((old, now), new) in any_change()) {
        let changed = old.carried_over(new, at(now));
        let outlook = changed.outlook(at(now), Request::ONE);
        let latest = Timestamp::saturating_from_ticks(i128::from(now) + full_refill(new));
        prop_assert!(outlook.reset_at <= latest, "{:?}: {:?}", outlook, changed);
        let mut later = changed;
        if outlook.reset_at < Timestamp::MAX {
            prop_assert_eq!(later.spent(outlook.reset_at), 0);
            prop_assert_eq!(later.admit(outlook.reset_at, Request::costing(new.burst())), Verdict::Admitted);
        }
    }

    /// An edit that leaves the limit as it is changes no answer, now or later.
    #[test]
    fn the_same_limit_answers_the_same((old, now) in any_used(), pauses in prop::collection::vec(0..1_i64 << 40, 1..10)) {
        let mut changed = old.carried_over(old.limit(), at(now));
        let (mut old, mut now) = (old, now);
        for pause in pauses {
            prop_assert_eq!(changed.decide(at(now), Request::ONE), old.decide(at(now), Request::ONE), "{:?}", old);
            now += pause;
        }
    }

    /// Windows remember what was spent beyond a lowered limit: lowering and raising again gives nothing.
    #[test]
    fn windows_lowered_and_raised_again_answer_the_same((old, now) in any_used(), n in 1..10_u64) {
        if !old.limit().algorithm().has_bucket() {
            let rate = throttler::rate::Rate::new(n, old.limit().rate().window()).expect("a rate");
            let lower = Limit::new(old.limit().algorithm(), rate, None).expect("a limit");
            let back = old.carried_over(lower, at(now)).carried_over(old.limit(), at(now));
            prop_assert_eq!(back.outlook(at(now), Request::ONE), old.outlook(at(now), Request::ONE));
        }
    }
}

#[test]
fn a_lowered_bucket_is_empty_and_refills_at_its_own_rate() {
    let mut old = Limiter::new(parsed(Algorithm::TokenBucket, "100/h", Some(100)));
    assert_eq!(old.admit(at(0), Request::costing(80)), Verdict::Admitted);
    let outlook = old.carried_over(parsed(Algorithm::TokenBucket, "5/h", Some(5)), at(0)).outlook(at(0), Request::ONE);
    assert_eq!((outlook.remaining, outlook.retry_at, outlook.reset_at), (0, Some(at(720 * SECOND)), at(3_600 * SECOND)));
}

#[test]
fn a_raised_bucket_has_at_once_what_it_has_more() {
    let mut old = Limiter::new(parsed(Algorithm::TokenBucket, "5/h", Some(5)));
    assert_eq!(old.admit(at(0), Request::costing(5)), Verdict::Admitted);
    let outlook = old.carried_over(parsed(Algorithm::TokenBucket, "5/h", Some(74)), at(0)).outlook(at(0), Request::ONE);
    assert_eq!((outlook.remaining, outlook.retry_at), (69, Some(at(0))));
}

#[test]
fn another_algorithm_takes_over_what_was_spent() {
    let mut old = Limiter::new(parsed(Algorithm::FixedWindow, "5/h", None));
    assert_eq!(old.admit(at(0), Request::costing(3)), Verdict::Admitted);
    for algorithm in Algorithm::ALL {
        let new = parsed(algorithm, "8/d", algorithm.has_bucket().then_some(8));
        assert_eq!(old.carried_over(new, at(0)).outlook(at(0), Request::ONE).remaining, 5, "{algorithm}");
    }
}
