//! The worst stretch, exactly.

use throttler::limiter::Algorithm::{FixedWindow, LeakyBucket, SlidingCounter, SlidingLog, TokenBucket};
use throttler::limiter::Limit;
use throttler::simulate::attack::{Attack, AttackRow};

use crate::support::{fits, limit, published_rate, rate};

fn of(found: &[AttackRow], limit: Limit) -> &AttackRow {
    found.iter().find(|row| row.limit == limit).expect("a row for each limiter")
}

fn at_second(row: &AttackRow, second: u64) -> u64 {
    row.by_phase.iter().find(|(phase, _)| *phase == second * 1_000_000).expect("a phase at each second").1
}

#[test]
fn the_published_attacks() {
    let found = Attack::published(published_rate()).run().expect("an attack");
    let row = |algorithm, bucket| of(&found, limit(algorithm, "100/60s", bucket));
    assert_eq!(row(FixedWindow, None).worst_window, 200);
    assert_eq!(row(SlidingLog, None).worst_window, 100);
    assert_eq!([59, 30].map(|second| at_second(row(SlidingCounter, None), second)), [199, 150]);
    assert_eq!([50, 75].map(|b| row(TokenBucket, Some(b)).worst_window), [149, 174]);
    assert_eq!([50, 75].map(|b| row(LeakyBucket, Some(b)).worst_window), [100, 100]);
    // The bucket and the log do not know the clock's windows: every phase is as good.
    for row in [row(SlidingLog, None), row(TokenBucket, Some(50))] {
        assert!(row.by_phase.iter().all(|(_, most)| *most == row.worst_window), "{row:?}");
    }
    // A flood on the window's first tick finds one window's allowance, not two.
    assert_eq!(at_second(row(FixedWindow, None), 0), 100);
}

/// At the window's last tick the worst is what is promised, also for limits that are not published.
#[test]
fn the_attacks_attain_the_promise_and_no_more() {
    for text in ["100/60s", "5/h", "7/h", "1/2d", "13/90m", "10/s", "3/ms"] {
        let attack = Attack { buckets: vec![1, 5, 74], phases: 24, ..Attack::published(rate(text)) };
        for row in attack.run().expect("an attack") {
            assert_eq!(row.worst_window, row.limit.promise().most_in_any_window, "{:?}", row.limit);
        }
    }
    let fits = fits(limit(SlidingCounter, "100/60s", None));
    assert_eq!(of(&Attack::published(published_rate()).run().expect("an attack"), fits).worst_window, 199);
}
