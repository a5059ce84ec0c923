//! `throttler simulate split`: one limit over several servers.

use clap::Args;
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::input::small_number;
use super::super::output::{self, Format, Side};
use super::{Common, bucket, document, percent, percent_estimate, rounded, row, with_progress};
use crate::plot::laboratory;
use crate::rate::Rate;
use crate::simulate::split::{Split, SplitRow, Unsynchronised, UnsynchronisedRow};
use crate::simulate::traffic::Shape;
use crate::simulate::variants::Sharing;
use crate::time::Span;

/// What is lost when a limit is split over servers, and what passes when they share it carelessly
#[derive(Args)]
#[command(after_help = "Examples:
  throttler simulate split
  throttler simulate split --servers 1,3,9 --shape big-bursts --load 60
  throttler simulate split --html split.html")]
pub(in crate::cli) struct SplitArgs {
    /// How many in which window, for all servers together
    #[arg(long, value_name = "N/WINDOW", default_value = "100/60s")]
    rate: Rate,
    /// The shape of the traffic; may be given several times [default: steady and page-loads]
    #[arg(long = "shape", value_name = "SHAPE", value_delimiter = ',')]
    shapes: Vec<Shape>,
    /// What is asked for, in percent of the limit
    #[arg(long, value_name = "PERCENT", allow_negative_numbers = true, value_parser = small_number, default_value_t = 80)]
    load: u32,
    /// How many servers; may be given several times [default: 1, 2, 4, 10 and 20]
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = small_number, value_delimiter = ',')]
    servers: Vec<u32>,
    /// How many runs the means are taken over
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = small_number, default_value_t = 20)]
    runs: u32,
    /// How long each run is
    #[arg(long, value_name = "DURATION", default_value = "2000m")]
    length: Span,
    /// From reading the shared state to writing it back; may be given several times [default: 1ms, 2ms and 5ms]
    #[arg(long = "gap", value_name = "DURATION", value_delimiter = ',')]
    gaps: Vec<Span>,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &SplitArgs) -> Result<(), Failure> {
    let published = Split::published(args.rate, args.common.seed);
    let usual = Unsynchronised::usual(args.rate, args.common.seed)?;
    let or = |given: &[u32], usual: &[u32]| if given.is_empty() { usual.to_vec() } else { given.to_vec() };
    let split = Split {
        shapes: if args.shapes.is_empty() { published.shapes.clone() } else { args.shapes.clone() },
        load_percent: args.load,
        servers: or(&args.servers, &published.servers),
        runs: args.runs,
        length: args.length,
        ..published
    };
    let shared = Unsynchronised {
        servers: or(&args.servers, &usual.servers),
        gaps: if args.gaps.is_empty() { usual.gaps.clone() } else { args.gaps.clone() },
        ..usual
    };
    split.check()?;
    shared.check()?;
    let pictures = args.common.pictures()?;
    let (rows, shared_rows) = with_progress(|work| Ok((split.run(work)?, shared.run(work)?)))?;
    if let Some(pictures) = pictures {
        let charts = laboratory::split(&split, &rows, &shared, &shared_rows);
        pictures.write(|| charts.to_svg(), || charts.to_html())?;
    }
    match args.common.format {
        Format::Json => output::print_json(&as_json(args, &rows, &shared_rows)),
        Format::Text => output::print(&(split_as_text(&split, &rows) + &shared_as_text(&shared, &shared_rows))),
    }
}

fn as_json(args: &SplitArgs, rows: &[SplitRow], shared: &[UnsynchronisedRow]) -> Value {
    let results = rows.iter().map(split_row).chain(shared.iter().map(shared_row));
    document(&args.common, args.rate, &results.collect::<Vec<_>>())
}

fn split_row(result: &SplitRow) -> Value {
    let found = json!({
        "shape": result.shape,
        "load": rounded(f64::from(result.load_percent) / 100.0),
        "servers": result.servers,
        "offered": result.offered,
        "admitted": result.admitted,
        "served": rounded(result.served.mean),
        "served_stderr": rounded(result.served.stderr),
    });
    let mut value = row(result.limit, found);
    if let Some(exact) = result.exact {
        value["served_exact"] = json!(rounded(exact));
    }
    value
}

fn shared_row(result: &UnsynchronisedRow) -> Value {
    let found = json!({
        "sharing": sharing(result.sharing),
        "gap_s": output::seconds(result.gap),
        "servers": result.servers,
        "offered": result.offered,
        "admitted": result.admitted,
        "busiest_window": rounded(result.busiest_window.mean),
        "worst_window": result.worst_window,
    });
    row(result.limit, found)
}

const fn sharing(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::Atomic => "atomic",
        Sharing::Separate => "separate",
    }
}

/// A row for each shape and limiter, a column for each number of servers.
fn split_as_text(split: &Split, rows: &[SplitRow]) -> String {
    let mut parts = vec![format!(
        "{} runs of {} at {} and {} % load with seed {}: share served, % ± standard error,\n\
         when requests go to the servers at random and each server holds its share of the limit.\n",
        split.runs, split.length, split.rate, split.load_percent, split.seed
    )];
    let heads: Vec<String> = split.servers.iter().map(|servers| on_servers(*servers)).collect();
    let mut columns = vec![("limiter", Side::Left), ("bucket", Side::Right)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Side::Right)));
    for shape in &split.shapes {
        let of_shape: Vec<&SplitRow> = rows.iter().filter(|row| row.shape == *shape).collect();
        let first = of_shape.iter().filter(|row| Some(&row.servers) == split.servers.first());
        let lines = first.flat_map(|head| {
            let of_limit = || of_shape.iter().filter(|row| row.limit == head.limit);
            let cells = of_limit().map(|row| percent_estimate(row.served));
            let served: Vec<String> = [head.limit.name(), bucket(head.limit)].into_iter().chain(cells).collect();
            let exact: Vec<String> = of_limit().filter_map(|row| Some(percent(row.exact?))).collect();
            let formula = ["  by Erlang's B".to_owned(), String::new()].into_iter().chain(exact.iter().cloned()).collect();
            [Some(served), (!exact.is_empty()).then_some(formula)].into_iter().flatten().collect::<Vec<_>>()
        });
        parts.push(format!("\n{shape}: {}\n{}", shape.description(), output::table(&columns, lines)));
    }
    parts.concat()
}

/// A row for each number of servers, a column for each gap.
fn shared_as_text(shared: &Unsynchronised, rows: &[UnsynchronisedRow]) -> String {
    let heads: Vec<String> = shared.gaps.iter().map(|gap| format!("gap of {gap}")).collect();
    let mut columns = vec![("state is read and written", Side::Left), ("", Side::Right)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Side::Right)));
    let line = |kind: Sharing, servers: u32| {
        let label = match kind {
            Sharing::Separate => "in separate steps",
            Sharing::Atomic => "in one atomic step",
        };
        let of_line = rows.iter().filter(|row| row.sharing == kind && row.servers == servers);
        let cells = of_line.map(|row| format!("{:.1} ({})", row.busiest_window.mean, row.worst_window));
        [label.to_owned(), on_servers(servers)].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let kinds = [Sharing::Separate, Sharing::Atomic];
    let lines = kinds.into_iter().flat_map(|kind| shared.servers.iter().map(move |servers| line(kind, *servers)));
    format!(
        "\nAll servers share one {} of {}: most in any {}, mean (worst) of {} rushes of four times the limit within a second.\n{}",
        shared.limit.algorithm(),
        shared.limit.rate(),
        shared.limit.rate().window(),
        shared.rushes,
        output::table(&columns, lines)
    )
}

fn on_servers(servers: u32) -> String {
    if servers == 1 { "1 server".to_owned() } else { format!("{servers} servers") }
}
