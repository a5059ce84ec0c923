//! The promises as a person reads them, and the messages for limits and policies that cannot be.

use throttler::event::Magnitude;
use throttler::limiter::{Algorithm, CostStep, CounterRule, Limit, LimitError, Policy, PolicyError, Reserve};
use throttler::rate::Rate;

use crate::support::{fits, parsed};

fn magnitude(value: f64) -> Magnitude {
    Magnitude::new(value).expect("a magnitude")
}

#[test]
fn every_limit_promises_one_sentence() {
    let counter = parsed(Algorithm::SlidingCounter, "5/h", None);
    for (limit, sentence) in [
        (parsed(Algorithm::FixedWindow, "5/h", None), "at most 5 in each hour by the clock, at most 10 in any hour"),
        (parsed(Algorithm::FixedWindow, "1/d", None), "at most 1 in each day by the clock, at most 2 in any day"),
        (parsed(Algorithm::SlidingLog, "13/90m", None), "at most 13 in any 90 minutes"),
        (parsed(Algorithm::SlidingLog, "100/60s", None), "at most 100 in any minute"),
        (counter, "about 5 in any hour, never more than 10"),
        (fits(counter), "about 5 in any hour, never more than 9"),
        (parsed(Algorithm::TokenBucket, "5/h", Some(74)), "up to 74 at once, 5 per hour on average, at most 78 in any hour"),
        (parsed(Algorithm::TokenBucket, "1/2d", Some(1)), "one at a time, 1 per 2 days on average, at most 1 in any 2 days"),
        (
            parsed(Algorithm::LeakyBucket, "5/h", Some(5)),
            "at most 5 leave in any hour, evenly spaced; up to 4 wait their turn, at most 48 minutes",
        ),
        (
            parsed(Algorithm::LeakyBucket, "7/h", Some(7)),
            "at most 7 leave in any hour, evenly spaced; up to 6 wait their turn, at most 52 minutes",
        ),
        (
            parsed(Algorithm::LeakyBucket, "60/h", Some(2)),
            "at most 60 leave in any hour, evenly spaced; one may wait its turn, at most 1 minute",
        ),
        (
            parsed(Algorithm::LeakyBucket, "10/500ms", Some(1)),
            "at most 10 leave in any 500 milliseconds, evenly spaced; none waits",
        ),
    ] {
        assert_eq!(limit.promise().to_string(), sentence, "{limit:?}");
    }
}

#[test]
fn the_number_is_beside_the_sentence() {
    let numbers = [
        parsed(Algorithm::FixedWindow, "5/h", None),
        parsed(Algorithm::SlidingLog, "5/h", None),
        parsed(Algorithm::SlidingCounter, "5/h", None),
        fits(parsed(Algorithm::SlidingCounter, "5/h", None)),
        parsed(Algorithm::TokenBucket, "5/h", Some(74)),
        parsed(Algorithm::LeakyBucket, "5/h", Some(74)),
    ]
    .map(|limit| limit.promise().most_in_any_window);
    assert_eq!(numbers, [10, 5, 10, 9, 78, 5]);
}

#[test]
fn a_policy_promises_what_passes_besides() {
    let limit = parsed(Algorithm::TokenBucket, "5/h", Some(74));
    let plain = Policy::plain(limit);
    let reserve = |keep| Some(Reserve { keep, from: magnitude(6.0) });
    let costs = vec![CostStep { from: magnitude(5.5), cost: 2 }, CostStep { from: magnitude(6.25), cost: 5 }];
    for (policy, clauses) in [
        (plain.clone(), ""),
        (Policy { always_from: Some(magnitude(7.0)), ..plain.clone() }, "; plus every event of M 7.0 or more"),
        (Policy { reserve: reserve(1), ..plain.clone() }, "; the last one is kept for events of M 6.0 or more"),
        (
            Policy { costs, reserve: reserve(2), always_from: Some(magnitude(7.0)), ..plain },
            "; counting an event of M 5.5 or more as 2, of M 6.25 or more as 5; the last 2 are kept for events of M 6.0 or \
             more; plus every event of M 7.0 or more",
        ),
    ] {
        let promise = policy.promise();
        assert_eq!(promise.to_string(), format!("{}{clauses}", limit.promise()));
        assert_eq!(promise.most_in_any_window, 78);
    }
}

#[test]
fn a_limit_that_cannot_be_is_refused_when_configured() {
    let rate: Rate = "5/h".parse().expect("a rate");
    let bucket = |algorithm, bucket| Limit::new(algorithm, rate, Some(bucket)).map(|_| ());
    assert_eq!(bucket(Algorithm::TokenBucket, 0), Err(LimitError::Bucket(0)));
    assert_eq!(bucket(Algorithm::LeakyBucket, 1_000_000_001), Err(LimitError::Bucket(1_000_000_001)));
    assert_eq!(bucket(Algorithm::SlidingLog, 5), Err(LimitError::NoBucket(Algorithm::SlidingLog)));
    let fits_for = |algorithm| parsed(algorithm, "5/h", None).with_rule(CounterRule::Fits).map(|_| ());
    assert_eq!(fits_for(Algorithm::TokenBucket), Err(LimitError::NoRule(Algorithm::TokenBucket)));
    assert_eq!("gcra".parse::<Algorithm>(), Err(LimitError::Algorithm("gcra".to_owned())));
    assert_eq!("above".parse::<CounterRule>(), Err(LimitError::Rule("above".to_owned())));
}

#[test]
fn limits_are_written_in_json_as_on_the_command_line() {
    let counter = fits(parsed(Algorithm::SlidingCounter, "100/60s", None));
    for (limit, json) in [
        (parsed(Algorithm::TokenBucket, "5/h", Some(74)), r#"{"algorithm":"token-bucket","rate":"5/h","bucket":74}"#),
        (parsed(Algorithm::FixedWindow, "5/h", None), r#"{"algorithm":"fixed-window","rate":"5/h"}"#),
        (counter, r#"{"algorithm":"sliding-counter","rate":"100/m","counter_rule":"fits"}"#),
    ] {
        assert_eq!(serde_json::to_string(&limit).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<Limit>(json).expect(json), limit);
    }
    for wrong in [
        r#"{"algorithm":"token-bucket","rate":"5/h","bucket":0}"#,
        r#"{"algorithm":"sliding-log","rate":"5/h","bucket":5}"#,
        r#"{"algorithm":"sliding-log","rate":"0/h"}"#,
        r#"{"algorithm":"sliding-log","rate":"5/h","counter_rule":"fits"}"#,
        r#"{"algorithm":"sliding-log","rate":"5/h","burst":5}"#,
    ] {
        assert!(serde_json::from_str::<Limit>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_policy_whose_parts_do_not_fit_is_refused() {
    let plain = Policy::plain(parsed(Algorithm::TokenBucket, "5/h", Some(5)));
    let reserve = |keep| Some(Reserve { keep, from: magnitude(6.0) });
    let cost = |from, cost| CostStep { from: magnitude(from), cost };
    let with_costs = |costs: &[CostStep]| Policy { costs: costs.to_vec(), ..plain.clone() }.check();
    assert_eq!(plain.check(), Ok(()));
    for keep in [0, 5, 6] {
        let policy = Policy { reserve: reserve(keep), ..plain.clone() };
        assert_eq!(policy.check(), Err(PolicyError::Reserve { keep, burst: 5 }));
    }
    assert_eq!(Policy { reserve: reserve(4), ..plain.clone() }.check(), Ok(()));
    assert_eq!(with_costs(&[cost(5.0, 0)]), Err(PolicyError::Cost { cost: 0, burst: 5 }));
    assert_eq!(with_costs(&[cost(5.0, 6)]), Err(PolicyError::Cost { cost: 6, burst: 5 }));
    assert_eq!(with_costs(&[cost(6.0, 2), cost(5.0, 3)]), Err(PolicyError::CostOrder));
    assert_eq!(with_costs(&[cost(6.0, 2), cost(6.0, 3)]), Err(PolicyError::CostOrder));

    // An event of M 5 would need its 3 and leave 3 of the 5: it would never pass. One of M 6 may take them all.
    let starved = Policy { reserve: reserve(3), costs: vec![cost(5.0, 3)], ..plain.clone() };
    let error = starved.check().expect_err("it never passes");
    assert_eq!(
        error.to_string(),
        "a cost of 3 from M 5.0 is more than the 2 that the reserve leaves: such events would never pass"
    );
    assert_eq!(Policy { reserve: reserve(3), costs: vec![cost(5.0, 2), cost(6.0, 5)], ..plain }.check(), Ok(()));
}
