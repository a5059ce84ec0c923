//! Honest traffic: what every limiter serves of exactly the same requests, its busiest window, its wrong answers.

use super::statistics::{Estimate, erlang_b, poisson_truncated};
use super::traffic::{Demand, MAX_LOAD_PERCENT, Shape};
use super::variants::CountedTokens;
use super::{MAX_DECISIONS, MAX_LENGTH, MAX_REQUESTS_A_RUN, MAX_RUNS, SetupError, Stream, Tally, Work, tally, usual_buckets};
use crate::limiter::{Algorithm, CounterRule, Limit};
use crate::rate::Rate;
use crate::time::{Span, Timestamp};

/// The experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    pub rate: Rate,
    /// The traffic, each with its load in percent of the limit.
    pub traffic: Vec<(Shape, u32)>,
    /// For the token bucket and the leaky bucket.
    pub buckets: Vec<u64>,
    pub algorithms: Vec<Algorithm>,
    pub rule: CounterRule,
    pub runs: u32,
    pub length: Span,
    pub seed: u64,
}

/// Why a limiter is in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It was asked for.
    Chosen,
    /// Of the token buckets that can never break the literal rule, because the bucket and a window's refill together are
    /// within the limit, the one that serves most.
    BestSafe,
}

/// What one limiter did with one kind of traffic, over all runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientsRow {
    pub shape: Shape,
    pub load_percent: u32,
    pub limit: Limit,
    pub role: Role,
    pub offered: u64,
    pub admitted: u64,
    /// The share served, where a formula gives it.
    pub exact: Option<f64>,
    pub served: Estimate,
    pub busiest_window: Estimate,
    pub worst_window: u64,
    /// Shares of the decisions.
    pub wrong_reject: Estimate,
    pub wrong_admit: Estimate,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientsResult {
    /// By traffic, then by limiter, in the order of the set-up.
    pub rows: Vec<ClientsRow>,
    /// Comparisons of the token bucket with one that counts its tokens, one a run and bucket.
    pub compared: u64,
    /// How many of them admitted the same number.
    pub same: u64,
}

/// Candidates for the safe bucket: tenths of the limit, the rest of it being the refill.
const SAFE_CANDIDATES: u64 = 9;

impl Clients {
    /// The published set-up: 100 per 60 s; five shapes at loads of 30, 50, 80 and 100 %, and steady at 120 % too; buckets of
    /// 50 and 75; 20 runs of 2,000 minutes each.
    #[must_use]
    pub fn published(rate: Rate, seed: u64) -> Clients {
        let loads = |shape| {
            let overload = (shape == Shape::Steady).then_some(120);
            [30, 50, 80, 100].into_iter().chain(overload).map(move |load| (shape, load))
        };
        Clients {
            rate,
            traffic: Shape::ALL.into_iter().flat_map(loads).collect(),
            buckets: usual_buckets(rate),
            algorithms: Algorithm::ALL.to_vec(),
            rule: CounterRule::default(),
            runs: 20,
            length: Span::from_seconds(2_000 * 60),
            seed,
        }
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// [`SetupError`] before any work, if the parameters make no experiment or an endless one.
    pub fn run(&self, work: &Work<'_>) -> Result<ClientsResult, SetupError> {
        let subjects = self.subjects()?;
        let demands = self.checked_demands(subjects.len() as u64)?;
        let runs = self.runs as usize;
        let done = work.each(demands.len() * runs, |task| {
            let (demand, run) = (demands[task / runs], task % runs);
            let requests = demand.requests(&mut stream_of(self.seed, &demand, run as u64));
            Run::of(&subjects, &requests)
        });
        let rows = demands.iter().zip(done.chunks(runs)).flat_map(|(demand, runs)| rows_of(demand, &subjects, runs));
        Ok(ClientsResult {
            rows: rows.collect(),
            compared: done.iter().map(|run| run.compared).sum(),
            same: done.iter().map(|run| run.same).sum(),
        })
    }

    /// The limiters, in the order in which they are shown, the safe candidates last.
    fn subjects(&self) -> Result<Vec<(Limit, Role)>, SetupError> {
        let mut subjects = Vec::new();
        for algorithm in Algorithm::ALL.into_iter().filter(|algorithm| self.algorithms.contains(algorithm)) {
            let buckets: Vec<_> =
                if algorithm.has_bucket() { self.buckets.iter().copied().map(Some).collect() } else { vec![None] };
            for bucket in buckets {
                let limit = Limit::new(algorithm, self.rate, bucket)?;
                let rule = if algorithm == Algorithm::SlidingCounter { self.rule } else { CounterRule::default() };
                subjects.push((limit.with_rule(rule)?, Role::Chosen));
            }
        }
        if self.algorithms.contains(&Algorithm::TokenBucket) {
            subjects.extend(self.safe_candidates()?.into_iter().map(|limit| (limit, Role::BestSafe)));
        }
        if subjects.is_empty() { Err(SetupError::Nothing("no limiter is chosen")) } else { Ok(subjects) }
    }

    fn safe_candidates(&self) -> Result<Vec<Limit>, SetupError> {
        let n = u64::from(self.rate.limit());
        let mut buckets: Vec<u64> = (1..=SAFE_CANDIDATES).map(|tenths| n * tenths / 10).filter(|b| (1..n).contains(b)).collect();
        buckets.dedup();
        let limit = |bucket: u64| {
            let refill = Rate::new(n - bucket, self.rate.window())?;
            Ok(Limit::new(Algorithm::TokenBucket, refill, Some(bucket))?)
        };
        buckets.into_iter().map(limit).collect()
    }

    fn checked_demands(&self, subjects: u64) -> Result<Vec<Demand>, SetupError> {
        let demand = |(shape, load_percent): &(Shape, u32)| {
            let demand = Demand { shape: *shape, load_percent: *load_percent, rate: self.rate, length: self.length };
            check_demand(&demand).map(|()| demand)
        };
        let demands: Vec<Demand> = self.traffic.iter().map(demand).collect::<Result<_, _>>()?;
        check_work(self.runs, demands.iter().map(Demand::expected).sum::<f64>() * subjects as f64)?;
        if demands.is_empty() { Err(SetupError::Nothing("no traffic is chosen")) } else { Ok(demands) }
    }
}

/// Whether one run of this traffic makes sense and ends.
pub(super) fn check_demand(demand: &Demand) -> Result<(), SetupError> {
    let (length, window) = (demand.length, demand.rate.window());
    if length == Span::ZERO || length > MAX_LENGTH {
        return Err(SetupError::Length(length));
    }
    if length < window {
        return Err(SetupError::ShorterThanWindow { length, window });
    }
    if !(1..=MAX_LOAD_PERCENT).contains(&demand.load_percent) {
        return Err(SetupError::Load(demand.load_percent));
    }
    let expected = demand.expected();
    if expected > MAX_REQUESTS_A_RUN as f64 { Err(SetupError::Requests(expected)) } else { Ok(()) }
}

/// Whether so many runs, of so many expected decisions each, end.
pub(super) fn check_work(runs: u32, decisions_a_run: f64) -> Result<(), SetupError> {
    if !(1..=MAX_RUNS).contains(&runs) {
        return Err(SetupError::Runs(runs));
    }
    let decisions = decisions_a_run * f64::from(runs);
    if decisions > MAX_DECISIONS as f64 { Err(SetupError::Decisions(decisions)) } else { Ok(()) }
}

/// The stream of one run depends on nothing but the seed, the traffic and the run, so that a part of an experiment gives
/// the same as the whole.
pub(super) fn stream_of(seed: u64, demand: &Demand, run: u64) -> Stream {
    Stream::new(seed, ((demand.shape as u64) << 56) | (u64::from(demand.load_percent) << 32) | run)
}

/// One run of one kind of traffic.
struct Run {
    tallies: Vec<Tally>,
    compared: u64,
    same: u64,
}

impl Run {
    fn of(subjects: &[(Limit, Role)], requests: &[Timestamp]) -> Run {
        let mut run = Run { tallies: Vec::with_capacity(subjects.len()), compared: 0, same: 0 };
        for (limit, role) in subjects {
            let found = tally(*limit, requests);
            if limit.algorithm() == Algorithm::TokenBucket && *role == Role::Chosen {
                let mut counted = CountedTokens::new(*limit);
                let admitted = requests.iter().filter(|now| counted.admit(**now)).count() as u64;
                run.compared += 1;
                run.same += u64::from(admitted == found.admitted);
            }
            run.tallies.push(found);
        }
        run
    }
}

fn rows_of(demand: &Demand, subjects: &[(Limit, Role)], runs: &[Run]) -> Vec<ClientsRow> {
    let mut rows: Vec<ClientsRow> = Vec::new();
    let mut best_safe: Option<ClientsRow> = None;
    for (index, (limit, role)) in subjects.iter().enumerate() {
        let tallies: Vec<Tally> = runs.iter().map(|run| run.tallies[index]).collect();
        let row = row_of(demand, *limit, *role, &tallies);
        match role {
            Role::Chosen => rows.push(row),
            Role::BestSafe if best_safe.is_none_or(|best| row.admitted > best.admitted) => best_safe = Some(row),
            Role::BestSafe => {}
        }
    }
    rows.extend(best_safe);
    rows
}

fn row_of(demand: &Demand, limit: Limit, role: Role, tallies: &[Tally]) -> ClientsRow {
    let estimate = |value: &dyn Fn(&Tally) -> f64| Estimate::of(&tallies.iter().map(value).collect::<Vec<_>>());
    ClientsRow {
        shape: demand.shape,
        load_percent: demand.load_percent,
        limit,
        role,
        offered: tallies.iter().map(|tally| tally.offered).sum(),
        admitted: tallies.iter().map(|tally| tally.admitted).sum(),
        exact: exactly_served(demand, limit),
        served: estimate(&Tally::served),
        busiest_window: estimate(&|tally| tally.busiest_window as f64),
        worst_window: tallies.iter().map(|tally| tally.busiest_window).max().unwrap_or(0),
        wrong_reject: estimate(&|tally| tally.share(tally.wrong_rejects)),
        wrong_admit: estimate(&|tally| tally.share(tally.wrong_admits)),
    }
}

/// The share served of Poisson traffic, where a formula is known.
pub(super) fn exactly_served(demand: &Demand, limit: Limit) -> Option<f64> {
    let n = demand.rate.limit();
    let mean = f64::from(n) * f64::from(demand.load_percent) / 100.0;
    match limit.algorithm() {
        _ if demand.shape != Shape::Steady => None,
        Algorithm::SlidingLog => Some(1.0 - erlang_b(n, mean)),
        Algorithm::FixedWindow => Some(poisson_truncated(n, mean)),
        _ => None,
    }
}

impl ClientsResult {
    /// Against the counter, on how many kinds of traffic a token bucket of this size serves at least as much: (so many, of
    /// so many). Loads above the limit are not counted.
    #[must_use]
    pub fn bucket_against_counter(&self, bucket: u32) -> (u64, u64) {
        let of = |wanted: &dyn Fn(Limit) -> bool| {
            let rows = self.rows.iter().filter(|row| row.role == Role::Chosen && row.load_percent <= 100 && wanted(row.limit));
            rows.map(|row| row.served.mean).collect::<Vec<_>>()
        };
        let buckets = of(&|limit| limit.algorithm() == Algorithm::TokenBucket && limit.bucket() == Some(bucket));
        let counters = of(&|limit| limit.algorithm() == Algorithm::SlidingCounter);
        let pairs = buckets.iter().zip(&counters);
        (pairs.clone().filter(|(bucket, counter)| bucket >= counter).count() as u64, pairs.len() as u64)
    }
}
