//! One limit over several servers: each with its own share of it, or all with one shared state.

use super::clients::{check_demand, check_work, stream_of};
use super::statistics::{Estimate, erlang_b};
use super::traffic::{Demand, Shape};
use super::variants::{SharedLimiter, Sharing};
use super::{MAX_REQUESTS_A_RUN, SetupError, Stream, Work, tally, tick};
use crate::limiter::{Algorithm, Limit};
use crate::rate::Rate;
use crate::replay::busiest_window;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// The most servers.
pub const MAX_SERVERS: u32 = 10_000;
/// The longest gap between reading and writing.
pub const MAX_GAP: Span = Span::from_seconds(60);

/// The first experiment: requests go to the servers at random, and each server holds its share of the limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub rate: Rate,
    pub shapes: Vec<Shape>,
    pub load_percent: u32,
    pub servers: Vec<u32>,
    pub runs: u32,
    pub length: Span,
    pub seed: u64,
}

/// What the servers served together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitRow {
    /// The whole limit; a bucket is split like the rate.
    pub limit: Limit,
    pub shape: Shape,
    pub load_percent: u32,
    pub servers: u32,
    pub offered: u64,
    pub admitted: u64,
    /// The share served, where a formula gives it.
    pub exact: Option<f64>,
    pub served: Estimate,
}

impl Split {
    /// The published set-up: 100 per 60 s at 80 %, on 1, 4, 10 and 20 servers, with whole buckets of 100.
    #[must_use]
    pub fn published(rate: Rate, seed: u64) -> Split {
        let servers: Vec<u32> = [1, 2, 4, 10, 20].into_iter().filter(|servers| *servers <= rate.limit()).collect();
        let shapes = vec![Shape::Steady, Shape::PageLoads];
        Split { rate, shapes, load_percent: 80, servers, runs: 20, length: Span::from_seconds(2_000 * 60), seed }
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// [`SetupError`] before any work, if the parameters make no experiment or an endless one.
    pub fn run(&self, work: &Work<'_>) -> Result<Vec<SplitRow>, SetupError> {
        let cases = self.checked_cases()?;
        let runs = self.runs as usize;
        let done = work.each(cases.len() * runs, |task| cases[task / runs].run(self.seed, (task % runs) as u64));
        let mut rows = Vec::new();
        for (case, done) in cases.iter().zip(done.chunks(runs)) {
            for (index, shares) in case.limits.iter().enumerate() {
                rows.push(case.row(shares, &done.iter().map(|run| run[index]).collect::<Vec<_>>()));
            }
        }
        Ok(rows)
    }

    /// Whether it can run, without running it.
    ///
    /// # Errors
    /// [`SetupError`] as from [`Split::run`].
    pub fn check(&self) -> Result<(), SetupError> {
        self.checked_cases().map(|_| ())
    }

    fn checked_cases(&self) -> Result<Vec<Case>, SetupError> {
        let mut cases = Vec::new();
        let mut decisions = 0.0;
        for shape in &self.shapes {
            let demand = Demand { shape: *shape, load_percent: self.load_percent, rate: self.rate, length: self.length };
            check_demand(&demand)?;
            for servers in &self.servers {
                let limits = ALGORITHMS.into_iter().map(|algorithm| Shares::of(algorithm, self.rate, *servers));
                cases.push(Case { demand, servers: *servers, limits: limits.collect::<Result<_, _>>()? });
                decisions += demand.expected() * ALGORITHMS.len() as f64;
            }
        }
        check_work(self.runs, decisions)?;
        if cases.is_empty() { Err(SetupError::Nothing("no shape or no number of servers is chosen")) } else { Ok(cases) }
    }
}

const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::FixedWindow, Algorithm::SlidingLog, Algorithm::SlidingCounter, Algorithm::TokenBucket];

/// A limit and the shares that it is split into.
struct Shares {
    whole: Limit,
    each: Vec<Limit>,
}

impl Shares {
    /// `n / K` for each; what does not divide goes one each to the first.
    fn of(algorithm: Algorithm, rate: Rate, servers: u32) -> Result<Shares, SetupError> {
        let limit = rate.limit();
        if !(1..=limit.min(MAX_SERVERS)).contains(&servers) {
            return Err(SetupError::Servers { limit, servers });
        }
        let share = |server: u32| {
            let part = limit / servers + u32::from(server < limit % servers);
            Ok(Limit::new(algorithm, Rate::new(part.into(), rate.window())?, None)?)
        };
        let each = (0..servers).map(share).collect::<Result<_, SetupError>>()?;
        Ok(Shares { whole: Limit::new(algorithm, rate, None)?, each })
    }
}

/// One kind of traffic on so many servers, for all limiters.
struct Case {
    demand: Demand,
    servers: u32,
    limits: Vec<Shares>,
}

impl Case {
    /// For each limiter: how many requests there were, and how many of them all servers admitted together.
    fn run(&self, seed: u64, run: u64) -> Vec<(u64, u64)> {
        let mut stream = stream_of(seed, &self.demand, run);
        let requests = self.demand.requests(&mut stream);
        let mut routed: Vec<Vec<Timestamp>> = vec![Vec::new(); self.servers as usize];
        for at in &requests {
            // Fewer than `servers`, which fits the machine's word.
            let server = usize::try_from(stream.below(self.servers.into())).unwrap_or(0);
            routed[server].push(*at);
        }
        let admitted = |shares: &Shares| {
            let by_server = shares.each.iter().zip(&routed).map(|(limit, requests)| tally(*limit, requests).admitted);
            (requests.len() as u64, by_server.sum())
        };
        self.limits.iter().map(admitted).collect()
    }

    fn row(&self, shares: &Shares, runs: &[(u64, u64)]) -> SplitRow {
        let served: Vec<f64> = runs.iter().map(|(offered, admitted)| *admitted as f64 / (*offered).max(1) as f64).collect();
        SplitRow {
            limit: shares.whole,
            shape: self.demand.shape,
            load_percent: self.demand.load_percent,
            servers: self.servers,
            offered: runs.iter().map(|(offered, _)| offered).sum(),
            admitted: runs.iter().map(|(_, admitted)| admitted).sum(),
            exact: self.exactly_served(shares),
            served: Estimate::of(&served),
        }
    }

    /// Poisson traffic that is routed at random is Poisson on every server, so that Erlang's formula holds for each.
    fn exactly_served(&self, shares: &Shares) -> Option<f64> {
        let formula = self.demand.shape == Shape::Steady && shares.whole.algorithm() == Algorithm::SlidingLog;
        let load = f64::from(self.demand.rate.limit()) * f64::from(self.demand.load_percent) / 100.0;
        let load = load / f64::from(self.servers);
        let refused = || shares.each.iter().map(|share| erlang_b(share.rate().limit(), load)).sum::<f64>();
        formula.then(|| 1.0 - refused() / f64::from(self.servers))
    }
}

/// The second experiment: every server uses the same stored state, in one step or in separate ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsynchronised {
    pub limit: Limit,
    pub servers: Vec<u32>,
    /// From reading the state to writing it back.
    pub gaps: Vec<Span>,
    /// Rushes, each of four times the limit within a second, the limiter unused before each.
    pub rushes: u32,
    pub seed: u64,
}

/// What passed a shared limiter in a rush.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnsynchronisedRow {
    pub limit: Limit,
    pub sharing: Sharing,
    pub servers: u32,
    pub gap: Span,
    pub offered: u64,
    pub admitted: u64,
    pub busiest_window: Estimate,
    pub worst_window: u64,
}

/// Requests in a rush, in limits.
const RUSH: u64 = 4;

impl Unsynchronised {
    /// A fixed window of the limit, on 1 to 20 servers, with gaps of 1, 2 and 5 ms, 100 rushes.
    ///
    /// # Errors
    /// [`SetupError`] never in practice: a rate makes a fixed window.
    pub fn usual(rate: Rate, seed: u64) -> Result<Unsynchronised, SetupError> {
        let limit = Limit::new(Algorithm::FixedWindow, rate, None)?;
        let servers = vec![1, 2, 4, 10, 20];
        Ok(Unsynchronised { limit, servers, gaps: [1, 2, 5].map(Span::from_millis).to_vec(), rushes: 100, seed })
    }

    /// Runs the experiment.
    ///
    /// # Errors
    /// [`SetupError`] before any work, if the parameters make no experiment or an endless one.
    pub fn run(&self, work: &Work<'_>) -> Result<Vec<UnsynchronisedRow>, SetupError> {
        let cases = self.checked_cases()?;
        let rushes = self.rushes as usize;
        let done = work.each(cases.len() * rushes, |task| {
            let (sharing, servers, gap) = cases[task / rushes];
            self.rush(sharing, servers, gap, (task % rushes) as u64)
        });
        Ok(cases.iter().zip(done.chunks(rushes)).map(|(case, done)| self.row(*case, done)).collect())
    }

    fn row(&self, (sharing, servers, gap): (Sharing, u32, Span), rushes: &[(u64, u64)]) -> UnsynchronisedRow {
        UnsynchronisedRow {
            limit: self.limit,
            sharing,
            servers,
            gap,
            offered: self.rush_size() * u64::from(self.rushes),
            admitted: rushes.iter().map(|(admitted, _)| admitted).sum(),
            busiest_window: Estimate::of(&rushes.iter().map(|(_, busiest)| *busiest as f64).collect::<Vec<_>>()),
            worst_window: rushes.iter().map(|(_, busiest)| *busiest).max().unwrap_or(0),
        }
    }

    fn rush_size(&self) -> u64 {
        RUSH * u64::from(self.limit.rate().limit())
    }

    /// Whether it can run, without running it.
    ///
    /// # Errors
    /// [`SetupError`] as from [`Unsynchronised::run`].
    pub fn check(&self) -> Result<(), SetupError> {
        self.checked_cases().map(|_| ())
    }

    fn checked_cases(&self) -> Result<Vec<(Sharing, u32, Span)>, SetupError> {
        let size = self.rush_size();
        if size > MAX_REQUESTS_A_RUN {
            return Err(SetupError::Requests(size as f64));
        }
        if let Some(gap) = self.gaps.iter().find(|gap| **gap > MAX_GAP) {
            return Err(SetupError::Gap(*gap));
        }
        if let Some(servers) = self.servers.iter().copied().find(|servers| !(1..=MAX_SERVERS).contains(servers)) {
            return Err(SetupError::Servers { limit: MAX_SERVERS, servers });
        }
        let mut cases = Vec::new();
        for servers in &self.servers {
            for gap in &self.gaps {
                cases.extend([Sharing::Separate, Sharing::Atomic].map(|sharing| (sharing, *servers, *gap)));
            }
        }
        check_work(self.rushes, size as f64 * cases.len() as f64)?;
        if cases.is_empty() { Err(SetupError::Nothing("no number of servers or no gap is chosen")) } else { Ok(cases) }
    }

    /// How many a rush gets through, and the most of them in any window's length.
    fn rush(&self, sharing: Sharing, servers: u32, gap: Span, number: u64) -> (u64, u64) {
        let window = self.limit.rate().window().ticks();
        let within = TICKS_PER_SECOND.unsigned_abs().min(window);
        let mut stream = Stream::new(self.seed, number);
        let mut requests: Vec<(Timestamp, u64)> =
            (0..self.rush_size()).map(|_| (tick(stream.below(within)), stream.below(servers.into()))).collect();
        requests.sort_unstable();
        let mut shared = SharedLimiter::new(self.limit, sharing, servers as usize, gap);
        let start = |(at, server): (Timestamp, u64)| shared.begin(usize::try_from(server).unwrap_or(0), at);
        let mut starts: Vec<Timestamp> = requests.into_iter().map(start).collect();
        starts.sort_unstable();
        let passed: Vec<i128> = starts.into_iter().filter(|now| shared.admit(*now)).map(|now| i128::from(now.ticks())).collect();
        (passed.len() as u64, busiest_window(&passed, window.into()))
    }
}
