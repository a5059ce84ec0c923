//! The store goes away: all requests of a run, and what became of them, a panel for each policy and limiter.

use super::named;
use crate::limiter::Limit;
use crate::limits::FallbackPolicy;
use crate::plot::arrivals::MAX_BARS;
use crate::plot::level::LevelLine;
use crate::plot::{Arrivals, ArrivalsGroup, ArrivalsPanel};
use crate::simulate::SetupError;
use crate::simulate::outage::{Outage, Preset};
use crate::time::{Span, Timestamp};

/// How long a bar may be: the first that gives at most [`MAX_BARS`] is taken.
const BARS_MS: [u64; 10] = [200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000];

/// How many panels the picture of this experiment has.
#[must_use]
pub fn outage_panels(setup: &Outage) -> usize {
    setup.presets.len() * (setup.policies.len() + 1) * setup.algorithms.len()
}

/// The picture of the experiment, which is run for it.
///
/// # Errors
/// [`SetupError`] if the parameters make no experiment or an endless one.
pub fn outage(setup: &Outage) -> Result<Arrivals, SetupError> {
    let limits = setup.limits()?;
    let policies: Vec<_> = [None].into_iter().chain(setup.policies.iter().copied().map(Some)).collect();
    let group = |preset: &Preset| {
        let cases = policies.iter().flat_map(|policy| limits.iter().map(move |limit| (*policy, *limit)));
        let panels = cases.map(|(policy, limit)| panel(setup, *preset, policy, limit)).collect::<Result<_, _>>()?;
        Ok(ArrivalsGroup {
            heading: format!("{preset}: {}", preset.description()),
            length: setup.length,
            bar: bar(setup.length),
            panels,
        })
    };
    Ok(Arrivals {
        title: "The shared store goes away: what passes under each policy".to_owned(),
        subtitle: format!(
            "{} instances share {}; their store is away from {} to {}. What is left is told of the bucket in the store, which \
             knows nothing of what the instances do alone. Exact, without chance.",
            setup.instances, setup.rate, setup.down_from, setup.down_to
        ),
        groups: setup.presets.iter().map(group).collect::<Result<_, SetupError>>()?,
    })
}

fn bar(length: Span) -> Span {
    let fits = |bar: &Span| length.ticks().div_ceil(bar.ticks()) <= MAX_BARS as u64;
    let round = BARS_MS.into_iter().map(Span::from_millis).find(fits);
    round.unwrap_or_else(|| Span::from_ticks(length.ticks().div_ceil(MAX_BARS as u64)))
}

fn panel(setup: &Outage, preset: Preset, policy: Option<FallbackPolicy>, limit: Limit) -> Result<ArrivalsPanel, SetupError> {
    let start = Timestamp::saturating_from_ticks(0);
    let mut line = limit.bucket().map(|bucket| LevelLine::new(bucket, start));
    let mut requests = Vec::new();
    let row = setup.course(preset, limit, policy, &mut |step| {
        requests.push((step.at, step.admitted));
        if let Some(line) = line.as_mut().filter(|_| step.by_store) {
            line.decided(step.at, u32::from(step.admitted), step.store);
        }
    })?;
    let within = setup.rate.window().in_words();
    let refused = row.offered - row.admitted;
    let most = format!("{} passed, {refused} refused; most in any {within}: {}", row.admitted, row.busiest_window);
    let counts = match policy {
        Some(_) => format!("{most}; in the outage {} of {} passed", row.admitted_in_outage, row.offered_in_outage),
        None => most,
    };
    let name = policy.map_or_else(|| "no outage".to_owned(), |policy| policy.to_string());
    Ok(ArrivalsPanel {
        name: format!("{name}: {}", named(limit)),
        counts,
        requests,
        limit,
        away: policy.map(|_| (setup.down_from, setup.down_to)),
        level: line.map_or_else(Vec::new, |line| line.finish(start.plus(setup.length))),
    })
}
