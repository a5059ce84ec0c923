//! Counting what one limiter did in one run, and how its decisions compare with the literal rule.

use super::{busiest, passes_at};
use crate::limiter::{Algorithm, Limit, Limiter, Request, Verdict};
use crate::time::Timestamp;

/// What one limiter did with the requests of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub offered: u64,
    pub admitted: u64,
    /// The most admissions in any half-open stretch of the rate's window; for the leaky bucket the most departures.
    pub busiest_window: u64,
    /// Refused although fewer than `n` of its own admissions lay in the window before.
    pub wrong_rejects: u64,
    /// Admitted although `n` or more did.
    pub wrong_admits: u64,
}

impl Tally {
    /// The share of the requests that was admitted; all, where nothing was asked.
    #[must_use]
    pub fn served(&self) -> f64 {
        if self.offered == 0 { 1.0 } else { self.admitted as f64 / self.offered as f64 }
    }

    /// The share of the decisions that so many are.
    #[must_use]
    pub fn share(&self, part: u64) -> f64 {
        if self.offered == 0 { 0.0 } else { part as f64 / self.offered as f64 }
    }
}

/// Puts the requests, which are in order, to a limiter of which nothing is spent.
#[must_use]
pub fn tally(limit: Limit, requests: &[Timestamp]) -> Tally {
    tally_each(limit, requests, |_, _, _| {})
}

/// As [`tally`], and shows every request: when it came, whether it was admitted, and the limiter after it.
pub fn tally_each(limit: Limit, requests: &[Timestamp], mut visit: impl FnMut(Timestamp, bool, &Limiter)) -> Tally {
    let mut limiter = Limiter::new(limit);
    let mut history = History::new(limit);
    // Only the leaky bucket's leave later than they are admitted.
    let queues = limit.algorithm() == Algorithm::LeakyBucket;
    let mut departures: Vec<i128> = Vec::new();
    let mut tally = Tally { offered: requests.len() as u64, ..Tally::default() };
    for now in requests {
        let allowed = history.allows_at(*now);
        let departs_at = if queues { passes_at(&limiter, limit.rate().limit(), *now) } else { 0 };
        let admitted = limiter.admit(*now, Request::ONE) == Verdict::Admitted;
        if admitted {
            history.admissions.push(*now);
            tally.wrong_admits += u64::from(!allowed);
            tally.busiest_window = tally.busiest_window.max(history.in_window());
            if queues {
                departures.push(departs_at);
            }
        } else {
            tally.wrong_rejects += u64::from(allowed);
        }
        visit(*now, admitted, &limiter);
    }
    tally.admitted = history.admissions.len() as u64;
    if queues {
        tally.busiest_window = busiest(limit, &departures);
    }
    tally
}

/// What was admitted so far, as the literal rule sees it: fewer than `n` in `(t - w, t]`.
struct History {
    admissions: Vec<Timestamp>,
    /// The first that is still in the window before the last request.
    first: usize,
    limit: u64,
    window: u64,
}

impl History {
    fn new(limit: Limit) -> History {
        let rate = limit.rate();
        History { admissions: Vec::new(), first: 0, limit: rate.limit().into(), window: rate.window().ticks() }
    }

    fn allows_at(&mut self, now: Timestamp) -> bool {
        while self.admissions.get(self.first).is_some_and(|at| now.since(*at).ticks() >= self.window) {
            self.first += 1;
        }
        self.in_window() < self.limit
    }

    fn in_window(&self) -> u64 {
        (self.admissions.len() - self.first) as u64
    }
}
