//! Counting what was refused: how a limiter that also records refused requests locks a retrying client out for good.

use std::collections::VecDeque;

use super::clients::{check_demand, check_work};
use super::statistics::Estimate;
use super::traffic::{Demand, Shape};
use super::variants::{CountsRefused, Recording};
use super::{SetupError, Stream, Work, tick};
use crate::limiter::{Algorithm, Limit};
use crate::rate::Rate;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// The most tries that a refused request makes after its first.
pub const MAX_TRIES: u32 = 1_000;
/// The most requests at once.
pub const MAX_SPIKE: u32 = 1_000_000;
/// A refused request is tried again after this.
const RETRY_AFTER: Span = Span::from_ticks(TICKS_PER_SECOND.unsigned_abs());
/// The spike comes at the fifth window: minute 5 of the published set-up.
const SPIKE_WINDOW: u64 = 5;

/// The experiment: a steady client with one spike, whose refused requests are tried again once a second.
#[derive(Clone, Debug, PartialEq)]
pub struct Lockout {
    pub rate: Rate,
    /// What the client asks for, in percent of the limit.
    pub loads_percent: Vec<u32>,
    /// How often a refused request is tried again, at most.
    pub tries: Vec<u32>,
    pub spike: u32,
    pub runs: u32,
    pub length: Span,
    pub seed: u64,
}

/// What a client got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LockoutRow {
    pub limit: Limit,
    pub recording: Recording,
    pub load_percent: u32,
    pub tries: u32,
    /// Requests, each counted once however often it was tried.
    pub offered: u64,
    pub admitted: u64,
    pub served: Estimate,
}

impl LockoutRow {
    /// All tries of a client that is never served, the first included, in units of the limit: the lock sets in at some 1.6
    /// to 3 of these.
    #[must_use]
    pub fn pressure(&self) -> f64 {
        f64::from(1 + self.tries) * f64::from(self.load_percent) / 100.0
    }

    /// Whether the client was served less than half: in practice all, or next to nothing.
    #[must_use]
    pub fn locked_out(&self) -> bool {
        self.served.mean < 0.5
    }
}

impl Lockout {
    /// The published set-up: 100 per 60 s, a spike of 200 at minute 5, 200 minutes.
    #[must_use]
    pub fn published(rate: Rate, seed: u64) -> Lockout {
        Lockout {
            rate,
            loads_percent: vec![10, 25, 50, 75],
            tries: vec![1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 60],
            spike: 200,
            runs: 20,
            length: Span::from_seconds(200 * 60),
            seed,
        }
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// [`SetupError`] before any work, if the parameters make no experiment or an endless one.
    pub fn run(&self, work: &Work<'_>) -> Result<Vec<LockoutRow>, SetupError> {
        let cases = self.checked_cases()?;
        let runs = self.runs as usize;
        let served = work.each(cases.len() * runs, |task| {
            let (case, run) = (&cases[task / runs], task % runs);
            let requests = self.requests(&case.demand, run as u64);
            let admitted = serve(case.limiter.clone(), &requests, case.tries);
            (requests.len() as u64, admitted)
        });
        let row = |(case, runs): (&Case, &[(u64, u64)])| LockoutRow {
            limit: case.limit,
            recording: case.recording,
            load_percent: case.demand.load_percent,
            tries: case.tries,
            offered: runs.iter().map(|(offered, _)| offered).sum(),
            admitted: runs.iter().map(|(_, admitted)| admitted).sum(),
            served: Estimate::of(&runs.iter().map(|(offered, admitted)| *admitted as f64 / *offered as f64).collect::<Vec<_>>()),
        };
        Ok(cases.iter().zip(served.chunks(runs)).map(row).collect())
    }

    fn checked_cases(&self) -> Result<Vec<Case>, SetupError> {
        if let Some(tries) = self.tries.iter().find(|tries| **tries > MAX_TRIES) {
            return Err(SetupError::Tries(*tries));
        }
        if !(1..=MAX_SPIKE).contains(&self.spike) {
            return Err(SetupError::Spike(self.spike));
        }
        let after = Span::from_ticks(SPIKE_WINDOW * self.rate.window().ticks());
        if after >= self.length {
            return Err(SetupError::SpikeAfterEnd { after, length: self.length });
        }
        let mut cases = Vec::new();
        let mut decisions = 0.0;
        for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingCounter] {
            let limit = Limit::new(algorithm, self.rate, None)?;
            for recording in [Recording::AdmittedAndRefused, Recording::Admitted] {
                for load_percent in &self.loads_percent {
                    let (shape, length) = (Shape::Steady, self.length);
                    let demand = Demand { shape, load_percent: *load_percent, rate: self.rate, length };
                    check_demand(&demand)?;
                    for tries in &self.tries {
                        decisions += (demand.expected() + f64::from(self.spike)) * f64::from(tries + 1);
                        let limiter = CountsRefused::new(limit, recording)?;
                        cases.push(Case { limit, recording, limiter, demand, tries: *tries });
                    }
                }
            }
        }
        check_work(self.runs, decisions)?;
        if cases.is_empty() { Err(SetupError::Nothing("no load or no number of tries is chosen")) } else { Ok(cases) }
    }

    /// The steady client's requests and the spike, in order; the same for every limiter and every number of tries.
    fn requests(&self, demand: &Demand, run: u64) -> Vec<Timestamp> {
        let mut stream = Stream::new(self.seed, (u64::from(demand.load_percent) << 32) | run);
        let mut requests = demand.requests(&mut stream);
        let spike_at = tick(SPIKE_WINDOW * self.rate.window().ticks());
        let before = requests.partition_point(|at| *at < spike_at);
        requests.splice(before..before, std::iter::repeat_n(spike_at, self.spike as usize));
        requests
    }
}

/// One limiter, one client.
struct Case {
    limit: Limit,
    recording: Recording,
    limiter: CountsRefused,
    demand: Demand,
    tries: u32,
}

/// How many of the requests are served, at once or on one of their later tries.
///
/// Every try waits equally long, so those that wait leave in the order in which they came: a queue keeps them sorted.
fn serve(mut limiter: CountsRefused, requests: &[Timestamp], tries: u32) -> u64 {
    let mut waiting: VecDeque<(Timestamp, u32)> = VecDeque::new();
    let mut fresh = requests.iter().copied().peekable();
    let mut admitted = 0;
    loop {
        let before_retries = |at: &Timestamp| waiting.front().is_none_or(|(again_at, _)| at < again_at);
        let next = fresh.next_if(before_retries).map(|at| (at, tries)).or_else(|| waiting.pop_front());
        let Some((now, tries_left)) = next else { return admitted };
        if limiter.admit(now) {
            admitted += 1;
        } else if tries_left > 0 {
            waiting.push_back((now.plus(RETRY_AFTER), tries_left - 1));
        }
    }
}
