//! The policy: a limit, and what large events get beyond it. A big quake is never lost behind small ones.

use serde::{Deserialize, Serialize};

use super::{Limit, LimitError, Limiter, Request, Verdict};
use crate::event::Magnitude;
use crate::time::Timestamp;

/// A subscriber's limit with its exceptions by magnitude.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub limit: Limit,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Reserve>,
    /// Events of this magnitude or more pass whatever the limiter says; they take a token if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub always_from: Option<Magnitude>,
    /// What an event costs by magnitude, in ascending order; below the first step it costs 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostStep>,
}

/// `keep` admissions are kept for events of magnitude `from` or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    pub keep: u32,
    pub from: Magnitude,
}

/// From this magnitude (inclusive) an event costs so many admissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostStep {
    pub from: Magnitude,
    pub cost: u32,
}

/// How an event passed, or that it did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// The limiter admitted it.
    Limiter,
    /// The limiter refused it, but it is so large that it always passes. It cost nothing.
    Always,
    /// The limiter refused it for now.
    Withheld,
    /// It costs more than the limiter can ever hold.
    Impossible,
}

/// The policy's answer for one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ruling {
    pub passage: Passage,
    /// When it may leave if it passes: at once, or in its turn out of a leaky bucket.
    pub departs_at: Timestamp,
}

impl Policy {
    /// A policy without exceptions.
    #[must_use]
    pub const fn plain(limit: Limit) -> Policy {
        Policy { limit, reserve: None, always_from: None, costs: Vec::new() }
    }

    /// Checks that the parts fit each other.
    ///
    /// # Errors
    /// [`PolicyError`] if the reserve leaves nothing for others, the costs are not ascending, zero, or more than fits, or
    /// an event costs more than the reserve leaves to it.
    pub fn check(&self) -> Result<(), PolicyError> {
        let burst = self.limit.burst();
        if let Some(reserve) = self.reserve
            && !(1..burst).contains(&reserve.keep)
        {
            return Err(PolicyError::Reserve { keep: reserve.keep, burst });
        }
        if let Some(step) = self.costs.iter().find(|step| !(1..=burst).contains(&step.cost)) {
            return Err(PolicyError::Cost { cost: step.cost, burst });
        }
        if !self.costs.is_sorted_by(|a, b| a.from < b.from) {
            return Err(PolicyError::CostOrder);
        }
        let Some(Reserve { keep, from }) = self.reserve else { return Ok(()) };
        match self.costs.iter().find(|step| step.from < from && step.cost > burst - keep) {
            Some(step) => Err(PolicyError::CostBeyondReserve { from: step.from, cost: step.cost, left: burst - keep }),
            None => Ok(()),
        }
    }

    /// What an event of this magnitude asks of the limiter. Without a magnitude it is small.
    #[must_use]
    pub fn request(&self, magnitude: Option<Magnitude>) -> Request {
        let at_least = |from: Magnitude| magnitude.is_some_and(|m| m >= from);
        let cost = self.costs.iter().rev().find(|step| at_least(step.from)).map_or(1, |step| step.cost);
        let keep = self.reserve.filter(|reserve| !at_least(reserve.from)).map_or(0, |reserve| reserve.keep);
        Request { cost, keep }
    }

    /// Whether an event of this magnitude passes whatever else holds.
    #[must_use]
    pub fn passes_always(&self, magnitude: Option<Magnitude>) -> bool {
        self.always_from.is_some_and(|from| magnitude.is_some_and(|m| m >= from))
    }

    /// Decides on an event and records in the limiter what it admitted.
    pub fn rule(&self, limiter: &mut Limiter, magnitude: Option<Magnitude>, now: Timestamp) -> Ruling {
        let (verdict, departs_at) = limiter.admit_departing(now, self.request(magnitude));
        match verdict {
            Verdict::Admitted => Ruling { passage: Passage::Limiter, departs_at },
            _ if self.passes_always(magnitude) => Ruling { passage: Passage::Always, departs_at: now },
            Verdict::Refused => Ruling { passage: Passage::Withheld, departs_at: now },
            Verdict::Never => Ruling { passage: Passage::Impossible, departs_at: now },
        }
    }
}

impl Ruling {
    /// Whether the event passes.
    #[must_use]
    pub fn passes(&self) -> bool {
        matches!(self.passage, Passage::Limiter | Passage::Always)
    }

    /// Whether the limiter refused it, whatever becomes of it.
    #[must_use]
    pub fn refused(&self) -> bool {
        self.passage != Passage::Limiter
    }
}

/// Why a policy's parts do not fit each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error("a reserve of {keep} is outside 1 to {most}: the limiter admits {burst} at once and something must be left for others", most = burst.saturating_sub(1))]
    Reserve { keep: u32, burst: u32 },
    #[error("a cost of {cost} is outside 1 to {burst}, what the limiter admits at once")]
    Cost { cost: u32, burst: u32 },
    #[error("costs by magnitude are expected in ascending order of magnitude, each once")]
    CostOrder,
    #[error("a cost of {cost} from M {from} is more than the {left} that the reserve leaves: such events would never pass")]
    CostBeyondReserve { from: Magnitude, cost: u32, left: u32 },
}
