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
    #[error("there is nothing to compare: {0}")]
    Nothing(&'static str),
    #[error("the simulation has no such limiter")]
    Limit(#[from] LimitError),
    #[error("the simulation has no such rate")]
    Rate(#[from] RateError),
}
