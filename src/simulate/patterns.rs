//! The three patterns of requests on which the limiters are told apart by hand, at ten per 60 s.

use std::fmt;

use serde::Serialize;

use super::{Tally, tally, tick};
use crate::limiter::{Algorithm, CounterRule, Limit, LimitError};
use crate::rate::Rate;
use crate::time::{TICKS_PER_SECOND, Timestamp};

/// A pattern of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Pattern {
    /// Ten at 59 s, ten at 61 s.
    A,
    /// One a second, from 0 to 119 s.
    B,
    /// Ten at 0, then one a second, from 1 to 60 s.
    C,
}

impl Pattern {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Pattern; 3] = [Pattern::A, Pattern::B, Pattern::C];

    /// What it is, for people.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Pattern::A => "ten at 59 s, ten at 61 s",
            Pattern::B => "one a second from 0 to 119 s",
            Pattern::C => "ten at 0, then one a second from 1 to 60 s",
        }
    }

    /// When its requests come.
    #[must_use]
    pub fn requests(self) -> Vec<Timestamp> {
        let seconds: Vec<u64> = match self {
            Pattern::A => [[59; 10], [61; 10]].concat(),
            Pattern::B => (0..120).collect(),
            Pattern::C => [0; 10].into_iter().chain(1..=60).collect(),
        };
        seconds.into_iter().map(|second| tick(second * TICKS_PER_SECOND.unsigned_abs())).collect()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Pattern::A => "A",
            Pattern::B => "B",
            Pattern::C => "C",
        })
    }
}

/// What one limiter did with one pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternRow {
    pub pattern: Pattern,
    pub limit: Limit,
    pub tally: Tally,
}

/// All limiters on all patterns, buckets the size of the rate's N where none is given.
///
/// # Errors
/// [`LimitError`] if there is no such bucket.
pub fn patterns(rate: Rate, bucket: Option<u64>) -> Result<Vec<PatternRow>, LimitError> {
    let limits = every_limit(rate, bucket)?;
    let rows = Pattern::ALL.into_iter().flat_map(|pattern| {
        let requests = pattern.requests();
        let row = move |limit: &Limit| PatternRow { pattern, limit: *limit, tally: tally(*limit, &requests) };
        limits.iter().map(row)
    });
    Ok(rows.collect())
}

/// The five algorithms, the sliding counter with both of its rules.
///
/// # Errors
/// [`LimitError`] if there is no such bucket.
pub fn every_limit(rate: Rate, bucket: Option<u64>) -> Result<Vec<Limit>, LimitError> {
    let mut limits = Vec::new();
    for algorithm in Algorithm::ALL {
        let limit = Limit::new(algorithm, rate, bucket.filter(|_| algorithm.has_bucket()))?;
        limits.push(limit);
        if algorithm == Algorithm::SlidingCounter {
            limits.push(limit.with_rule(CounterRule::Fits)?);
        }
    }
    Ok(limits)
}
