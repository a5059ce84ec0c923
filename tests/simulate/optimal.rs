//! The sliding log is optimal for its promise: no policy that keeps it, not even one that knows what is to come, admits more.

use throttler::limiter::{Algorithm, Limit};
use throttler::rate::Rate;
use throttler::simulate::{Stream, tally};
use throttler::time::{Span, Timestamp};

/// Whether no half-open stretch of `window` holds more than `limit` of these ascending times.
fn keeps_promise(times: &[Timestamp], limit: usize, window: u64) -> bool {
    times.windows(limit + 1).all(|run| run[limit].since(run[0]).ticks() >= window)
}

/// The most of these requests that can be admitted within the promise: by looking at every subset.
fn largest_admissible(requests: &[Timestamp], limit: usize, window: u64) -> u32 {
    let chosen = |subset: u32| {
        let members = requests.iter().enumerate().filter(|(index, _)| subset & (1 << index) != 0).map(|(_, at)| *at);
        keeps_promise(&members.collect::<Vec<_>>(), limit, window).then_some(subset.count_ones())
    };
    (0..1_u32 << requests.len()).filter_map(chosen).max().unwrap_or(0)
}

#[test]
fn no_admissible_subset_is_larger_than_what_the_log_admits() {
    let mut refusing = 0;
    for case in 0..4_000 {
        let mut stream = Stream::new(20, case);
        let count = 1 + stream.below(10);
        let (limit, window) = (1 + stream.below(4), 1 + stream.below(12));
        let spread = 1 + stream.below(40);
        let mut requests: Vec<Timestamp> =
            (0..count).map(|_| Timestamp::from_ticks(stream.below(spread).cast_signed()).expect("a small tick")).collect();
        requests.sort_unstable();
        let rate = Rate::new(limit, Span::from_ticks(window)).expect("a rate");
        let log = tally(Limit::new(Algorithm::SlidingLog, rate, None).expect("a log"), &requests);
        let best = largest_admissible(&requests, usize::try_from(limit).expect("small"), window);
        assert_eq!(log.admitted, u64::from(best), "{limit} per {window} ticks of {requests:?}");
        refusing += u32::from(log.admitted < count);
    }
    assert!(refusing > 1_000, "only {refusing} of the cases ask for more than the log admits");
}
