//! `throttler simulate attack`: the worst stretch.

use clap::Args;
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::input::{small_number, whole_number};
use super::super::output::{self, Format, Side};
use super::{Common, bucket, document, row};
use crate::plot::laboratory;
use crate::rate::Rate;
use crate::simulate::attack::{Attack, AttackRow};
use crate::time::Span;

/// How much passes in a window when a client waits quietly and then floods
#[derive(Args)]
#[command(after_help = "Examples:
  throttler simulate attack
  throttler simulate attack --rate 5/h --bucket 5 --bucket 74 --phases 60
  throttler simulate attack --plot attack.svg

Nothing here is left to chance: every seed gives the same.")]
pub(in crate::cli) struct AttackArgs {
    /// How many in which window
    #[arg(long, value_name = "N/WINDOW", default_value = "100/60s")]
    rate: Rate,
    /// How many at once, for token-bucket and leaky-bucket; may be given several times [default: a half and three quarters of
    /// the rate's N]
    #[arg(long = "bucket", value_name = "B", allow_negative_numbers = true, value_parser = whole_number, value_delimiter = ',')]
    buckets: Vec<u64>,
    /// At how many phases, evenly spaced over the window, the flood is tried; its last tick is always one more
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = small_number, default_value_t = 60)]
    phases: u32,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &AttackArgs) -> Result<(), Failure> {
    let attack = Attack { phases: args.phases, ..Attack::published(args.rate) };
    let attack = if args.buckets.is_empty() { attack } else { Attack { buckets: args.buckets.clone(), ..attack } };
    let pictures = args.common.pictures()?;
    let found = attack.run()?;
    if let Some(pictures) = pictures {
        let charts = laboratory::attack(args.rate, &found);
        pictures.write(|| charts.to_svg(), || charts.to_html())?;
    }
    match args.common.format {
        Format::Json => output::print_json(&as_json(args, &found)),
        Format::Text => output::print(&as_text(args, &found)),
    }
}

fn as_json(args: &AttackArgs, found: &[AttackRow]) -> Value {
    let result = |result: &AttackRow| {
        let phase = |(phase, most): &(u64, u64)| json!({ "phase_s": output::seconds(Span::from_ticks(*phase)), "most": most });
        row(
            result.limit,
            json!({
                "worst_window": result.worst_window,
                "worst_phase_s": output::seconds(Span::from_ticks(result.worst_phase)),
                "most_in_any_window": result.limit.promise().most_in_any_window,
                "phases": result.by_phase.iter().map(phase).collect::<Vec<_>>(),
            }),
        )
    };
    document(&args.common, args.rate, &found.iter().map(result).collect::<Vec<_>>())
}

fn as_text(args: &AttackArgs, found: &[AttackRow]) -> String {
    let shown = shown_phases(found);
    let heads: Vec<String> = shown.iter().map(|(_, phase)| format!("at {}", Span::from_ticks(*phase))).collect();
    let mut columns = vec![("limiter", Side::Left), ("bucket", Side::Right)];
    columns.extend([("worst", Side::Right), ("flood at", Side::Right), ("promised", Side::Right)]);
    columns.extend(heads.iter().map(|head| (head.as_str(), Side::Right)));
    let lines = found.iter().map(|row| {
        let mut line = vec![
            row.limit.name(),
            bucket(row.limit),
            output::count(row.worst_window),
            seconds(row.worst_phase),
            output::count(row.limit.promise().most_in_any_window),
        ];
        line.extend(shown.iter().map(|(index, _)| output::count(row.by_phase[*index].1)));
        line
    });
    format!(
        "Most in any {} at {}, for a client that waits quietly and then floods, at {} phases of the window and at its last tick.\n\n{}",
        args.rate.window(),
        args.rate,
        args.phases,
        output::table(&columns, lines)
    )
}

fn seconds(ticks: u64) -> String {
    format!("{} s", output::seconds(Span::from_ticks(ticks)))
}

/// The quarters of the window and the last of the evenly spaced phases: where in the list, and their ticks.
fn shown_phases(found: &[AttackRow]) -> Vec<(usize, u64)> {
    let Some(row) = found.first() else { return Vec::new() };
    let even = row.by_phase.len() - 1;
    let mut indices = vec![0, even / 4, even / 2, even * 3 / 4, even.saturating_sub(1)];
    indices.dedup();
    indices.into_iter().map(|index| (index, row.by_phase[index].0)).collect()
}
