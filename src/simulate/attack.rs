//! The worst stretch: a client that waits quietly and then floods, at every phase of the window.

use super::{SetupError, busiest, passes_at, tick, usual_buckets};
use crate::limiter::{Algorithm, CounterRule, Limit, Limiter, Request, Verdict};
use crate::rate::Rate;

/// The most phases.
pub const MAX_PHASES: u32 = 100_000;
/// The most decisions that all floods together may take: a minute of work.
pub const MAX_ADMISSIONS: u64 = 200_000_000;
/// The clock windows before the flood, in which nothing is asked.
const QUIET_WINDOWS: u64 = 2;
/// How long the flood lasts, in windows. The worst stretch begins with it: later ones find less left.
const FLOOD_WINDOWS: u64 = 2;

/// The experiment: floods that begin at so many phases, evenly spaced over the window, and at its last tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attack {
    pub rate: Rate,
    /// For the token bucket and the leaky bucket.
    pub buckets: Vec<u64>,
    pub phases: u32,
}

/// What the attacks on one limiter found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttackRow {
    pub limit: Limit,
    /// The most in any half-open stretch of the window, over all phases.
    pub worst_window: u64,
    /// The first phase at which it was reached, in ticks after the window's beginning.
    pub worst_phase: u64,
    /// By phase, in order: ticks after the window's beginning, and the most that passed.
    pub by_phase: Vec<(u64, u64)>,
}

impl Attack {
    /// The published set-up at a rate: buckets of a half and three quarters of its N, floods at 60 phases.
    #[must_use]
    pub fn published(rate: Rate) -> Attack {
        Attack { rate, buckets: usual_buckets(rate), phases: 60 }
    }

    /// Runs the attacks.
    ///
    /// # Errors
    /// [`SetupError`] before any work, if the parameters make no attack or an endless one.
    pub fn run(&self) -> Result<Vec<AttackRow>, SetupError> {
        let limits = self.limits()?;
        let phases = self.phases()?;
        let admissions = limits.iter().map(|limit| limit.promise().most_in_any_window).sum::<u64>();
        let decisions = (admissions as f64) * FLOOD_WINDOWS as f64 * phases.len() as f64;
        if decisions > MAX_ADMISSIONS as f64 {
            return Err(SetupError::Floods(decisions));
        }
        let row = |limit: Limit| {
            let by_phase: Vec<_> = phases.iter().map(|phase| (*phase, flood(limit, *phase))).collect();
            let worst_window = by_phase.iter().map(|(_, most)| *most).max().unwrap_or(0);
            let worst_phase = by_phase.iter().find(|(_, most)| *most == worst_window).map_or(0, |(phase, _)| *phase);
            AttackRow { limit, worst_window, worst_phase, by_phase }
        };
        Ok(limits.into_iter().map(row).collect())
    }

    fn limits(&self) -> Result<Vec<Limit>, SetupError> {
        let mut limits = Vec::new();
        for algorithm in Algorithm::ALL {
            if algorithm.has_bucket() {
                for bucket in &self.buckets {
                    limits.push(Limit::new(algorithm, self.rate, Some(*bucket))?);
                }
                continue;
            }
            let limit = Limit::new(algorithm, self.rate, None)?;
            limits.push(limit);
            if algorithm == Algorithm::SlidingCounter {
                limits.push(limit.with_rule(CounterRule::Fits)?);
            }
        }
        Ok(limits)
    }

    /// Ticks after the window's beginning, ascending.
    fn phases(&self) -> Result<Vec<u64>, SetupError> {
        if !(1..=MAX_PHASES).contains(&self.phases) {
            return Err(SetupError::Phases(self.phases));
        }
        let window = self.rate.window().ticks();
        // A window of at most ten years times at most 10^5 phases fits 64 bits.
        let mut phases: Vec<u64> = (0..self.phases).map(|part| window * u64::from(part) / u64::from(self.phases)).collect();
        phases.push(window - 1);
        phases.dedup();
        Ok(phases)
    }
}

/// The most that passes in any stretch of one window when a client that was quiet floods from this phase on.
///
/// To flood is to take all that is left at once, then each further admission at the first tick at which it is there.
fn flood(limit: Limit, phase: u64) -> u64 {
    let window = limit.rate().window().ticks();
    let start = QUIET_WINDOWS * window + phase;
    let end = tick(start.saturating_add(FLOOD_WINDOWS * window));
    let mut limiter = Limiter::new(limit);
    let mut passed: Vec<i128> = Vec::new();
    let mut now = tick(start);
    while now < end {
        let passes_at = passes_at(&limiter, limit.rate().limit(), now);
        if limiter.admit(now, Request::ONE) == Verdict::Admitted {
            passed.push(passes_at);
        } else if let Some(retry_at) = limiter.outlook(now, Request::ONE).retry_at {
            now = retry_at;
        } else {
            break;
        }
    }
    busiest(limit, &passed)
}
