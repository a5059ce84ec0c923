//! The shared store goes away: exact numbers, and what each policy bounds.

use throttler::limiter::Algorithm::{FixedWindow, SlidingCounter, SlidingLog, TokenBucket};
use throttler::limiter::{Algorithm, Limit, Request, Verdict};
use throttler::limits::{FallbackPolicy, StandIn, share};
use throttler::simulate::SetupError;
use throttler::simulate::outage::{Outage, OutageRow, Preset};
use throttler::time::Timestamp;

use crate::support::{fits, limit, rate};

fn found() -> Vec<OutageRow> {
    Outage::published(rate("10/s")).run().expect("an outage")
}

fn bucket_of_20() -> Limit {
    limit(TokenBucket, "10/s", Some(20))
}

fn row(found: &[OutageRow], preset: Preset, limit: Limit, policy: Option<FallbackPolicy>) -> OutageRow {
    *found.iter().find(|row| (row.preset, row.limit, row.policy) == (preset, limit, policy)).expect("a row for each")
}

#[test]
fn quiet_then_burst_without_outage() {
    let found = found();
    for (limit, admitted, refused, busiest) in [
        (bucket_of_20(), 320, 40, 25),
        (limit(FixedWindow, "10/s", None), 305, 55, 14),
        (fits(limit(SlidingCounter, "10/s", None)), 304, 56, 9),
        (limit(SlidingLog, "10/s", None), 305, 55, 10),
    ] {
        let row = row(&found, Preset::QuietThenBurst, limit, None);
        assert_eq!((row.admitted, row.offered - row.admitted, row.busiest_window), (admitted, refused, busiest), "{limit:?}");
    }
}

#[test]
fn steady_overload_in_the_outage() {
    let found = found();
    for limit in Algorithm::ALL.map(|algorithm| limit(algorithm, "10/s", algorithm.has_bucket().then_some(20))) {
        let limit = if limit.algorithm() == SlidingCounter { fits(limit) } else { limit };
        let of = |policy| {
            let row = row(&found, Preset::SteadyOverload, limit, Some(policy));
            (row.admitted_in_outage, row.offered_in_outage)
        };
        assert_eq!(of(FallbackPolicy::FailOpen), (150, 150));
        assert_eq!(of(FallbackPolicy::FailClosed), (0, 150));
    }
}

/// Four instances of which each has the full rate pass four times as much; with a quarter each, as much as one limit that
/// starts full.
#[test]
fn a_runaway_meets_the_local_limits() {
    let found = found();
    let passed = |policy| row(&found, Preset::Runaway, bucket_of_20(), Some(policy)).admitted_in_outage;
    // 20 at once and 10 a second for 10 s, less what the last refill brings after the last request.
    assert_eq!(passed(FallbackPolicy::LocalShare), 4 * (5 + 24));
    assert_eq!(passed(FallbackPolicy::LocalFull), 4 * (20 + 99));
    assert_eq!(passed(FallbackPolicy::FailOpen), 600);
}

#[test]
fn before_and_after_the_outage_the_shared_limiter_decides() {
    let found = found();
    for row in found.iter().filter(|row| row.policy.is_some()) {
        let without = found.iter().find(|other| (other.preset, other.limit, other.policy) == (row.preset, row.limit, None));
        let without = without.expect("a row without outage");
        let closed = row.policy == Some(FallbackPolicy::FailClosed);
        assert!(!closed || row.admitted_in_outage == 0);
        // What is not asked during the outage leaves the shared limiter at least as full after it.
        assert!(row.admitted - row.admitted_in_outage >= without.admitted - without.admitted_in_outage, "{row:?}");
    }
}

#[test]
fn shares_add_up_to_no_more_than_the_whole() {
    let shown = |limit: Limit| (limit.rate().to_string(), limit.bucket());
    let of = |whole: Limit, instances| shown(share(whole, instances).expect("a share"));
    assert_eq!(of(bucket_of_20(), 4), ("10/4s".to_owned(), Some(5)));
    assert_eq!(of(limit(TokenBucket, "10/s", Some(3)), 4), ("10/4s".to_owned(), Some(1)));
    assert_eq!(of(limit(SlidingLog, "10/s", None), 4), ("2/s".to_owned(), None));
    assert_eq!(of(limit(FixedWindow, "3/s", None), 7), ("1/3s".to_owned(), None));
    assert!(share(limit(TokenBucket, "5/3653d", Some(5)), 2).is_err(), "no rate has a window of twenty years");
}

#[test]
fn stand_ins_answer_as_their_policy_says() {
    let now = Timestamp::from_ticks(0).expect("the epoch");
    let stand_in = |policy: FallbackPolicy| policy.stand_in(bucket_of_20(), 4).expect("a stand-in");
    let burst = |mut stand_in: StandIn| (0..100).filter(|_| stand_in.admit(now, Request::ONE) == Verdict::Admitted).count();
    assert_eq!(FallbackPolicy::ALL.map(|policy| burst(stand_in(policy))), [100, 0, 20, 5]);
    for policy in FallbackPolicy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    assert!("fail-somehow".parse::<FallbackPolicy>().is_err());
}

/// What a picture shows of a row is the row.
#[test]
fn every_request_of_a_row_is_shown() {
    let outage = Outage::published(rate("10/s"));
    let rows = outage.run().expect("an experiment");
    for row in &rows {
        let (mut admitted, mut alone) = (0, 0);
        let again = outage.course(row.preset, row.limit, row.policy, &mut |step| {
            admitted += u64::from(step.admitted);
            alone += u64::from(!step.by_store);
        });
        assert_eq!(again.as_ref(), Ok(row));
        assert_eq!((admitted, alone), (row.admitted, if row.policy.is_some() { row.offered_in_outage } else { 0 }));
    }
    let some = Outage { algorithms: vec![Algorithm::TokenBucket], ..outage.clone() };
    let expected: Vec<_> = rows.into_iter().filter(|row| row.limit.algorithm() == Algorithm::TokenBucket).collect();
    assert_eq!(some.run(), Ok(expected), "fewer limiters give the same rows");
    let none = Outage { algorithms: Vec::new(), ..outage };
    assert!(matches!(none.run(), Err(SetupError::Nothing(_))));
}
