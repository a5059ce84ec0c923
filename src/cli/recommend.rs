//! `throttler recommend`: what history says about a good limit.

use clap::Args;
use serde_json::{Value, json};

use super::failure::Failure;
use super::input::{Input, TimeFlags, report};
use super::output::{self, Format, Side};
use crate::analysis::{self, Percentiles, WindowCounts, window_counts};
use crate::catalogue::read_times;
use crate::limiter::{Algorithm, Limit, Limiter, Request, Verdict};
use crate::rate::Rate;
use crate::time::{Span, Timestamp};

/// What history says about a good limit, with choices ready to be used
#[derive(Args)]
#[command(after_help = "Examples:
  throttler recommend data/quakes_2015_2025.csv
  throttler recommend data/quakes_2015_2025.csv --per 1d --min-magnitude 6
  throttler recommend access.csv --time-column 1 --time-format epoch-s --per 1m")]
pub(super) struct RecommendArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    times: TimeFlags,
    /// The window in which people count
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    per: Span,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// One limit that a person may choose.
struct Choice {
    /// Which percentile it comes from.
    from: &'static str,
    rate: Rate,
    /// The smallest bucket that loses nothing.
    bucket: u64,
    /// What each limiter would lose at this rate, with a bucket of the rate's N, in the order of [`Algorithm::ALL`].
    lost: [u64; 5],
}

pub(super) fn run(args: &RecommendArgs) -> Result<(), Failure> {
    // Refuses a window that no rate can have before anything is read.
    Rate::new(1, args.per).map_err(Failure::usage)?;
    let bar = args.input.progress();
    let progress = |bytes| bar.inc(bytes);
    let (mut sources, query) = (args.input.sources()?, args.times.query(&args.input)?);
    let (times, reading) = read_times(&mut sources, &query, args.times.threads()?, &progress)?;
    bar.finish_and_clear();
    report(&reading);
    let Some(counts) = window_counts(&times, args.per) else {
        return match args.format {
            Format::Json => output::print_json(&json!({ "events": 0, "results": [] })),
            Format::Text => output::print("No event matches, so there is nothing to learn from.\n"),
        };
    };
    let choices = choices(&times, args.per, &counts.with_events)?;
    let busiest = choices.last().map_or(0, |choice| u64::from(choice.rate.limit()));
    match args.format {
        Format::Json => output::print_json(&as_json(&times, args.per, &counts, busiest, &choices)),
        Format::Text => output::print(&as_text(&times, args.per, &counts, busiest, &choices)),
    }
}

/// The percentiles of the windows with events as rates, and the smallest sliding-log limit that loses nothing.
fn choices(times: &[Timestamp], per: Span, usual: &Percentiles) -> Result<Vec<Choice>, Failure> {
    let one = Rate::new(1, per).map_err(Failure::usage)?;
    let busiest = analysis::needs(times, &[one]).results.first().map_or(0, |result| result.busiest_window);
    let named = [
        ("median", usual.median),
        ("95th percentile", usual.percentile_95),
        ("99th percentile", usual.percentile_99),
        ("busiest stretch", busiest),
    ];
    let mut choices: Vec<Choice> = Vec::new();
    for (from, limit) in named {
        let rate = Rate::new(limit, per).map_err(Failure::usage)?;
        if choices.iter().all(|choice| choice.rate != rate) {
            let bucket = analysis::needs(times, &[rate]).results.first().map_or(0, |result| result.bucket);
            choices.push(Choice { from, rate, bucket, lost: lost(times, rate)? });
        }
    }
    Ok(choices)
}

/// How many of the events each limiter refuses.
fn lost(times: &[Timestamp], rate: Rate) -> Result<[u64; 5], Failure> {
    let mut lost = [0; 5];
    for (algorithm, lost) in Algorithm::ALL.into_iter().zip(&mut lost) {
        let mut limiter = Limiter::new(Limit::new(algorithm, rate, None).map_err(Failure::usage)?);
        *lost = times.iter().filter(|at| limiter.admit(**at, Request::ONE) != Verdict::Admitted).count() as u64;
    }
    Ok(lost)
}

/// The command that makes the choice a subscriber's.
fn command(choice: &Choice) -> String {
    format!("throttler subscriber set NAME --limiter token-bucket --rate {} --bucket {}", choice.rate, choice.bucket)
}

fn as_json(times: &[Timestamp], per: Span, counts: &WindowCounts, busiest: u64, choices: &[Choice]) -> Value {
    let percentiles = |of: &Percentiles| {
        json!({
            "windows": of.windows, "median": of.median, "percentile_95": of.percentile_95,
            "percentile_99": of.percentile_99, "maximum": of.maximum,
        })
    };
    let choice = |choice: &Choice| {
        let lost: serde_json::Map<String, Value> =
            Algorithm::ALL.iter().zip(choice.lost).map(|(algorithm, lost)| (algorithm.to_string(), lost.into())).collect();
        json!({ "from": choice.from, "rate": choice.rate, "bucket": choice.bucket, "lost": lost, "command": command(choice) })
    };
    json!({
        "events": times.len(),
        "first": times.first(),
        "last": times.last(),
        "window_s": output::seconds(per),
        "per_window": { "with_events": percentiles(&counts.with_events), "all": percentiles(&counts.all) },
        "smallest_sliding_log": busiest,
        "results": choices.iter().map(choice).collect::<Vec<_>>(),
    })
}

fn as_text(times: &[Timestamp], per: Span, counts: &WindowCounts, busiest: u64, choices: &[Choice]) -> String {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return String::new() };
    let per_window = output::table(
        &[
            (&format!("windows of {per}"), Side::Left),
            ("how many", Side::Right),
            ("median", Side::Right),
            ("95 %", Side::Right),
            ("99 %", Side::Right),
            ("maximum", Side::Right),
        ],
        [("with events", &counts.with_events), ("all", &counts.all)].map(|(name, of)| {
            let numbers = [of.windows, of.median, of.percentile_95, of.percentile_99, of.maximum].map(output::count);
            std::iter::once(name.to_owned()).chain(numbers).collect()
        }),
    );
    let rows = choices.iter().map(|choice| {
        let numbers = [choice.bucket].into_iter().chain(choice.lost).map(output::count);
        [choice.rate.to_string(), choice.from.to_owned()].into_iter().chain(numbers).collect()
    });
    let columns = [
        ("rate", Side::Right),
        ("which is the", Side::Left),
        ("lossless bucket", Side::Right),
        ("fixed-window loses", Side::Right),
        ("sliding-log", Side::Right),
        ("sliding-counter", Side::Right),
        ("token-bucket(N)", Side::Right),
        ("leaky-bucket(N)", Side::Right),
    ];
    let table = output::table(&columns, rows);
    let commands: Vec<_> = choices.iter().map(|choice| (choice.rate.to_string(), command(choice))).collect();
    format!(
        "A sliding log must allow {} per {} to lose nothing; a token bucket may allow less, the larger it is.\n\
         {} events from {first} to {last}.\n\n{per_window}\n{table}\n\
         A bucket beside its rate loses nothing of this history. To choose one (NAME is your subscriber's):\n{}",
        output::count(busiest),
        per.in_words(),
        output::count(times.len() as u64),
        output::pairs(&commands),
    )
}
