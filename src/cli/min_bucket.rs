//! `throttler min-bucket`: the smallest bucket that loses nothing, and the questions around it.

mod answer;
mod curve;

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::failure::Failure;
use super::input::{Input, TimeFlags, report, whole_number};
use super::output::{self, Format};
use super::pictures::Destination;
use crate::analysis::{self, AcceptedLoss, MinBucket, SmallestRate, smallest_bucket, smallest_rate};
use crate::catalogue::{Reading, read_times};
use crate::plot;
use crate::rate::Rate;
use crate::time::Timestamp;

use answer::Lossy;
use curve::{CurveAnswer, CurveSpan};

/// The rate that is asked about when none is named.
const DEFAULT_RATE: &str = "5/h";

/// The smallest bucket with which a token bucket loses none of a catalogue's events
#[derive(Args)]
#[command(after_help = "Examples:
  throttler min-bucket data/quakes_2015_2025.csv
  throttler min-bucket data/quakes_2015_2025.csv --rate 5/h --rate 10/h --rate 1/2d
  throttler min-bucket data/quakes_2015_2025.csv --curve 1..38/h --plot curve.svg
  throttler min-bucket data/quakes_2015_2025.csv --lose 0.1%
  throttler min-bucket data/quakes_2015_2025.csv --bucket 50
  throttler min-bucket data/quakes_2015_2025.csv --min-magnitude 6 --from 2020-01-01 --format json
  zcat access.csv.gz | throttler min-bucket - \\
    --time-column 4 --time-format epoch-ms --rate 100/s")]
pub(super) struct MinBucketArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    times: TimeFlags,
    /// How many in which window; may be given several times [default: 5/h]
    #[arg(long = "rate", value_name = "N/WINDOW", allow_hyphen_values = true)]
    rates: Vec<Rate>,
    /// Also the exact curve of the smallest bucket from one rate to another, by its corners, like 1..38/h
    #[arg(long, value_name = "FROM..TO/WINDOW")]
    curve: Option<CurveSpan>,
    /// Also the smallest bucket that loses at most so many events, or so many percent of them, like 10 or 0.5%
    #[arg(long, value_name = "N|P%", value_parser = AcceptedLoss::from_str)]
    lose: Option<AcceptedLoss>,
    /// Also the smallest rate at which this bucket loses nothing
    #[arg(long, value_name = "B", value_parser = whole_number)]
    bucket: Option<u64>,
    /// Draw the curve, or without one what is left in the bucket around the critical run
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Everything that was asked, and its answers.
struct Found {
    needs: MinBucket,
    lossy: Vec<Lossy>,
    smallest_rate: Option<(u64, SmallestRate)>,
    curve: Option<CurveAnswer>,
    picture: Option<String>,
}

pub(super) fn run(args: &MinBucketArgs) -> Result<(), Failure> {
    if args.bucket == Some(0) {
        return Err(Failure::usage("--bucket 0 holds nothing: expected a bucket of 1 or more"));
    }
    let mut rates = args.rates.clone();
    if rates.is_empty() {
        rates.push(DEFAULT_RATE.parse().map_err(Failure::usage)?);
    }
    let plot = args.plot.as_deref().map(|path| Destination::open(path, &args.input.inputs())).transpose()?;
    let (found, reading) = find(args, &rates)?;
    report(&reading);
    if let (Some(plot), Some(picture)) = (plot, &found.picture) {
        plot.write(picture)?;
    }
    match args.format {
        Format::Json => output::print_json(&answer::as_json(&found)),
        Format::Text => output::print(&answer::as_text(&found)),
    }
}

/// One pass in constant memory, unless a question needs the times more than once.
fn find(args: &MinBucketArgs, rates: &[Rate]) -> Result<(Found, Reading), Failure> {
    let (mut sources, query, threads) = (args.input.sources()?, args.times.query(&args.input)?, args.times.threads()?);
    let bar = args.input.progress();
    let progress = |bytes| bar.inc(bytes);
    let one_pass = args.curve.is_none() && args.lose.is_none() && args.bucket.is_none() && args.plot.is_none();
    if one_pass {
        let (needs, reading) = analysis::min_bucket(&mut sources, &query, rates, threads, &progress)?;
        bar.finish_and_clear();
        return Ok((Found { needs, lossy: Vec::new(), smallest_rate: None, curve: None, picture: None }, reading));
    }
    let (times, reading) = read_times(&mut sources, &query, threads, &progress)?;
    bar.finish_and_clear();
    let needs = analysis::needs(&times, rates);
    let lossy = args.lose.map_or_else(Vec::new, |accepted| {
        let most = accepted.of(times.len() as u64);
        rates.iter().map(|&rate| Lossy { rate, most, found: smallest_bucket(&times, rate, most) }).collect()
    });
    let curve = args.curve.map(|span| CurveAnswer::find(span, &times));
    let picture = args.plot.as_ref().map(|_| curve.as_ref().map_or_else(|| buckets(&needs, &times), CurveAnswer::picture));
    let smallest_rate = args.bucket.map(|bucket| (bucket, smallest_rate(&times, bucket)));
    Ok((Found { needs, lossy, smallest_rate, curve, picture }, reading))
}

/// The picture of the smallest buckets at work.
fn buckets(needs: &MinBucket, times: &[Timestamp]) -> String {
    let events: Vec<_> = times.iter().map(|&at| (at, None)).collect();
    let panel = |result: &analysis::RateResult| {
        let bucket = u32::try_from(result.bucket).ok()?;
        Some(plot::BucketPanel { rate: result.rate, bucket, critical_run: result.critical_run? })
    };
    let panels: Vec<_> = needs.results.iter().filter_map(panel).collect();
    plot::Buckets { title: "The smallest bucket that loses nothing", events: &events, panels: &panels }.to_svg()
}
