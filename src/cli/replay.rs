//! `throttler replay`: what each limiter would have done on historic days.

mod pictures;
mod stored;

use clap::Args;
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::input::{Input, report_skipped, whole_number};
use super::output::{self, Format, Side};
use super::pictures::{PictureFlags, check_panels};
use crate::catalogue::{Query, read_events};
use crate::event::Event;
use crate::limiter::{Algorithm, CounterRule, Limit};
use crate::plot::Row;
use crate::rate::Rate;
use crate::replay::{Replayed, replay, replay_stored};
use crate::subscriber::SubscriberName;

/// What each limiter would have done with a catalogue's events, each decided at its origin time
#[derive(Args)]
#[command(after_help = "Examples:
  throttler replay data/quakes_2015_2025.csv --from 2025-07-29T12:00:00Z --to 2025-07-31T12:00:00Z --rate 5/h --bucket 5
  throttler replay data/quakes_2015_2025.csv --limiter token-bucket --bucket 5 --bucket 74 --html report.html
  throttler replay data/quakes_2015_2025.csv --limiter sliding-counter --counter-rule fits --format json
  throttler replay data/quakes_2015_2025.csv --all-subscribers
  throttler replay data/quakes_2015_2025.csv --subscriber anna --from 2025-07-29 --to 2025-08-01 --html anna.html

The catalogue is replayed as it is known today: every event at its origin time, not when it was published.")]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    input: Input,
    /// How many in which window, like 5/h, 100/60s or 1/2d
    #[arg(long, value_name = "N/WINDOW", default_value = "5/h", allow_hyphen_values = true)]
    rate: Rate,
    /// How many at once, for token-bucket and leaky-bucket; may be given several times [default: the N of the rate]
    #[arg(long = "bucket", value_name = "B", allow_negative_numbers = true, value_parser = whole_number)]
    buckets: Vec<u64>,
    /// Only these limiters; may be given several times [default: all five]
    #[arg(long = "limiter", value_name = "LIMITER")]
    limiters: Vec<Algorithm>,
    /// For this stored subscriber, with all its settings; may be given several times
    #[arg(long = "subscriber", value_name = "NAME", conflicts_with_all = ["rate", "buckets", "limiters", "counter_rule"])]
    subscribers: Vec<SubscriberName>,
    /// For all stored subscribers
    #[arg(long, conflicts_with_all = ["rate", "buckets", "limiters", "counter_rule", "subscribers"])]
    all_subscribers: bool,
    /// How the sliding-counter compares its estimate
    #[arg(long, value_name = "RULE", default_value_t)]
    counter_rule: CounterRule,
    #[command(flatten)]
    pictures: PictureFlags,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    if args.all_subscribers || !args.subscribers.is_empty() {
        return run_stored(global, args);
    }
    let limits = limits(args)?;
    let (mut sources, query) = (args.input.sources()?, args.input.query()?);
    let pictures = args.pictures.open(&args.input.files())?;
    if pictures.is_some() {
        check_panels(limits.len(), "choose fewer with --limiter and --bucket")?;
    }
    let (events, skipped) = read_events(&mut sources, &query)?;
    report_skipped(&skipped);
    let results: Vec<_> = match pictures {
        None => limits.into_iter().map(|limit| replay(limit, &events)).collect(),
        Some(pictures) => pictures::draw(pictures, "what passed", &events, &query.filter, |stretch| {
            limits.into_iter().map(|limit| Row::replay(limit, stretch)).unzip()
        })?,
    };
    match args.format {
        Format::Json => output::print_json(&as_json(args.rate, &events, &results)),
        Format::Text => output::print(&as_text(args.rate, &events, &results)),
    }
}

fn run_stored(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    let (subscribers, database) = stored::chosen(global, &args.subscribers)?;
    stored::warn_of_unknown(&subscribers);
    let (mut sources, query) = (args.input.sources()?, args.input.query()?);
    let query = Query { needs: stored::needed_columns(&subscribers), ..query };
    let inputs = [args.input.files(), vec![&database]].concat();
    let pictures = args.pictures.open(&inputs)?;
    if pictures.is_some() {
        check_panels(subscribers.len(), "name those to draw with --subscriber")?;
    }
    let (events, skipped) = read_events(&mut sources, &query)?;
    report_skipped(&skipped);
    let replayed: Vec<_> = match pictures {
        None => stored::replay_all(&subscribers, |subscriber| replay_stored(subscriber, &events)),
        Some(pictures) => pictures::draw(pictures, "what each subscriber got", &events, &query.filter, |stretch| {
            stored::replay_all(&subscribers, |subscriber| Row::replay_stored(subscriber, stretch)).into_iter().unzip()
        })?,
    };
    let results: Vec<_> = subscribers.iter().zip(&replayed).collect();
    match args.format {
        Format::Json => output::print_json(&stored::as_json(&events, &results)),
        Format::Text => output::print(&stored::as_text(&events, &results)),
    }
}

/// The limits to compare, in the order in which they are always shown.
fn limits(args: &ReplayArgs) -> Result<Vec<Limit>, Failure> {
    let chosen = Algorithm::ALL.into_iter().filter(|algorithm| args.limiters.is_empty() || args.limiters.contains(algorithm));
    let mut limits = Vec::new();
    for algorithm in chosen {
        let mut buckets: Vec<Option<u64>> = args.buckets.iter().copied().map(Some).collect();
        if buckets.is_empty() || !algorithm.has_bucket() {
            buckets = vec![None];
        }
        for bucket in buckets {
            let mut limit = Limit::new(algorithm, args.rate, bucket).map_err(Failure::usage)?;
            if algorithm == Algorithm::SlidingCounter {
                limit = limit.with_rule(args.counter_rule).map_err(Failure::usage)?;
            }
            limits.push(limit);
        }
    }
    Ok(limits)
}

fn as_json(rate: Rate, events: &[Event], results: &[Replayed<'_>]) -> serde_json::Value {
    let result = |result: &Replayed<'_>| {
        let promise = result.limit.promise();
        let mut value = json!({
            "limiter": result.limit.algorithm(),
            "bucket": result.limit.bucket(),
            "admitted": result.admitted,
            "refused": result.refused,
            "busiest_window": result.busiest_window,
            "promise": promise.to_string(),
            "most_in_any_window": promise.most_in_any_window,
            "largest_refused": result.largest_refused.map(output::event_in_short),
        });
        if result.limit.algorithm() == Algorithm::SlidingCounter {
            value["counter_rule"] = json!(result.limit.rule());
        }
        if let Some(waits) = result.waits {
            value["delayed"] = json!(waits.delayed);
            value["longest_wait_s"] = json!(output::seconds(waits.longest));
        }
        value
    };
    json!({
        "events": events.len(),
        "first": events.first().map(|event| event.origin_at),
        "last": events.last().map(|event| event.origin_at),
        "rate": rate,
        "catalogue": "as known today",
        "results": results.iter().map(result).collect::<Vec<_>>(),
    })
}

fn as_text(rate: Rate, events: &[Event], results: &[Replayed<'_>]) -> String {
    let (Some(first), Some(last)) = (events.first(), events.last()) else {
        return "No event matches.\n".to_owned();
    };
    let summary = format!(
        "{} events from {} to {}, as known today, at {rate}.\n",
        output::count(events.len() as u64),
        first.origin_at,
        last.origin_at
    );
    let busiest = format!("most in any {}", rate.window());
    let columns = [
        ("limiter", Side::Left),
        ("bucket", Side::Right),
        ("admitted", Side::Right),
        ("refused", Side::Right),
        (busiest.as_str(), Side::Right),
        ("promised", Side::Right),
        ("delayed", Side::Right),
        ("longest wait", Side::Right),
        ("largest refused", Side::Left),
    ];
    let none = || "-".to_owned();
    let rows = results.iter().map(|result| {
        vec![
            name(result.limit),
            result.limit.bucket().map_or_else(none, |bucket| output::count(bucket.into())),
            output::count(result.admitted),
            output::count(result.refused),
            output::count(result.busiest_window),
            output::count(result.limit.promise().most_in_any_window),
            result.waits.map_or_else(none, |waits| output::count(waits.delayed)),
            result.waits.map_or_else(none, |waits| output::duration(waits.longest)),
            result.largest_refused.map_or_else(none, |event| format!("{} at {}", event.title(), event.origin_at)),
        ]
    });
    let promises: Vec<_> = results.iter().map(|result| (name(result.limit), result.limit.promise().to_string())).collect();
    format!("{summary}\n{}\nWhat each promises:\n{}", output::table(&columns, rows), output::pairs(&promises))
}

fn name(limit: Limit) -> String {
    if limit.rule() == CounterRule::default() {
        limit.algorithm().to_string()
    } else {
        format!("{} ({})", limit.algorithm(), limit.rule())
    }
}
