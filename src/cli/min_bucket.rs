//! `throttler min-bucket`: the smallest bucket that loses nothing.

use clap::Args;
use serde_json::json;

use super::failure::Failure;
use super::input::{Input, report_skipped};
use super::output::{self, Format, Side};
use crate::analysis::{self, MinBucket, RateResult};
use crate::rate::Rate;

/// The smallest bucket with which a token bucket loses none of a catalogue's events
#[derive(Args)]
#[command(after_help = "Examples:
  throttler min-bucket data/quakes_2015_2025.csv
  throttler min-bucket data/quakes_2015_2025.csv --rate 5/h --rate 10/h --rate 1/2d
  throttler min-bucket data/quakes_2015_2025.csv --min-magnitude 6 --from 2020-01-01 --format json
  zcat catalogue.csv.gz | throttler min-bucket -")]
pub(super) struct MinBucketArgs {
    #[command(flatten)]
    input: Input,
    /// How many in which window; may be given several times
    #[arg(long = "rate", value_name = "N/WINDOW", default_value = "5/h", allow_hyphen_values = true)]
    rates: Vec<Rate>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &MinBucketArgs) -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (found, reading) = analysis::min_bucket(&mut args.input.sources()?, &args.input.query()?, &args.rates, threads, &|_| {})?;
    report_skipped(&reading.bad_rows);
    match args.format {
        Format::Json => output::print_json(&as_json(&found)),
        Format::Text => output::print(&as_text(&found)),
    }
}

fn as_json(found: &MinBucket) -> serde_json::Value {
    let result = |result: &RateResult| {
        let run = result.critical_run.as_ref().map(|run| {
            json!({ "events": run.events, "first": run.first, "last": run.last, "duration_s": output::seconds(run.duration()) })
        });
        json!({
            "rate": result.rate,
            "limit": result.rate.limit(),
            "window_s": output::seconds(result.rate.window()),
            "bucket": result.bucket,
            "level": (result.level * 1e6).round() / 1e6,
            "busiest_window": result.busiest_window,
            "critical_run": run,
        })
    };
    json!({
        "events": found.events,
        "first": found.ends.map(|(first, _)| first),
        "last": found.ends.map(|(_, last)| last),
        "results": found.results.iter().map(result).collect::<Vec<_>>(),
    })
}

fn as_text(found: &MinBucket) -> String {
    let events = output::count(found.events);
    let Some((first, last)) = found.ends else {
        return "No event matches, so a bucket of 0 loses nothing.\n".to_owned();
    };
    let summary = match found.results.as_slice() {
        [only] => format!("A bucket of {} loses none of {events} events at {}.\n", output::count(only.bucket), only.rate),
        _ => format!("The smallest buckets that lose none of {events} events.\n"),
    };
    let columns = [
        ("rate", Side::Right),
        ("bucket", Side::Right),
        ("busiest window", Side::Right),
        ("critical run", Side::Right),
        ("from", Side::Left),
        ("to", Side::Left),
        ("lasting", Side::Right),
    ];
    let rows = found.results.iter().map(|result| {
        let mut row = vec![
            result.rate.to_string(),
            output::count(result.bucket),
            format!("{} in {}", output::count(result.busiest_window), result.rate.window()),
        ];
        if let Some(run) = &result.critical_run {
            row.extend([
                format!("{} events", output::count(run.events)),
                run.first.to_string(),
                run.last.to_string(),
                output::duration(run.duration()),
            ]);
        }
        row
    });
    format!("{summary}{events} events from {first} to {last}.\n\n{}", output::table(&columns, rows))
}
