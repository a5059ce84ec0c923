//! The shared store goes away for a while: what several instances pass under each policy.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{SetupError, busiest, passes_at, tick};
use crate::limiter::{Algorithm, CounterRule, Limit, Limiter, Request, Verdict};
use crate::limits::{FallbackError, FallbackPolicy, StandIn};
use crate::rate::Rate;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};
use crate::words::{Side, Table, count};

/// The longest run.
pub const MAX_OUTAGE_RUN: Span = Span::from_seconds(86_400);
/// The most instances.
pub const MAX_INSTANCES: u32 = 1_000;

const SECOND: u64 = TICKS_PER_SECOND.unsigned_abs();

/// Traffic made to order; every preset is the same each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// One every 0.2 s from 0, and 60 more spread over 0.15 s from 15 s.
    QuietThenBurst,
    /// Ten just before and ten just after a boundary of the window, every five seconds.
    WindowEdges,
    /// 15 a second.
    SteadyOverload,
    /// 60 a second.
    Runaway,
}

/// A name that is no preset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a preset: expected quiet-then-burst, window-edges, steady-overload or runaway")]
pub struct UnknownPreset(String);

impl Preset {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Preset; 4] = [Preset::QuietThenBurst, Preset::WindowEdges, Preset::SteadyOverload, Preset::Runaway];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Preset::QuietThenBurst => "quiet-then-burst",
            Preset::WindowEdges => "window-edges",
            Preset::SteadyOverload => "steady-overload",
            Preset::Runaway => "runaway",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Preset::QuietThenBurst => "one every 0.2 s, and 60 more within 0.15 s from 15 s on",
            Preset::WindowEdges => "ten in the 10 ms before and ten in the 10 ms after a whole second, every 5 s",
            Preset::SteadyOverload => "15 a second",
            Preset::Runaway => "60 a second",
        }
    }

    /// Its requests before `length`, in order.
    #[must_use]
    pub fn requests(self, length: Span) -> Vec<Timestamp> {
        let mut ticks: Vec<u64> = match self {
            Preset::QuietThenBurst => {
                let burst = (0..60).map(|i| 15 * SECOND + i * (SECOND * 15 / 100) / 60);
                evenly(5, length).chain(burst).collect()
            }
            Preset::WindowEdges => {
                let boundaries = (1..).map(|i| i * 5 * SECOND).take_while(|boundary| *boundary < length.ticks());
                boundaries.flat_map(|boundary| (0..20).map(move |i| boundary - 10_000 + i * 1_000)).collect()
            }
            Preset::SteadyOverload => evenly(15, length).collect(),
            Preset::Runaway => evenly(60, length).collect(),
        };
        ticks.retain(|at| *at < length.ticks());
        ticks.sort_unstable();
        ticks.into_iter().map(tick).collect()
    }
}

/// So many a second from 0 on, each rounded down to a tick.
fn evenly(a_second: u64, length: Span) -> impl Iterator<Item = u64> {
    (0..).map(move |i| i * SECOND / a_second).take_while(move |at| *at < length.ticks())
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Preset {
    type Err = UnknownPreset;

    fn from_str(text: &str) -> Result<Preset, UnknownPreset> {
        Preset::ALL.into_iter().find(|preset| preset.name() == text).ok_or_else(|| UnknownPreset(text.to_owned()))
    }
}

/// The experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    pub rate: Rate,
    pub bucket: u64,
    pub rule: CounterRule,
    pub algorithms: Vec<Algorithm>,
    pub presets: Vec<Preset>,
    pub policies: Vec<FallbackPolicy>,
    pub instances: u32,
    pub length: Span,
    /// The store is away from here, inclusive, to `down_to`, exclusive.
    pub down_from: Span,
    pub down_to: Span,
}

/// What passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutageRow {
    pub preset: Preset,
    pub limit: Limit,
    /// None is the same traffic without an outage.
    pub policy: Option<FallbackPolicy>,
    pub offered: u64,
    pub admitted: u64,
    /// The most admissions in any half-open stretch of the rate's window.
    pub busiest_window: u64,
    /// The requests that came while the store was away, or would have been, and how many of them passed.
    pub offered_in_outage: u64,
    pub admitted_in_outage: u64,
}

/// One request of a row.
#[derive(Clone, Copy, Debug)]
pub struct OutageStep<'l> {
    pub at: Timestamp,
    pub admitted: bool,
    /// Whether the store decided; else it was away and an instance did, by its policy.
    pub by_store: bool,
    /// The limiter in the store, after the decision.
    pub store: &'l Limiter,
}

impl Outage {
    /// The published set-up: 10 per second, bucket 20, 60 s, four instances, the store down from 20 s to 30 s.
    #[must_use]
    pub fn published(rate: Rate) -> Outage {
        Outage {
            rate,
            bucket: 2 * u64::from(rate.limit()),
            rule: CounterRule::Fits,
            algorithms: Algorithm::ALL.to_vec(),
            presets: Preset::ALL.to_vec(),
            policies: FallbackPolicy::ALL.to_vec(),
            instances: 4,
            length: Span::from_seconds(60),
            down_from: Span::from_seconds(20),
            down_to: Span::from_seconds(30),
        }
    }

    /// Runs the experiment: by preset, first without outage, then by policy, each for all limiters.
    ///
    /// # Errors
    /// [`SetupError`] before any work, if the parameters make no experiment or an endless one.
    pub fn run(&self) -> Result<Vec<OutageRow>, SetupError> {
        self.check()?;
        let limits = self.limits()?;
        let policies: Vec<_> = [None].into_iter().chain(self.policies.iter().copied().map(Some)).collect();
        let mut rows = Vec::new();
        for preset in &self.presets {
            let requests = preset.requests(self.length);
            for policy in &policies {
                for limit in &limits {
                    let instances = self.instances_of(*limit, *policy)?;
                    rows.push(self.row((*preset, *limit, *policy), instances, &requests, &mut |_| {}));
                }
            }
        }
        Ok(rows)
    }

    fn check(&self) -> Result<(), SetupError> {
        let Outage { length, down_from: from, down_to: to, instances, .. } = *self;
        if length == Span::ZERO || length > MAX_OUTAGE_RUN {
            return Err(SetupError::OutageLength(length));
        }
        if from >= to || to > length {
            return Err(SetupError::Outage { from, to, length });
        }
        if !(1..=MAX_INSTANCES).contains(&instances) {
            return Err(SetupError::Instances(instances));
        }
        if self.algorithms.is_empty() {
            return Err(SetupError::Nothing("no limiter is chosen"));
        }
        if self.presets.is_empty() { Err(SetupError::Nothing("no preset is chosen")) } else { Ok(()) }
    }

    /// The limits that are compared, in the order in which they are shown.
    ///
    /// # Errors
    /// [`SetupError::Limit`] if there is no such bucket.
    pub fn limits(&self) -> Result<Vec<Limit>, SetupError> {
        let limit = |algorithm: Algorithm| {
            let limit = Limit::new(algorithm, self.rate, algorithm.has_bucket().then_some(self.bucket))?;
            Ok(if algorithm == Algorithm::SlidingCounter { limit.with_rule(self.rule)? } else { limit })
        };
        Algorithm::ALL.into_iter().filter(|algorithm| self.algorithms.contains(algorithm)).map(limit).collect()
    }

    /// A stand-in for each instance; none without an outage.
    fn instances_of(&self, limit: Limit, policy: Option<FallbackPolicy>) -> Result<Vec<StandIn>, FallbackError> {
        let Some(policy) = policy else { return Ok(Vec::new()) };
        (0..self.instances).map(|_| policy.stand_in(limit, self.instances)).collect()
    }

    /// One row of [`Outage::run`] by itself, and shows every request.
    ///
    /// # Errors
    /// [`SetupError`] as from [`Outage::run`].
    pub fn course(
        &self,
        preset: Preset,
        limit: Limit,
        policy: Option<FallbackPolicy>,
        visit: &mut dyn FnMut(OutageStep<'_>),
    ) -> Result<OutageRow, SetupError> {
        self.check()?;
        let instances = self.instances_of(limit, policy)?;
        Ok(self.row((preset, limit, policy), instances, &preset.requests(self.length), visit))
    }

    /// The requests go to the instances in turn. Without the store an instance asks its stand-in; when the store is back it
    /// knows what it knew before.
    fn row(
        &self,
        (preset, limit, policy): (Preset, Limit, Option<FallbackPolicy>),
        mut instances: Vec<StandIn>,
        requests: &[Timestamp],
        visit: &mut dyn FnMut(OutageStep<'_>),
    ) -> OutageRow {
        let away = tick(self.down_from.ticks())..tick(self.down_to.ticks());
        let mut store = Limiter::new(limit);
        let mut row = OutageRow {
            preset,
            limit,
            policy,
            offered: requests.len() as u64,
            admitted: 0,
            busiest_window: 0,
            offered_in_outage: 0,
            admitted_in_outage: 0,
        };
        let mut passed: Vec<i128> = Vec::new();
        for (number, now) in requests.iter().enumerate() {
            let in_outage = away.contains(now);
            let turn = number % instances.len().max(1);
            let (passes_at, verdict, by_store) = match instances.get_mut(turn).filter(|_| in_outage) {
                Some(alone) => (passes_at_once_or_in_turn(alone, limit, *now), alone.admit(*now, Request::ONE), false),
                None => (passes_at(&store, limit.rate().limit(), *now), store.admit(*now, Request::ONE), true),
            };
            let admitted = verdict == Verdict::Admitted;
            row.offered_in_outage += u64::from(in_outage);
            if admitted {
                row.admitted_in_outage += u64::from(in_outage);
                passed.push(passes_at);
            }
            visit(OutageStep { at: *now, admitted, by_store, store: &store });
        }
        row.admitted = passed.len() as u64;
        // The queues of several instances do not leave in one order.
        passed.sort_unstable();
        row.busiest_window = busiest(limit, &passed);
        row
    }
}

/// What was found, for people, a row each.
#[must_use]
pub fn table(rate: Rate, rows: &[&OutageRow]) -> Table {
    let most = format!("most in any {}", rate.window());
    let columns = [
        ("policy", Side::Left),
        ("limiter", Side::Left),
        ("admitted", Side::Right),
        ("refused", Side::Right),
        (most.as_str(), Side::Right),
        ("passed in the outage", Side::Right),
    ];
    let line = |row: &&OutageRow| {
        let outage = format!("{} of {}", count(row.admitted_in_outage), count(row.offered_in_outage));
        vec![
            row.policy.map_or_else(|| "no outage".to_owned(), |policy| policy.to_string()),
            row.limit.bucket().map_or_else(|| row.limit.name(), |bucket| format!("{}, b = {bucket}", row.limit.name())),
            count(row.admitted),
            count(row.offered - row.admitted),
            count(row.busiest_window),
            if row.policy.is_some() { outage } else { "-".to_owned() },
        ]
    };
    Table { columns: columns.map(|(head, side)| (head.to_owned(), side)).to_vec(), rows: rows.iter().map(line).collect() }
}

/// When it passes, in ticks times the limit's `n`, also where a stand-in with its share of the rate decides.
fn passes_at_once_or_in_turn(decider: &StandIn, limit: Limit, now: Timestamp) -> i128 {
    let whole = i128::from(limit.rate().limit());
    match decider {
        StandIn::Local(limiter) => {
            passes_at(limiter, limiter.limit().rate().limit(), now) * whole / i128::from(limiter.limit().rate().limit())
        }
        StandIn::Open | StandIn::Closed => i128::from(now.ticks()) * whole,
    }
}
