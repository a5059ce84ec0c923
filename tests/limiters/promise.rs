//! The promised number is the worst that any traffic can do: an exhaustive adversary on small windows finds exactly it,
//! and on large ones a flood attains it and nothing found exceeds it.

use std::collections::HashMap;

use proptest::prelude::*;
use throttler::limiter::{Algorithm, Limit, Limiter, Request, Verdict};
use throttler::rate::Rate;

use crate::support::{SECOND, all_limits, any_limit, any_size, at, cases, fits, limit_of, parsed};

/// Every state that some traffic leads to, by its bytes, with the most that the adversary has gained on the way.
type States = HashMap<Vec<u8>, (Limiter, u64)>;

/// One tick later: every number of admissions at `tick` that is possible, each gaining what `gain` says it is worth.
fn advance(states: &States, tick: i64, mut gain: impl FnMut(&Limiter) -> u64) -> States {
    let mut next = States::new();
    for (limiter, gained) in states.values() {
        let (mut limiter, mut gained) = (limiter.clone(), *gained);
        loop {
            let known = next.entry(limiter.to_bytes()).or_insert_with(|| (limiter.clone(), gained));
            known.1 = known.1.max(gained);
            let worth = gain(&limiter);
            if limiter.admit(at(tick), Request::ONE) != Verdict::Admitted {
                break;
            }
            gained += worth;
        }
    }
    next
}

/// The same states, nothing gained yet.
fn from_here(states: &States) -> States {
    states.iter().map(|(bytes, (limiter, _))| (bytes.clone(), (limiter.clone(), 0))).collect()
}

fn most_gained(states: &States) -> u64 {
    states.values().map(|(_, gained)| *gained).max().unwrap_or(0)
}

/// All states after any traffic in this many ticks.
fn after_any_traffic(limit: Limit, ticks: i64) -> States {
    let unused = States::from([(Vec::new(), (Limiter::new(limit), 0))]);
    (0..ticks).fold(unused, |states, tick| advance(&states, tick, |_| 0))
}

fn window_ticks(limit: Limit) -> i64 {
    i64::try_from(limit.rate().window().ticks()).expect("at most ten years")
}

/// The most admissions in any stretch of one window, over all traffic: every number of requests at every tick of two
/// windows before, and of the stretch, which begins at every phase of the clock window.
fn worst_of_admissions(limit: Limit) -> u64 {
    let window = window_ticks(limit);
    let worst_from = |start: i64| {
        let history = from_here(&after_any_traffic(limit, start));
        most_gained(&(start..start + window).fold(history, |states, tick| advance(&states, tick, |_| 1)))
    };
    (2 * window..3 * window).map(worst_from).max().expect("a window has a tick")
}

/// The most departures from a leaky bucket in any stretch of one window, which begins with a departure: over all traffic
/// before, and until what is admitted leaves after the stretch. In exact times, fractions of a tick included. The clock's
/// windows mean nothing to it, so one beginning is enough.
fn worst_of_departures(limit: Limit) -> u64 {
    let departure = |limiter: &Limiter, tick: i64| match limiter {
        Limiter::LeakyBucket(queue) => queue.departure(at(tick)).scaled,
        other => unreachable!("{other:?} is no leaky bucket"),
    };
    let window = window_ticks(limit);
    let start = 2 * window;
    let worst_after = |(limiter, _): &(Limiter, u64)| {
        let end = departure(limiter, start) + i128::from(window) * i128::from(limit.rate().limit());
        let here = States::from([(Vec::new(), (limiter.clone(), 0))]);
        let counts = |tick| move |limiter: &Limiter| u64::from(departure(limiter, tick) < end);
        most_gained(&(start..=start + window).fold(here, |states, tick| advance(&states, tick, counts(tick))))
    };
    after_any_traffic(limit, start).values().map(worst_after).max().expect("a state")
}

#[test]
fn the_worst_traffic_on_small_windows_attains_the_promise() {
    for window in 1..=6 {
        for n in 1..=7 {
            for limit in all_limits(n, window, 1).into_iter().take(4) {
                // The states of a long log with many stamps are too many to walk.
                if limit.algorithm() != Algorithm::SlidingLog || n + window <= 8 {
                    assert_eq!(worst_of_admissions(limit), limit.promise().most_in_any_window, "{limit:?}");
                }
            }
        }
    }
}

#[test]
fn the_worst_traffic_on_small_buckets_attains_the_promise() {
    for (window, n, bucket) in small_buckets() {
        let limit = limit_of(Algorithm::TokenBucket, n, window, bucket);
        assert_eq!(worst_of_admissions(limit), limit.promise().most_in_any_window, "{limit:?}");
    }
}

#[test]
fn the_worst_traffic_on_small_queues_attains_the_promise() {
    for (window, n, bucket) in small_buckets() {
        let limit = limit_of(Algorithm::LeakyBucket, n, window, bucket);
        assert_eq!(worst_of_departures(limit), limit.promise().most_in_any_window, "{limit:?}");
    }
}

/// Windows of 1 to 7 ticks, 1 to 9 admissions in them (so up to 9 a tick), buckets of 1 to 4.
fn small_buckets() -> impl Iterator<Item = (u64, u64, u64)> {
    (1..=7).flat_map(|window| (1..=9).flat_map(move |n| (1..=4).map(move |bucket| (window, n, bucket))))
}

/// A client that waited quietly, floods at `start`, and from then on takes all that it gets, asking at these ticks and at
/// the last of the stretch of one window. What passes in the stretch: admissions, or departures of the leaky bucket.
fn flood(limit: Limit, start: i64, asks_at: impl IntoIterator<Item = i64>) -> u64 {
    let mut limiter = Limiter::new(limit);
    let end = start + window_ticks(limit);
    [start].into_iter().chain(asks_at).chain([end - 1]).map(|tick| take_all(&mut limiter, tick, end)).sum()
}

/// Takes all that is left at this tick. How much of it passes before `end`.
fn take_all(limiter: &mut Limiter, tick: i64, end: i64) -> u64 {
    let left = limiter.outlook(at(tick), Request::ONE).remaining;
    if left == 0 {
        return 0;
    }
    let rate = limiter.limit().rate();
    let leaving = match &limiter {
        Limiter::LeakyBucket(queue) => {
            let (n, apart) = (i128::from(rate.limit()), i128::from(rate.window().ticks()));
            let until_end = (i128::from(end) * n - queue.departure(at(tick)).scaled).max(0);
            u64::try_from((until_end + apart - 1) / apart).expect("at most n")
        }
        _ => left,
    };
    let all = Request::costing(u32::try_from(left).expect("at most 10^9"));
    assert_eq!(limiter.admit(at(tick), all), Verdict::Admitted, "what is said to remain is admitted");
    left.min(leaving)
}

proptest! {
    #![proptest_config(cases(500))]

    /// Flooding at the last tick of a clock window attains the number, under every limiter; at no other phase is it exceeded.
    #[test]
    fn a_flood_attains_the_promise_of_large_limits(
        n in any_size(1, u64::from(Rate::MAX_LIMIT)),
        window in any_size(1_000, Rate::MAX_WINDOW.ticks()),
        share in 1..1_000_u64,
        phases in prop::collection::vec(0..1_000_i128, 8),
    ) {
        // Asked 200 times in the window, no bucket of this size overflows before the next time.
        let bucket = (n * share).div_ceil(199) + 1;
        for limit in all_limits(n, window, bucket.min(Limit::MAX_BUCKET.into())) {
            let window = window_ticks(limit);
            let part = |share: i128, whole: i128| i64::try_from(i128::from(window) * share / whole).expect("below ten years");
            let often = |start: i64| (1..200).map(move |i| start + part(i, 200));
            let most = limit.promise().most_in_any_window;
            let at_the_edge = flood(limit, 5 * window - 1, often(5 * window - 1));
            prop_assert_eq!(at_the_edge, most, "{:?}", limit);
            for phase in &phases {
                let start = 5 * window + part(*phase, 1_000);
                prop_assert!(flood(limit, start, often(start)) <= most, "{limit:?} at phase {phase} of 1000");
            }
        }
    }

    /// Traffic of any kind: bursts of any size, pauses of any length.
    #[test]
    fn no_traffic_exceeds_the_promise(
        limit in any_limit(),
        traffic in prop::collection::vec((0..1_000_u128, 0..4_u32, 1..100_u64), 1..120),
    ) {
        let mut limiter = Limiter::new(limit);
        let window = limit.rate().window().ticks();
        let (mut now, mut passed) = (0_i64, Vec::new());
        for (pause, order, percent) in traffic {
            let pause = u128::from(window) * pause / 1_000 / 10_u128.pow(order);
            now += i64::try_from(pause).expect("below ten years");
            let cost = (limiter.outlook(at(now), Request::ONE).remaining * percent).div_ceil(100).max(1);
            let request = Request::costing(u32::try_from(cost).expect("at most 10^9"));
            if limiter.admit(at(now), request) == Verdict::Admitted {
                passed.push((now, cost));
            }
        }
        // The queue's departures are spaced, see above; what enters it is bounded as by a token bucket.
        let most = if limit.algorithm() == Algorithm::LeakyBucket {
            Limit::new(Algorithm::TokenBucket, limit.rate(), limit.bucket().map(u64::from)).expect("the same").promise()
        } else {
            limit.promise()
        };
        for (i, (start, _)) in passed.iter().enumerate() {
            let end = start.saturating_add_unsigned(window);
            let in_stretch: u64 = passed[i..].iter().take_while(|(t, _)| *t < end).map(|(_, cost)| cost).sum();
            prop_assert!(in_stretch <= most.most_in_any_window, "{in_stretch} pass from {start} on: {limit:?}");
        }
    }
}

/// The published attacks: 100 per 60 s, a flood at a second of the minute, then every request that gets through.
#[test]
fn the_published_attacks() {
    let counter = parsed(Algorithm::SlidingCounter, "100/60s", None);
    let bucket = |b| parsed(Algorithm::TokenBucket, "100/60s", Some(b));
    let attack = |limit: Limit, second: i64| {
        let start = (60 + second) * SECOND;
        flood(limit, start, (1..600).map(|tenth| start + tenth * SECOND / 10))
    };
    let worst = |limit| (0..60).map(|second| attack(limit, second)).max();
    assert_eq!(worst(parsed(Algorithm::FixedWindow, "100/60s", None)), Some(200));
    assert_eq!(worst(parsed(Algorithm::SlidingLog, "100/60s", None)), Some(100));
    assert_eq!([attack(counter, 59), attack(counter, 30)], [199, 150]);
    assert_eq!([worst(bucket(50)), worst(bucket(75))], [Some(149), Some(174)]);
    assert_eq!(worst(parsed(Algorithm::LeakyBucket, "100/60s", Some(75))), Some(100));
    // At the very last tick of the minute the counter lets everything pass twice; the stricter rule one less.
    let last_tick = 120 * SECOND - 1;
    assert_eq!([counter, fits(counter)].map(|limit| flood(limit, last_tick, [])), [200, 199]);
}
