//! Limiters side by side: which ones, and what is said of each for people.

use super::Replayed;
use super::losses::{largest, silence, worst_day};
use crate::limiter::{Algorithm, CounterRule, Limit, LimitError};
use crate::rate::Rate;
use crate::words::{Side, Table, count, duration};

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    pub rate: Rate,
    /// Each for every limiter that has a bucket; none: the `N` of the rate.
    pub buckets: Vec<u64>,
    /// None: all of them.
    pub algorithms: Vec<Algorithm>,
    pub counter_rule: CounterRule,
}

impl Comparison {
    /// The limits to compare, in the order in which they are always shown.
    ///
    /// # Errors
    /// [`LimitError`] if there is no such bucket.
    pub fn limits(&self) -> Result<Vec<Limit>, LimitError> {
        let is_chosen = |algorithm: &Algorithm| self.algorithms.is_empty() || self.algorithms.contains(algorithm);
        let mut limits = Vec::new();
        for algorithm in Algorithm::ALL.into_iter().filter(is_chosen) {
            let mut buckets: Vec<Option<u64>> = self.buckets.iter().copied().map(Some).collect();
            if buckets.is_empty() || !algorithm.has_bucket() {
                buckets = vec![None];
            }
            for bucket in buckets {
                let limit = Limit::new(algorithm, self.rate, bucket)?;
                let has_rule = algorithm == Algorithm::SlidingCounter;
                limits.push(if has_rule { limit.with_rule(self.counter_rule)? } else { limit });
            }
        }
        Ok(limits)
    }
}

/// What each limiter did, a row each.
#[must_use]
pub fn table(rate: Rate, results: &[Replayed<'_>]) -> Table {
    let busiest = format!("most in any {}", rate.window());
    let columns = [
        ("limiter", Side::Left),
        ("bucket", Side::Right),
        ("admitted", Side::Right),
        ("refused", Side::Right),
        (busiest.as_str(), Side::Right),
        ("promised", Side::Right),
        ("delayed", Side::Right),
        ("longest wait", Side::Right),
        ("longest silence", Side::Right),
        ("worst day", Side::Left),
        ("largest refused", Side::Left),
    ];
    let none = || "-".to_owned();
    let row = |result: &Replayed<'_>| {
        vec![
            result.limit.name(),
            result.limit.bucket().map_or_else(none, |bucket| count(bucket.into())),
            count(result.admitted),
            count(result.refused),
            count(result.busiest_window),
            count(result.limit.promise().most_in_any_window),
            result.waits.map_or_else(none, |waits| count(waits.delayed)),
            result.waits.map_or_else(none, |waits| duration(waits.longest)),
            silence(result.longest_silence),
            worst_day(&result.worst_days),
            largest(result.largest_refused),
        ]
    };
    Table { columns: columns.map(|(head, side)| (head.to_owned(), side)).to_vec(), rows: results.iter().map(row).collect() }
}
