//! Every decision of every limiter against the literal definitions: verdict, `remaining`, `retry_at`, `reset_at`, departure.

use proptest::prelude::*;
use throttler::limiter::{Decision, Limiter, Outlook, Request, Verdict};
use throttler::time::Timestamp;

use crate::reference::{Gcra, Reference};
use crate::support::{all_limits, any_limit, any_size, at, cases};

/// The next question: when, and how much, also relative to what the last answer said, where mistakes by one show.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// So many ticks later, often none.
    Later(u64),
    /// So many ticks after what the last answer called `retry_at`, one before, or at it.
    Retry(i64),
    Reset(i64),
}

#[derive(Clone, Copy, Debug)]
pub enum Cost {
    Of(u32),
    /// What the last answer said was left, one less or one more.
    Remaining(i64),
}

pub fn any_question() -> impl Strategy<Value = (When, Cost, u32)> {
    let when = prop_oneof![
        2 => Just(When::Later(0)),
        4 => any_size(0, 1 << 50).prop_map(When::Later),
        3 => (-1..=1_i64).prop_map(When::Retry),
        1 => (-1..=1_i64).prop_map(When::Reset),
    ];
    let cost = prop_oneof![
        4 => Just(Cost::Of(1)),
        2 => any_size(1, 2_000_000_000).prop_map(|cost| Cost::Of(u32::try_from(cost).expect("small"))),
        4 => (-1..=1_i64).prop_map(Cost::Remaining),
    ];
    let keep = prop_oneof![4 => Just(0), 1 => 1..5_u32, 1 => any_size(0, 1 << 30).prop_map(|k| u32::try_from(k).expect("small"))];
    (when, cost, keep)
}

/// Where and how much the next question asks.
pub fn resolve(when: When, cost: Cost, now: Timestamp, last: Option<Outlook>) -> (Timestamp, u32) {
    let beside = |instant: Timestamp, ticks: i64| at(instant.ticks().saturating_add(ticks).min(Timestamp::MAX.ticks()));
    let then = match (when, last) {
        (When::Later(ticks), _) => beside(now, i64::try_from(ticks).expect("below 2^50")),
        (When::Retry(by), Some(Outlook { retry_at: Some(retry_at), .. })) => beside(retry_at, by),
        (When::Reset(by), Some(last)) => beside(last.reset_at, by),
        _ => now,
    };
    let cost = match (cost, last) {
        (Cost::Of(cost), _) => cost,
        (Cost::Remaining(by), Some(last)) => {
            let left = i64::try_from(last.remaining).expect("at most 10^9").saturating_add(by);
            u32::try_from(left.max(1)).expect("at most 10^9 + 1")
        }
        (Cost::Remaining(_), None) => 1,
    };
    (then.max(now), cost)
}

/// The last tick there is: beyond it an answer is cut off, and says nothing.
const END: i128 = Timestamp::MAX.ticks() as i128;

/// Checks one decision against the reference, and records it there.
fn check(reference: &mut Reference, now: Timestamp, request: Request, decision: Decision) {
    let (t, cost, keep) = (i128::from(now.ticks()), i128::from(request.cost), i128::from(request.keep));
    let expected = match reference.admits(t, cost, keep) {
        _ if cost + keep > reference.most() => Verdict::Never,
        true => Verdict::Admitted,
        false => Verdict::Refused,
    };
    assert_eq!(decision.verdict, expected, "{request:?} at {t}: {reference:?}");
    if decision.admitted() {
        assert_eq!(i128::from(decision.departs_at.ticks()), reference.departs_at(t).min(END), "departs_at: {reference:?}");
        reference.record(t, cost);
    }
    check_outlook(reference, t, request, decision.outlook);
}

/// Checks what the decision says of the future: what it promises holds, and a tick earlier or one more does not.
fn check_outlook(reference: &Reference, t: i128, request: Request, outlook: Outlook) {
    let (cost, keep) = (i128::from(request.cost), i128::from(request.keep));
    let remaining = i128::from(outlook.remaining);
    let mut later = reference.clone();
    if remaining > 0 {
        later.record(t, remaining - 1);
        assert!(later.admits(t, 1, keep), "remaining {remaining} is too many: {reference:?}");
        later.record(t, 1);
    }
    assert!(!later.admits(t, 1, keep), "remaining {remaining} is too few: {reference:?}");

    assert_eq!(outlook.retry_at.is_none(), cost + keep > reference.most(), "never: {reference:?}");
    if let Some(retry_at) = outlook.retry_at.map(|instant| i128::from(instant.ticks())).filter(|&tick| tick < END) {
        assert!(retry_at >= t && reference.admits(retry_at, cost, keep), "retry_at {retry_at} is too early: {reference:?}");
        assert!(retry_at == t || !reference.admits(retry_at - 1, cost, keep), "retry_at {retry_at} is too late: {reference:?}");
    }
    let reset_at = i128::from(outlook.reset_at.ticks());
    if reset_at < END {
        assert!(reset_at >= t && !reference.is_spent(reset_at), "reset_at {reset_at} is too early: {reference:?}");
        assert!(reset_at == t || reference.is_spent(reset_at - 1), "reset_at {reset_at} is too late: {reference:?}");
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    /// Every limit of the contract, times before and after the epoch, costs and keeps of every size.
    #[test]
    fn every_decision_is_the_one_of_the_literal_definition(
        limit in any_limit(),
        start in -(1_i64 << 54)..(1_i64 << 54),
        questions in prop::collection::vec(any_question(), 1..40),
    ) {
        let (mut limiter, mut reference) = (Limiter::new(limit), Reference::new(limit));
        let (mut now, mut last) = (at(start), None);
        for (when, cost, keep) in questions {
            let (then, cost) = resolve(when, cost, now, last);
            now = then;
            let request = Request { cost, keep };
            let (mut short, before) = (limiter.clone(), limiter.outlook(now, request));
            check_outlook(&reference, i128::from(now.ticks()), request, before);

            let decision = limiter.decide(now, request);
            check(&mut reference, now, request, decision);

            // The full answer is the short one and the outlook after it.
            prop_assert_eq!(short.admit(now, request), decision.verdict);
            prop_assert_eq!(&short, &limiter);
            prop_assert_eq!(limiter.outlook(now, request), decision.outlook);
            last = Some(decision.outlook);
        }
    }

    /// The bucket of rational tokens, the arrival time of GCRA and the shipped token bucket are the same limiter.
    #[test]
    fn the_token_bucket_is_gcra(
        which in 4..6_usize,
        n in any_size(1, 1_000_000_000),
        window in any_size(1, 3_653 * 86_400_000_000),
        bucket in 1..6_u64,
        steps in prop::collection::vec((0..4_u32, 0..3_i64), 1..60),
    ) {
        let limit = all_limits(n, window, bucket)[which];
        let (mut limiter, mut gcra) = (Limiter::new(limit), Gcra::new(limit));
        let mut t = 0_i64;
        for (quarters, more) in steps {
            // About the time of a token, where the fractions decide.
            let quarter = i64::try_from(u128::from(window) * u128::from(quarters) / (4 * u128::from(n))).expect("below ten years");
            t += quarter + more;
            prop_assert_eq!(limiter.admit(at(t), Request::ONE) == Verdict::Admitted, gcra.admit(i128::from(t)));
        }
    }
}

/// All traffic of up to two requests a tick over eight ticks, for all small limits: 6,561 schedules each.
#[test]
fn every_small_schedule_is_decided_by_the_literal_definition() {
    for (n, window, bucket) in [(1, 1, 1), (1, 2, 1), (1, 3, 2), (2, 3, 1), (2, 3, 2), (3, 2, 2), (2, 5, 3), (3, 4, 1)] {
        for limit in all_limits(n, window, bucket) {
            let start = (Limiter::new(limit), Reference::new(limit));
            decide_all(&start, 0, 8);
        }
    }
}

fn decide_all((limiter, reference): &(Limiter, Reference), tick: i64, end: i64) {
    if tick == end {
        return;
    }
    let (mut limiter, mut reference) = (limiter.clone(), reference.clone());
    for requests in 0..3 {
        if requests > 0 {
            let decision = limiter.decide(at(tick), Request::ONE);
            check(&mut reference, at(tick), Request::ONE, decision);
        }
        decide_all(&(limiter.clone(), reference.clone()), tick + 1, end);
    }
}
