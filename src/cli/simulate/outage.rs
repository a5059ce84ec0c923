//! `throttler simulate outage`: the shared store goes away.

use clap::Args;
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::input::{small_number, whole_number};
use super::super::output::{self, Format};
use super::super::pictures::check_panels;
use super::{Common, document, row};
use crate::limiter::{Algorithm, CounterRule};
use crate::limits::FallbackPolicy;
use crate::plot::laboratory;
use crate::rate::Rate;
use crate::simulate::outage::{Outage, OutageRow, Preset, table};
use crate::time::Span;

/// What several instances pass while the store of their shared limit is away, under each policy
#[derive(Args)]
#[command(after_help = "Examples:
  throttler simulate outage
  throttler simulate outage --preset runaway --policy local-full --policy local-share --instances 8
  throttler simulate outage --preset steady-overload --limiter token-bucket,sliding-log \\
    --html outage.html

Nothing here is left to chance: every seed gives the same.")]
pub(in crate::cli) struct OutageArgs {
    /// How many in which window
    #[arg(long, value_name = "N/WINDOW", default_value = "10/s")]
    rate: Rate,
    /// How many at once, for token-bucket and leaky-bucket [default: twice the rate's N]
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = whole_number)]
    bucket: Option<u64>,
    /// How the sliding-counter compares its estimate
    #[arg(long, value_name = "RULE", default_value_t = CounterRule::Fits)]
    counter_rule: CounterRule,
    /// Only these limiters; may be given several times [default: all five, in pictures the token-bucket]
    #[arg(long = "limiter", value_name = "LIMITER", value_delimiter = ',')]
    limiters: Vec<Algorithm>,
    /// quiet-then-burst, window-edges, steady-overload or runaway; may be given several times [default: all four]
    #[arg(long = "preset", value_name = "PRESET", value_delimiter = ',')]
    presets: Vec<Preset>,
    /// fail-open, fail-closed, local-full or local-share; may be given several times [default: all four]
    #[arg(long = "policy", value_name = "POLICY", value_delimiter = ',')]
    policies: Vec<FallbackPolicy>,
    /// How many instances share the limit; requests go to them in turn
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = small_number, default_value_t = 4)]
    instances: u32,
    /// How long the run is
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    length: Span,
    /// When the store goes away
    #[arg(long, value_name = "DURATION", default_value = "20s")]
    down_from: Span,
    /// When it is back
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    down_to: Span,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &OutageArgs) -> Result<(), Failure> {
    let published = Outage::published(args.rate);
    let setup = Outage {
        bucket: args.bucket.unwrap_or(published.bucket),
        rule: args.counter_rule,
        algorithms: if args.limiters.is_empty() { published.algorithms.clone() } else { args.limiters.clone() },
        presets: if args.presets.is_empty() { published.presets.clone() } else { args.presets.clone() },
        policies: if args.policies.is_empty() { published.policies.clone() } else { args.policies.clone() },
        instances: args.instances,
        length: args.length,
        down_from: args.down_from,
        down_to: args.down_to,
        ..published
    };
    let pictures = args.common.pictures()?;
    let drawn = drawn(&setup, args);
    if pictures.is_some() {
        check_panels(laboratory::outage_panels(&drawn), "choose fewer with --preset, --policy and --limiter")?;
    }
    let found = setup.run()?;
    if let Some(pictures) = pictures {
        let requests = laboratory::outage(&drawn)?;
        pictures.write(|| requests.to_svg(), || requests.to_html())?;
    }
    match args.common.format {
        Format::Json => output::print_json(&as_json(args, &found)),
        Format::Text => output::print(&as_text(&setup, &found)),
    }
}

/// What the picture shows: of the limiters those that were asked for, else the token bucket alone.
fn drawn(setup: &Outage, args: &OutageArgs) -> Outage {
    let algorithms = if args.limiters.is_empty() { vec![Algorithm::TokenBucket] } else { setup.algorithms.clone() };
    Outage { algorithms, ..setup.clone() }
}

fn as_json(args: &OutageArgs, found: &[OutageRow]) -> Value {
    let result = |result: &OutageRow| {
        row(
            result.limit,
            json!({
                "preset": result.preset,
                "policy": result.policy,
                "offered": result.offered,
                "admitted": result.admitted,
                "refused": result.offered - result.admitted,
                "busiest_window": result.busiest_window,
                "offered_in_outage": result.offered_in_outage,
                "admitted_in_outage": result.admitted_in_outage,
            }),
        )
    };
    document(&args.common, args.rate, &found.iter().map(result).collect::<Vec<_>>())
}

fn as_text(setup: &Outage, found: &[OutageRow]) -> String {
    let mut text = format!(
        "{} instances share {} for {}; their store is away from {} to {}.\n\
         Requests go to the instances in turn; of the leaky bucket the busiest stretch counts departures.\n",
        setup.instances, setup.rate, setup.length, setup.down_from, setup.down_to
    );
    for preset in &setup.presets {
        let rows: Vec<&OutageRow> = found.iter().filter(|row| row.preset == *preset).collect();
        text += &preset_as_text(setup, *preset, &rows);
    }
    text
}

/// A row for each limiter; first without outage, then under each policy.
fn preset_as_text(setup: &Outage, preset: Preset, rows: &[&OutageRow]) -> String {
    let Some(any) = rows.first() else { return String::new() };
    let (offered, table) = (output::count(any.offered), output::printed(&table(setup.rate, rows)));
    format!("\n{preset}: {}; {offered} requests\n{table}", preset.description())
}
