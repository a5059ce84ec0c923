//! `throttler simulate lockout`: counting what was refused.

use clap::Args;
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::input::small_number;
use super::super::output::{self, Format, Side};
use super::{Common, document, percent, rounded, row, with_progress};
use crate::plot::laboratory;
use crate::rate::Rate;
use crate::simulate::lockout::{Lockout, LockoutRow};
use crate::simulate::variants::Recording;
use crate::time::Span;

/// What a retrying client gets from limiters that also count what they refuse
#[derive(Args)]
#[command(after_help = "Examples:
  throttler simulate lockout
  throttler simulate lockout --load 25 --tries 5,6,7,8,9,10
  throttler simulate lockout --plot lockout.svg

The product's limiters never count a refused request; those that do exist only here, to show the fault.")]
pub(in crate::cli) struct LockoutArgs {
    /// How many in which window
    #[arg(long, value_name = "N/WINDOW", default_value = "100/60s")]
    rate: Rate,
    /// What the client asks for, in percent of the limit; may be given several times [default: 10, 25, 50 and 75]
    #[arg(long = "load", value_name = "PERCENT", allow_negative_numbers = true, value_parser = small_number, value_delimiter = ',')]
    loads: Vec<u32>,
    /// How often a refused request is tried again, once a second; may be given several times [default: from 1 to 60]
    #[arg(long = "tries", value_name = "COUNT", allow_negative_numbers = true, value_parser = small_number, value_delimiter = ',')]
    tries: Vec<u32>,
    /// Requests of the one spike, after five windows
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = small_number, default_value_t = 200)]
    spike: u32,
    /// How many runs the means are taken over
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = small_number, default_value_t = 20)]
    runs: u32,
    /// How long each run is
    #[arg(long, value_name = "DURATION", default_value = "200m")]
    length: Span,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &LockoutArgs) -> Result<(), Failure> {
    let published = Lockout::published(args.rate, args.common.seed);
    let loads_percent = if args.loads.is_empty() { published.loads_percent.clone() } else { args.loads.clone() };
    let tries = if args.tries.is_empty() { published.tries.clone() } else { args.tries.clone() };
    let setup = Lockout { loads_percent, tries, spike: args.spike, runs: args.runs, length: args.length, ..published };
    let pictures = args.common.pictures()?;
    let found = with_progress(|work| setup.run(work))?;
    if let Some(pictures) = pictures {
        let charts = laboratory::lockout(&setup, &found);
        pictures.write(|| charts.to_svg(), || charts.to_html())?;
    }
    match args.common.format {
        Format::Json => output::print_json(&as_json(args, &found)),
        Format::Text => output::print(&as_text(&setup, &found)),
    }
}

fn as_json(args: &LockoutArgs, found: &[LockoutRow]) -> Value {
    let result = |result: &LockoutRow| {
        row(
            result.limit,
            json!({
                "counts_refused": result.recording == Recording::AdmittedAndRefused,
                "load": rounded(f64::from(result.load_percent) / 100.0),
                "tries": result.tries,
                "offered": result.offered,
                "admitted": result.admitted,
                "served": rounded(result.served.mean),
                "served_stderr": rounded(result.served.stderr),
                "locked_out": result.locked_out(),
            }),
        )
    };
    document(&args.common, args.rate, &found.iter().map(result).collect::<Vec<_>>())
}

fn as_text(setup: &Lockout, found: &[LockoutRow]) -> String {
    let mut text = format!(
        "{} runs of {} at {} with seed {}: share served, %, of a steady client with one spike of {} requests,\n\
         whose refused requests are tried again once a second, up to m times.\n",
        setup.runs,
        setup.length,
        setup.rate,
        setup.seed,
        output::count(setup.spike.into())
    );
    let cases = setup.loads_percent.len() * setup.tries.len();
    for rows in found.chunks(cases) {
        text += &table(setup, rows);
    }
    text
}

/// A row for each load, a column for each number of tries.
fn table(setup: &Lockout, rows: &[LockoutRow]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let heads: Vec<String> = setup.tries.iter().map(|tries| format!("m = {tries}")).collect();
    let mut columns = vec![("load", Side::Right)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Side::Right)));
    columns.extend([("locked out from", Side::Right), ("tries x rate", Side::Right)]);
    let lines = rows.chunks(setup.tries.len()).map(|row| {
        let load = row.first().map(|row| format!("{} %", row.load_percent));
        let locked = row.iter().find(|row| row.locked_out());
        let (from, pressure) = locked.map_or_else(
            || ("never".to_owned(), "-".to_owned()),
            |row| (format!("m = {}", row.tries), format!("{:.1} x limit", row.pressure())),
        );
        load.into_iter().chain(row.iter().map(|row| percent(row.served.mean))).chain([from, pressure]).collect()
    });
    let what = match first.recording {
        Recording::Admitted => "recording only what it admitted",
        Recording::AdmittedAndRefused => "recording refused requests too",
    };
    format!("\n{} {what}\n{}", first.limit.algorithm(), output::table(&columns, lines))
}
