//! The three patterns: every request before every limiter, and what was left in its bucket.

use super::named;
use crate::limiter::{Limit, LimitError};
use crate::plot::level::LevelLine;
use crate::plot::{Arrivals, ArrivalsGroup, ArrivalsPanel};
use crate::rate::Rate;
use crate::simulate::patterns::{Pattern, every_limit};
use crate::simulate::tally_each;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// Requests come at whole seconds.
const BAR: Span = Span::from_ticks(TICKS_PER_SECOND.unsigned_abs());

/// The picture of all limiters on all patterns, which are run for it.
///
/// # Errors
/// [`LimitError`] if there is no such bucket.
pub fn patterns(rate: Rate, bucket: Option<u64>) -> Result<Arrivals, LimitError> {
    let limits = every_limit(rate, bucket)?;
    let group = |pattern: Pattern| {
        let requests = pattern.requests();
        let last = requests.last().map_or(0, |at| at.ticks().unsigned_abs());
        let length = Span::from_ticks(last + BAR.ticks());
        let panels = limits.iter().map(|limit| panel(*limit, &requests, length)).collect();
        ArrivalsGroup { heading: format!("Pattern {pattern}: {}", pattern.description()), length, bar: BAR, panels }
    };
    Ok(Arrivals {
        title: format!("Three patterns at {rate}, all limiters side by side"),
        subtitle: "Each bar is a second; what passed stands below what was refused. Exact, without chance.".to_owned(),
        groups: Pattern::ALL.into_iter().map(group).collect(),
    })
}

fn panel(limit: Limit, requests: &[Timestamp], length: Span) -> ArrivalsPanel {
    let start = Timestamp::saturating_from_ticks(0);
    let mut line = limit.bucket().map(|bucket| LevelLine::new(bucket, start));
    let mut decided = Vec::with_capacity(requests.len());
    let tally = tally_each(limit, requests, |at, admitted, limiter| {
        decided.push((at, admitted));
        if let Some(line) = &mut line {
            line.decided(at, u32::from(admitted), limiter);
        }
    });
    let (offered, admitted, window) = (tally.offered, tally.admitted, limit.rate().window().in_words());
    ArrivalsPanel {
        name: named(limit),
        counts: format!("{admitted} of {offered} passed; most in any {window}: {}", tally.busiest_window),
        requests: decided,
        limit,
        away: None,
        level: line.map_or_else(Vec::new, |line| line.finish(start.plus(length))),
    }
}
