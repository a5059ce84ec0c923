//! `throttler simulate patterns`: the limiters told apart on three small patterns.

use clap::Args;
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::input::whole_number;
use super::super::output::{self, Format, Side};
use super::{Common, bucket, document, rounded, row};
use crate::plot::laboratory;
use crate::rate::Rate;
use crate::simulate::SetupError;
use crate::simulate::patterns::{Pattern, PatternRow, patterns};

/// What each limiter admits of three small patterns of requests
#[derive(Args)]
#[command(after_help = "Examples:
  throttler simulate patterns
  throttler simulate patterns --rate 10/60s --bucket 3
  throttler simulate patterns --html patterns.html

Nothing here is left to chance: every seed gives the same.")]
pub(in crate::cli) struct PatternsArgs {
    /// How many in which window
    #[arg(long, value_name = "N/WINDOW", default_value = "10/60s")]
    rate: Rate,
    /// How many at once, for token-bucket and leaky-bucket [default: the N of the rate]
    #[arg(long, value_name = "B", allow_negative_numbers = true, value_parser = whole_number)]
    bucket: Option<u64>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &PatternsArgs) -> Result<(), Failure> {
    let pictures = args.common.pictures()?;
    let found = patterns(args.rate, args.bucket).map_err(SetupError::from)?;
    if let Some(pictures) = pictures {
        let requests = laboratory::patterns(args.rate, args.bucket).map_err(SetupError::from)?;
        pictures.write(|| requests.to_svg(), || requests.to_html())?;
    }
    match args.common.format {
        Format::Json => output::print_json(&as_json(args, &found)),
        Format::Text => output::print(&as_text(args, &found)),
    }
}

fn as_json(args: &PatternsArgs, found: &[PatternRow]) -> Value {
    let result = |result: &PatternRow| {
        let tally = &result.tally;
        row(
            result.limit,
            json!({
                "pattern": result.pattern,
                "offered": tally.offered,
                "admitted": tally.admitted,
                "served": rounded(tally.served()),
                "busiest_window": tally.busiest_window,
                "wrong_reject": rounded(tally.share(tally.wrong_rejects)),
                "wrong_admit": rounded(tally.share(tally.wrong_admits)),
            }),
        )
    };
    document(&args.common, args.rate, &found.iter().map(result).collect::<Vec<_>>())
}

fn as_text(args: &PatternsArgs, found: &[PatternRow]) -> String {
    let offered = |pattern: Pattern| found.iter().find(|row| row.pattern == pattern).map_or(0, |row| row.tally.offered);
    let pairs: Vec<(String, String)> = Pattern::ALL
        .iter()
        .map(|pattern| (pattern.to_string(), format!("{} ({} requests)", pattern.description(), offered(*pattern))))
        .collect();
    let columns = [("limiter", Side::Left), ("bucket", Side::Right), ("A", Side::Right), ("B", Side::Right), ("C", Side::Right)];
    let first = found.iter().filter(|row| row.pattern == Pattern::A);
    let lines = first.map(|head| {
        let of_limit = found.iter().filter(|row| row.limit == head.limit).map(|row| output::count(row.tally.admitted));
        [head.limit.name(), bucket(head.limit)].into_iter().chain(of_limit).collect()
    });
    format!("Admitted at {}, of three patterns.\n\n{}\n{}", args.rate, output::table(&columns, lines), output::pairs(&pairs))
}
