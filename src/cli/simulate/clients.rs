//! `throttler simulate clients`: honest traffic.

use clap::Args;
use serde_json::{Value, json};

use super::super::failure::Failure;
use super::super::input::{small_number, whole_number};
use super::super::output::{self, Format, Side};
use super::{Common, bucket, document, percent, percent_estimate, rounded, row, with_progress};
use crate::limiter::{Algorithm, CounterRule};
use crate::plot::laboratory;
use crate::rate::Rate;
use crate::simulate::clients::{Clients, ClientsResult, ClientsRow, Role};
use crate::simulate::traffic::Shape;
use crate::time::Span;

/// What each limiter serves of exactly the same honest traffic
#[derive(Args)]
#[command(after_help = "Examples:
  throttler simulate clients
  throttler simulate clients --shape page-loads --load 80
  throttler simulate clients --rate 10/h --bucket 5 --bucket 20 --length 60d --format json
  throttler simulate clients --plot clients.svg --html clients.html

Without --shape and --load: five shapes at 30, 50, 80 and 100 % of the limit, and steady at 120 % too.")]
pub(in crate::cli) struct ClientsArgs {
    /// How many in which window
    #[arg(long, value_name = "N/WINDOW", default_value = "100/60s")]
    rate: Rate,
    /// steady, small-bursts, page-loads, big-bursts or on-off; may be given several times [default: all five]
    #[arg(long = "shape", value_name = "SHAPE", value_delimiter = ',')]
    shapes: Vec<Shape>,
    /// What is asked for, in percent of the limit; may be given several times [default: 30, 50, 80 and 100]
    #[arg(long = "load", value_name = "PERCENT", allow_negative_numbers = true, value_parser = small_number, value_delimiter = ',')]
    loads: Vec<u32>,
    /// How many at once, for token-bucket and leaky-bucket; may be given several times [default: a half and three quarters of
    /// the rate's N]
    #[arg(long = "bucket", value_name = "B", allow_negative_numbers = true, value_parser = whole_number, value_delimiter = ',')]
    buckets: Vec<u64>,
    /// Only these limiters; may be given several times [default: all five]
    #[arg(long = "limiter", value_name = "LIMITER", value_delimiter = ',')]
    limiters: Vec<Algorithm>,
    /// How the sliding-counter compares its estimate
    #[arg(long, value_name = "RULE", default_value_t)]
    counter_rule: CounterRule,
    /// How many runs the means are taken over
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, value_parser = small_number, default_value_t = 20)]
    runs: u32,
    /// How long each run is
    #[arg(long, value_name = "DURATION", default_value = "2000m")]
    length: Span,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &ClientsArgs) -> Result<(), Failure> {
    let setup = setup(args);
    let pictures = args.common.pictures()?;
    let found = with_progress(|work| setup.run(work))?;
    if let Some(pictures) = pictures {
        let charts = laboratory::clients(&setup, &found);
        pictures.write(|| charts.to_svg(), || charts.to_html())?;
    }
    match args.common.format {
        Format::Json => output::print_json(&as_json(args, &setup, &found)),
        Format::Text => output::print(&as_text(&setup, &found)),
    }
}

fn setup(args: &ClientsArgs) -> Clients {
    let mut setup = Clients::published(args.rate, args.common.seed);
    if !args.shapes.is_empty() || !args.loads.is_empty() {
        let shapes = if args.shapes.is_empty() { Shape::ALL.to_vec() } else { args.shapes.clone() };
        let loads = if args.loads.is_empty() { vec![30, 50, 80, 100] } else { args.loads.clone() };
        setup.traffic = shapes.into_iter().flat_map(|shape| loads.iter().map(move |load| (shape, *load))).collect();
    }
    if !args.buckets.is_empty() {
        setup.buckets.clone_from(&args.buckets);
    }
    if !args.limiters.is_empty() {
        setup.algorithms.clone_from(&args.limiters);
    }
    Clients { rule: args.counter_rule, runs: args.runs, length: args.length, ..setup }
}

fn as_json(args: &ClientsArgs, setup: &Clients, found: &ClientsResult) -> Value {
    let result = |result: &ClientsRow| {
        let mut value = row(
            result.limit,
            json!({
                "shape": result.shape,
                "load": rounded(f64::from(result.load_percent) / 100.0),
                "offered": result.offered,
                "admitted": result.admitted,
                "served": rounded(result.served.mean),
                "served_stderr": rounded(result.served.stderr),
                "busiest_window": rounded(result.busiest_window.mean),
                "busiest_window_stderr": rounded(result.busiest_window.stderr),
                "worst_window": result.worst_window,
                "wrong_reject": rounded(result.wrong_reject.mean),
                "wrong_admit": rounded(result.wrong_admit.mean),
            }),
        );
        if let Some(exact) = result.exact {
            value["served_exact"] = json!(rounded(exact));
        }
        if result.role == Role::BestSafe {
            value["best_safe"] = json!(true);
        }
        value
    };
    let mut value = document(&args.common, setup.rate, &found.rows.iter().map(result).collect::<Vec<_>>());
    value["runs"] = json!(setup.runs);
    value["length_s"] = json!(output::seconds(setup.length));
    value["token_bucket_against_counted_tokens"] = json!({ "compared": found.compared, "same": found.same });
    value["bucket_against_counter"] = json!(against_counter(setup, found));
    value
}

fn against_counter(setup: &Clients, found: &ClientsResult) -> Vec<Value> {
    compared_with_counter(setup, found)
        .into_iter()
        .map(|(bucket, at_least, of)| json!({ "bucket": bucket, "serves_at_least": at_least, "of": of }))
        .collect()
}

/// For each bucket: on how many kinds of traffic, of how many, it serves at least what the sliding counter serves.
fn compared_with_counter(setup: &Clients, found: &ClientsResult) -> Vec<(u64, u64, u64)> {
    let compare = |bucket: &u64| {
        let (at_least, of) = u32::try_from(*bucket).map_or((0, 0), |bucket| found.bucket_against_counter(bucket));
        (of > 0).then_some((*bucket, at_least, of))
    };
    setup.buckets.iter().filter_map(compare).collect()
}

const BEST_SAFE: &str = "The best safe bucket is the token bucket that serves most while its bucket and a window's refill stay \
                         within the limit.\n";

fn as_text(setup: &Clients, found: &ClientsResult) -> String {
    let mut lines = vec![format!(
        "{} runs of {} at {} with seed {}: every limiter got exactly the same requests.\n",
        setup.runs, setup.length, setup.rate, setup.seed
    )];
    if found.compared > 0 {
        let (same, compared) = (output::count(found.same), output::count(found.compared));
        lines.push(format!("The token bucket admitted as many as one that counts its tokens in {same} of {compared} runs.\n"));
    }
    lines.extend(compared_with_counter(setup, found).into_iter().map(|(bucket, at_least, of)| {
        format!("A bucket of {bucket} serves at least what the sliding counter serves on {at_least} of {of} kinds of traffic.\n")
    }));
    if found.rows.iter().any(|row| row.role == Role::BestSafe) {
        lines.push(BEST_SAFE.to_owned());
    }
    for shape in Shape::ALL {
        let rows: Vec<&ClientsRow> = found.rows.iter().filter(|row| row.shape == shape).collect();
        if !rows.is_empty() {
            lines.push(shape_as_text(setup, shape, &rows));
        }
    }
    lines.concat()
}

/// Three tables, a row for each limiter, a column for each load.
fn shape_as_text(setup: &Clients, shape: Shape, rows: &[&ClientsRow]) -> String {
    let mut loads: Vec<u32> = Vec::new();
    for row in rows {
        if !loads.contains(&row.load_percent) {
            loads.push(row.load_percent);
        }
    }
    let table = |cell: &dyn Fn(&ClientsRow) -> String| pivot(rows, &loads, cell);
    let served = |row: &ClientsRow| {
        let safe = if row.role == Role::BestSafe { format!(" (b {})", bucket(row.limit)) } else { String::new() };
        percent_estimate(row.served) + &safe
    };
    let window = setup.rate.window();
    format!(
        "\n{shape}: {}\n\nShare served, % ± standard error\n{}{}\nMost in any {window}: mean (worst)\n{}\n\
         Wrong by the literal rule, % of decisions: refused / admitted\n{}",
        shape.description(),
        table(&served),
        formulas(rows),
        table(&|row| format!("{:.1} ({})", row.busiest_window.mean, row.worst_window)),
        table(&|row| format!("{} / {}", percent(row.wrong_reject.mean), percent(row.wrong_admit.mean))),
    )
}

fn pivot(rows: &[&ClientsRow], loads: &[u32], cell: &dyn Fn(&ClientsRow) -> String) -> String {
    let heads: Vec<String> = loads.iter().map(|load| format!("at {load} %")).collect();
    let mut columns = vec![("limiter", Side::Left), ("bucket", Side::Right)];
    columns.extend(heads.iter().map(|head| (head.as_str(), Side::Right)));
    let first = rows.iter().filter(|row| Some(&row.load_percent) == loads.first());
    let lines = first.enumerate().map(|(index, head)| {
        let label = match head.role {
            Role::Chosen => vec![head.limit.name(), bucket(head.limit)],
            Role::BestSafe => vec!["best safe bucket".to_owned(), "-".to_owned()],
        };
        let of_load = |load: &u32| rows.iter().filter(|row| row.load_percent == *load).nth(index).map(|row| cell(row));
        label.into_iter().chain(loads.iter().filter_map(of_load)).collect()
    });
    output::table(&columns, lines)
}

/// What the formulas say, one line a limiter.
fn formulas(rows: &[&ClientsRow]) -> String {
    let line = |algorithm: Algorithm, formula: &str| {
        let known = rows.iter().filter(|row| row.limit.algorithm() == algorithm);
        let values: Vec<String> =
            known.filter_map(|row| Some(format!("{} at {} %", percent(row.exact?), row.load_percent))).collect();
        if values.is_empty() { String::new() } else { format!("{algorithm} by {formula}: {}\n", values.join(", ")) }
    };
    line(Algorithm::FixedWindow, "the truncated Poisson distribution") + &line(Algorithm::SlidingLog, "Erlang's B")
}
