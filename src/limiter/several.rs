//! Several limits over one request: all are checked before any is charged.

use std::cmp::Reverse;

use super::{Decision, Limiter, Outlook, Request, Verdict};
use crate::time::Timestamp;

/// Decides under all of these limits at once, each asked for its own, and records in each of them or in none. The decisions
/// are in their order.
///
/// # Errors
/// If one or more refuse: the index and the answer of the one that refuses for longest, never before later, later before
/// earlier, the first of equals.
pub fn decide_all(limiters: &mut [(&mut Limiter, Request)], now: Timestamp) -> Result<Vec<Decision>, (usize, Decision)> {
    let refusals = limiters.iter().enumerate().filter_map(|(i, (limiter, request))| Some((i, limiter.refusal(now, *request)?)));
    let wait = |outlook: Outlook| outlook.retry_at.unwrap_or(Timestamp::MAX);
    match refusals.min_by_key(|(_, decision)| (decision.verdict != Verdict::Never, Reverse(wait(decision.outlook)))) {
        Some(longest) => Err(longest),
        None => Ok(limiters.iter_mut().map(|(limiter, request)| limiter.decide(now, *request)).collect()),
    }
}

impl Limiter {
    /// The answer, if it would be a refusal. Changes nothing.
    fn refusal(&self, now: Timestamp, request: Request) -> Option<Decision> {
        let outlook = self.outlook(now, request);
        let verdict = match outlook.retry_at {
            None => Verdict::Never,
            Some(at) if at > now => Verdict::Refused,
            Some(_) => return None,
        };
        Some(Decision { verdict, outlook, departs_at: now })
    }
}
