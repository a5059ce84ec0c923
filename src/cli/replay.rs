//! `throttler replay`: what each limiter would have done on historic days.

mod as_known;
mod captures;
mod losses;
mod pictures;
mod stored;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::Global;
use super::failure::Failure;
use super::input::{Input, report_skipped, whole_number};
use super::output::{self, Format};
use super::pictures::{PictureFlags, check_panels};
use crate::catalogue::{Query, read_events};
use crate::event::{Event, Magnitude};
use crate::limiter::{Algorithm, CounterRule, Limit};
use crate::news::FirstRun;
use crate::plot::Row;
use crate::rate::Rate;
use crate::replay::{Comparison, Replayed, StoredReplay, Waits, replay, replay_stored, table};
use crate::subscriber::{Subscriber, SubscriberName};
use captures::Captures;

/// What each limiter would have done with a catalogue's events, each decided at its origin time
#[derive(Args)]
#[command(after_help = "Examples:
  throttler replay data/quakes_2015_2025.csv --from 2025-07-29T12:00:00Z --to 2025-07-31T12:00:00Z \\
    --rate 5/h --bucket 5
  throttler replay data/quakes_2015_2025.csv --limiter token-bucket --bucket 5 --bucket 74 \\
    --html report.html
  throttler replay data/quakes_2015_2025.csv --limiter sliding-counter \\
    --counter-rule fits --format json
  throttler replay data/quakes_2015_2025.csv --all-subscribers
  throttler replay data/quakes_2015_2025.csv --subscriber anna --from 2025-07-29 --to 2025-08-01 \\
    --html anna.html
  throttler replay --as-known polls/ --min-magnitude 5 --first-run alert

A catalogue is replayed as it is in the end: each event at its origin time with its last magnitude. With --as-known the FILEs are
captures of a feed, GeoJSON or CSV, or directories of them. They are replayed as they were seen, when they were seen: with late
publication, revisions and changes of ids, by the rules of the daemon and of its configuration. When a capture was seen is said
by its metadata.generated, else by a time in its name like 20250805T050359Z.")]
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
    /// The files are captures of a feed or directories of them: replay them as they were seen, when they were seen
    #[arg(long, conflicts_with_all = ["plot", "html"])]
    as_known: bool,
    /// Whether what the first capture shows is news [default: as the configuration says]
    #[arg(long, value_name = "FIRST", value_enum, requires = "as_known")]
    first_run: Option<FirstCapture>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What becomes of what the first capture shows, as at the daemon's very first poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FirstCapture {
    /// It is taken as known
    Baseline,
    /// It is news
    Alert,
}

impl From<FirstCapture> for FirstRun {
    fn from(first: FirstCapture) -> FirstRun {
        match first {
            FirstCapture::Baseline => FirstRun::Baseline,
            FirstCapture::Alert => FirstRun::Alert,
        }
    }
}

/// What a replay of a catalogue is.
const FINAL: &str = "the final catalogue: each event at its origin time with its last magnitude";

/// What was replayed, in words without a full stop and as the first keys of the JSON.
struct Head {
    text: String,
    json: Map<String, Value>,
}

pub(super) fn run(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    match (args.as_known, args.all_subscribers || !args.subscribers.is_empty()) {
        (false, false) => run_limits(args),
        (false, true) => run_stored(global, args),
        (true, false) => run_limits_as_known(global, args),
        (true, true) => run_stored_as_known(global, args),
    }
}

fn run_limits(args: &ReplayArgs) -> Result<(), Failure> {
    let limits = limits(args)?;
    let (mut sources, query) = (args.input.sources()?, args.input.query()?);
    let pictures = args.pictures.open(&args.input.inputs())?;
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
    print_limits(args, final_catalogue(&events), &results)
}

fn run_limits_as_known(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    let (limits, query) = (limits(args)?, args.input.query()?);
    let all = Magnitude::new(Magnitude::MIN).map_err(Failure::usage)?;
    let min_magnitude = query.filter.min_magnitude.unwrap_or(all);
    let rules = as_known::rules(global, args, Some(min_magnitude))?;
    let captures = Captures::find(args.input.files(), &query)?;
    let (seen, replayed) = as_known::replay(&as_known::one_for_each(&limits, min_magnitude)?, &captures, rules)?;
    let results: Vec<_> = limits.into_iter().zip(&replayed).map(|(limit, replayed)| of_limit(limit, replayed)).collect();
    print_limits(args, Some(seen.head()), &results)
}

/// What a limiter alone did for a subscriber who has no exceptions.
fn of_limit(limit: Limit, replayed: &StoredReplay) -> Replayed<'_> {
    let waits = Waits { delayed: replayed.delayed, longest: replayed.longest_wait };
    Replayed {
        limit,
        admitted: replayed.admitted,
        refused: replayed.refused,
        busiest_window: replayed.busiest_window,
        busiest_from: None,
        largest_refused: replayed.largest_refused.as_ref(),
        longest_silence: replayed.longest_silence,
        worst_days: replayed.worst_days.clone(),
        waits: (limit.algorithm() == Algorithm::LeakyBucket).then_some(waits),
    }
}

fn print_limits(args: &ReplayArgs, head: Option<Head>, results: &[Replayed<'_>]) -> Result<(), Failure> {
    match (args.format, head) {
        (Format::Json, head) => output::print_json(&as_json(args.rate, head.unwrap_or_else(no_events).json, results)),
        (Format::Text, Some(head)) => output::print(&as_text(args.rate, &head.text, results)),
        (Format::Text, None) => output::print("No event matches.\n"),
    }
}

/// The head of a replay of a catalogue; `None` without events.
fn final_catalogue(events: &[Event]) -> Option<Head> {
    let (first, last) = (events.first()?.origin_at, events.last()?.origin_at);
    let text = format!("{} events from {first} to {last}, {FINAL}", output::count(events.len() as u64));
    let json = final_keys(events.len(), json!(first), json!(last));
    Some(Head { text, json })
}

fn no_events() -> Head {
    Head { text: String::new(), json: final_keys(0, Value::Null, Value::Null) }
}

fn final_keys(events: usize, first: Value, last: Value) -> Map<String, Value> {
    let keys =
        [("events", json!(events)), ("first", first), ("last", last), ("catalogue", json!(FINAL)), ("as_known", false.into())];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn run_stored(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    let (subscribers, database) = stored::chosen(global, &args.subscribers)?;
    stored::warn_of_unknown(&subscribers);
    let (mut sources, query) = (args.input.sources()?, args.input.query()?);
    let query = Query { needs: stored::needed_columns(&subscribers), ..query };
    let inputs = [args.input.inputs(), vec![&database]].concat();
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
    print_stored(args, final_catalogue(&events), &results)
}

fn run_stored_as_known(global: &Global, args: &ReplayArgs) -> Result<(), Failure> {
    let (subscribers, _) = stored::chosen(global, &args.subscribers)?;
    let query = args.input.query()?;
    let rules = as_known::rules(global, args, query.filter.min_magnitude)?;
    let captures = Captures::find(args.input.files(), &query)?;
    let (seen, replayed) = as_known::replay(&subscribers, &captures, rules)?;
    let results: Vec<_> = subscribers.iter().zip(&replayed).collect();
    print_stored(args, Some(seen.head()), &results)
}

fn print_stored(args: &ReplayArgs, head: Option<Head>, results: &[(&Subscriber, &StoredReplay)]) -> Result<(), Failure> {
    match (args.format, head) {
        (Format::Json, head) => output::print_json(&stored::as_json(head.unwrap_or_else(no_events).json, results)),
        (Format::Text, Some(head)) => output::print(&stored::as_text(&head.text, results)),
        (Format::Text, None) => output::print("No event matches.\n"),
    }
}

/// The limits to compare.
fn limits(args: &ReplayArgs) -> Result<Vec<Limit>, Failure> {
    let comparison = Comparison {
        rate: args.rate,
        buckets: args.buckets.clone(),
        algorithms: args.limiters.clone(),
        counter_rule: args.counter_rule,
    };
    comparison.limits().map_err(Failure::usage)
}

fn as_json(rate: Rate, mut head: Map<String, Value>, results: &[Replayed<'_>]) -> Value {
    let result = |result: &Replayed<'_>| {
        let promise = result.limit.promise();
        let mut value = json!({
            "limiter": result.limit.algorithm(),
            "bucket": result.limit.bucket(),
            "offered": result.offered(),
            "admitted": result.admitted,
            "refused": result.refused,
            "busiest_window": result.busiest_window,
            "promise": promise.to_string(),
            "most_in_any_window": promise.most_in_any_window,
            "largest_refused": result.largest_refused.map(output::event_in_short),
            "longest_silence": losses::silence_as_json(result.longest_silence),
            "worst_days": losses::days_as_json(&result.worst_days),
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
    // Behind the events and their ends.
    head.shift_insert(3, "rate".to_owned(), json!(rate));
    head.insert("results".to_owned(), results.iter().map(result).collect());
    head.into()
}

fn as_text(rate: Rate, head: &str, results: &[Replayed<'_>]) -> String {
    let promises: Vec<_> = results.iter().map(|result| (result.limit.name(), result.limit.promise().to_string())).collect();
    let table = output::printed(&table(rate, results));
    format!("{head}, at {rate}.\n\n{table}\nWhat each promises:\n{}", output::pairs(&promises))
}
