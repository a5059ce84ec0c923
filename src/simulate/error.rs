//! Why an experiment does not begin.

use super::{MAX_DECISIONS, MAX_LENGTH, MAX_REQUESTS_A_RUN, MAX_RUNS};
use crate::limiter::LimitError;
use crate::rate::RateError;
use crate::time::Span;

/// Parameters that make no experiment, or an endless one. Found before any work.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SetupError {
    #[error("an experiment takes 1 to {MAX_RUNS} runs, not {0}")]
    Runs(u32),
    #[error("a run lasts longer than zero and at most {MAX_LENGTH}, not {0}")]
    Length(Span),
    #[error("a run lasts at least one window of the rate ({window}), not {length}")]
    ShorterThanWindow { length: Span, window: Span },
    #[error("a load is 1 to {max} percent of the limit, not {0}", max = super::traffic::MAX_LOAD_PERCENT)]
    Load(u32),
    #[error(
        "one run would have about {0:.0} requests, the most is {MAX_REQUESTS_A_RUN}: choose a shorter run, a lower load or rate"
    )]
    Requests(f64),
    #[error("the experiment would take about {0:.1e} decisions, the most is {MAX_DECISIONS}: choose fewer or shorter runs")]
    Decisions(f64),
    #[error(
        "the floods would take about {0:.1e} decisions, the most is {max}: choose a lower rate, smaller buckets or fewer phases",
        max = super::attack::MAX_ADMISSIONS
    )]
    Floods(f64),
    #[error("an attack is tried at 1 to {max} phases, not {0}", max = super::attack::MAX_PHASES)]
    Phases(u32),
    #[error("a refused request is tried again at most {max} times, not {0}", max = super::lockout::MAX_TRIES)]
    Tries(u32),
    #[error("a spike has 1 to {max} requests, not {0}", max = super::lockout::MAX_SPIKE)]
    Spike(u32),
    #[error("the spike comes after {after}, when a run of {length} is over: choose a longer run")]
    SpikeAfterEnd { after: Span, length: Span },
    #[error("a limit of {limit} is shared by 1 to {limit} servers (at most {max}), not {servers}", max = super::split::MAX_SERVERS)]
    Servers { limit: u32, servers: u32 },
    #[error("a server takes at most {max} from reading to writing, not {0}", max = super::split::MAX_GAP)]
    Gap(Span),
    #[error("the store is lost before it is back and within the run, not from {from} to {to} of {length}")]
    Outage { from: Span, to: Span, length: Span },
    #[error("the published traffic lasts at most {max}, not {0}", max = super::outage::MAX_OUTAGE_RUN)]
    OutageLength(Span),
    #[error("the limit is held by 1 to {max} instances, not {0}", max = super::outage::MAX_INSTANCES)]
    Instances(u32),
    #[error("there is nothing to compare: {0}")]
    Nothing(&'static str),
    #[error("the simulation has no such limiter")]
    Limit(#[from] LimitError),
    #[error("the simulation has no such rate")]
    Rate(#[from] RateError),
    #[error("an instance has no stand-in for the limit")]
    Fallback(#[from] crate::limits::FallbackError),
}
