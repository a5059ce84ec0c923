//! Clocks that step: back and forth by a little, by years, to the ends of time. Nothing is minted and nobody is locked out.

use proptest::prelude::*;
use throttler::limiter::{Algorithm, CounterRule, Limit, Limiter, Request, Verdict};
use throttler::time::Timestamp;

use crate::support::{SECOND, all_limits, any_limit, at, cases, parsed};

/// Takes all that is left. If that is nothing it asks all the same, so that the limiter sees the time.
fn take_all(limiter: &mut Limiter, now: Timestamp) -> i128 {
    let left = u32::try_from(limiter.outlook(now, Request::ONE).remaining).expect("at most 10^9");
    let verdict = limiter.admit(now, Request::costing(left));
    assert_eq!(verdict == Verdict::Admitted, left > 0, "what remains is admitted, and not one when none remains");
    left.into()
}

/// The most that may pass while the clock moved forward by so many ticks in all, whatever it moved back: what a single
/// stretch without steps could have brought, in units of `1/w`.
fn most_times_w(limit: Limit, forward: i128, windows_entered: i128) -> i128 {
    let (n, w) = (i128::from(limit.rate().limit()), i128::from(limit.rate().window().ticks()));
    match limit.algorithm() {
        Algorithm::FixedWindow => n * w * (1 + windows_entered),
        Algorithm::SlidingLog => n * w * (1 + forward / w),
        // By `below` the estimate may stand just under n + 1, and what a clock that is set back takes along is rounded up to
        // that; a window later it has fallen by as much.
        Algorithm::SlidingCounter => (n + i128::from(limit.rule() == CounterRule::Below)) * (w + forward),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => i128::from(limit.burst()) * w + n * forward,
    }
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// Whatever the clock does, no more passes than its movement forward refills.
    #[test]
    fn steps_mint_nothing(
        limit in any_limit(),
        steps in prop::collection::vec((-3_000..3_000_i128, 0..5_u32, -1..=1_i128), 1..150),
    ) {
        let w = i128::from(limit.rate().window().ticks());
        let mut limiter = Limiter::new(limit);
        let (mut now, mut forward, mut windows, mut passed) = (0_i128, 0, 0, 0);
        for (thousandths, order, more) in steps {
            let then = now + w * thousandths / 1_000 / 10_i128.pow(order) + more;
            forward += (then - now).max(0);
            windows += (then.div_euclid(w) - now.div_euclid(w)).max(0);
            now = then;
            passed += take_all(&mut limiter, Timestamp::saturating_from_ticks(now));
            prop_assert!(passed * w <= most_times_w(limit, forward, windows), "{passed} after {forward} forward: {limit:?}");
        }
    }

    /// A clock that trembles by less than a window around times that move on: as if it did not tremble.
    #[test]
    fn trembling_around_a_boundary_opens_no_window_twice(
        which in 0..4_usize,
        trembles in prop::collection::vec((0..30_i64, -99..=99_i64), 1..150),
    ) {
        let limit = all_limits(5, 100, 5)[which];
        let mut limiter = Limiter::new(limit);
        let (mut steady, mut passed, mut latest) = (1_000_i64, 0, 1_000_i64);
        for (on, tremble) in trembles {
            steady += on;
            let now = (steady + tremble).max(1_000).max(latest - 99);
            latest = latest.max(now);
            passed += take_all(&mut limiter, at(now));
        }
        let windows = latest / 100 - 1_000 / 100 + 1;
        prop_assert!(passed <= 5 * i128::from(windows), "{passed} in {windows} windows: {limit:?}");
    }

    /// After any step, everything is back within the longest wait that is documented, and one is admitted when it is said.
    #[test]
    fn steps_lock_nobody_out(limit in any_limit(), before in -(1_i64 << 55)..(1_i64 << 55), after in -(1_i64 << 55)..(1_i64 << 55)) {
        let w = i128::from(limit.rate().window().ticks());
        let mut limiter = Limiter::new(limit);
        take_all(&mut limiter, at(before));
        // The refused request at the other time is what tells the limiter that the clock was set.
        limiter.admit(at(after), Request::costing(limit.burst()));
        let outlook = limiter.outlook(at(after), Request::ONE);
        let refill = match limit.algorithm() {
            // Up to a window of stepping back, and then as long as a full one needs.
            Algorithm::FixedWindow | Algorithm::SlidingLog => 2 * w,
            Algorithm::SlidingCounter => 3 * w,
            Algorithm::TokenBucket | Algorithm::LeakyBucket => {
                (i128::from(limit.burst()) * w).div_euclid(i128::from(limit.rate().limit())) + 1
            }
        };
        let latest = Timestamp::saturating_from_ticks(i128::from(after) + refill);
        prop_assert!(outlook.reset_at <= latest, "{:?} after {}: {limit:?}", outlook, at(after));
        let retry_at = outlook.retry_at.expect("one always fits");
        prop_assert!(retry_at <= outlook.reset_at);
        if retry_at < Timestamp::MAX {
            prop_assert_eq!(limiter.admit(retry_at, Request::ONE), Verdict::Admitted);
        }
    }

    /// At the ends of time, and with any request, every question has an answer.
    #[test]
    fn no_time_and_no_request_is_too_extreme(
        limit in any_limit(),
        other in any_limit(),
        questions in prop::collection::vec((any_extreme(), any::<u32>(), prop_oneof![Just(0), any::<u32>()], any::<bool>()), 1..20),
    ) {
        let mut limiter = Limiter::new(limit);
        for (now, cost, keep, change) in questions {
            let cost = if cost % 2 == 0 { 1 } else { cost };
            let decision = limiter.decide(now, Request { cost, keep });
            prop_assert!(decision.outlook.reset_at >= now);
            prop_assert!(decision.outlook.retry_at.is_none_or(|retry_at| retry_at >= now));
            let spent = limiter.spent(now);
            prop_assert!(spent <= 2_000_000_001);
            if change {
                limiter = limiter.carried_over(other, now).carried_over(limit, now);
            }
            let read = Limiter::from_bytes(&limiter.to_bytes());
            prop_assert_eq!(read.as_ref(), Ok(&limiter));
        }
    }
}

fn any_extreme() -> impl Strategy<Value = Timestamp> {
    let (first, last) = (Timestamp::MIN.ticks(), Timestamp::MAX.ticks());
    prop_oneof![Just(first), Just(first + 1), Just(last), Just(last - 1), -2..=2_i64, first..=last,].prop_map(at)
}

/// A bucket emptied in the year 9999, and the clock set right: the next token is there after `w / n`, not in 8,000 years.
#[test]
fn an_arrival_time_far_ahead_is_clamped_to_an_empty_bucket() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let mut limiter = Limiter::new(parsed(algorithm, "5/h", Some(5)));
        assert_eq!(limiter.admit(Timestamp::MAX, Request::costing(5)), Verdict::Admitted);
        let outlook = limiter.outlook(at(0), Request::ONE);
        assert_eq!((outlook.remaining, outlook.retry_at, outlook.reset_at), (0, Some(at(720 * SECOND)), at(3_600 * SECOND)));
        // Asking meanwhile does not push it away.
        for second in 0..720 {
            assert_eq!(limiter.admit(at(second * SECOND), Request::ONE), Verdict::Refused);
        }
        assert_eq!(limiter.admit(at(720 * SECOND), Request::ONE), Verdict::Admitted);
    }
}

#[test]
fn windows_treat_now_as_no_earlier_than_the_last_decision() {
    for limit in &all_limits(10, 60 * SECOND.unsigned_abs(), 10)[1..4] {
        let mut limiter = Limiter::new(*limit);
        assert_eq!(limiter.admit(at(100 * SECOND), Request::costing(9)), Verdict::Admitted);
        let stepped_back = limiter.outlook(at(70 * SECOND), Request::costing(5));
        let steady = limiter.outlook(at(100 * SECOND), Request::costing(5));
        assert_eq!(stepped_back, steady, "{limit:?}");
        assert!(stepped_back.retry_at >= Some(at(120 * SECOND)), "{limit:?}");
    }
}

/// Set back by years, a window counts on from there: what was spent is spent, and back after a full refill.
#[test]
fn a_clock_that_is_set_back_takes_along_what_was_spent() {
    let year = 366 * 86_400 * SECOND;
    for limit in all_limits(10, 60 * SECOND.unsigned_abs(), 10) {
        let mut limiter = Limiter::new(limit);
        take_all(&mut limiter, at(year));
        assert_eq!(limiter.outlook(at(0), Request::ONE).remaining, 0, "{limit:?}");
        assert_eq!(limiter.admit(at(0), Request::ONE), Verdict::Refused, "{limit:?}");
        assert!(limiter.outlook(at(0), Request::ONE).reset_at <= at(120 * SECOND), "{limit:?}");
    }
}
