//! `throttler replay --subscriber`: what stored subscribers would have got.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Map, Value, json};

use super::losses;
use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::output::{self, Side};
use crate::cli::setup::{Loaded, open_existing_store};
use crate::interest::Interest;
use crate::replay::StoredReplay;
use crate::replay::losses::{largest, silence, worst_day};
use crate::subscriber::{Subscriber, SubscriberName};

/// Subscribers that one thread replays before it takes the next ones.
const BATCH: usize = 16;

/// The named subscribers, or all of them, and the database that they stand in.
pub(super) fn chosen(global: &Global, names: &[SubscriberName]) -> Result<(Vec<Subscriber>, PathBuf), Failure> {
    let loaded = Loaded::read(global)?;
    let database = loaded.files(&loaded.database(global)?);
    let store = open_existing_store(global)?;
    let stored = if names.is_empty() {
        store.subscribers()?
    } else {
        names.iter().map(|name| store.subscriber(name)).collect::<Result<_, _>>()?
    };
    if stored.is_empty() {
        return Err(Failure::usage("there are no subscribers to replay for; `throttler subscriber add` makes one"));
    }
    Ok((stored.into_iter().map(|stored| stored.subscriber).collect(), database))
}

/// The columns without which no event could match what these subscribers want: an unknown value never does.
pub(super) fn needed_columns(subscribers: &[Subscriber]) -> Vec<&'static str> {
    let any = |wants: &dyn Fn(&Interest) -> bool| subscribers.iter().any(|subscriber| wants(&subscriber.interest));
    let mut needed = vec!["mag"];
    if any(&|interest| interest.region.is_some()) {
        needed.extend(["latitude", "longitude"]);
    }
    if any(&|interest| interest.max_depth_km.is_some()) {
        needed.push("depth");
    }
    needed
}

/// Says whose interest asks for what no catalogue tells, so that nothing matches it.
pub(super) fn warn_of_unknown(subscribers: &[Subscriber]) {
    for subscriber in subscribers.iter().filter(|each| each.interest.tsunami || each.interest.min_pager.is_some()) {
        let name = &subscriber.name;
        eprintln!("note: a catalogue tells neither tsunami flags nor PAGER levels, so nothing in it matches what {name} wants");
    }
}

/// Replays for each subscriber, on all cores; the results are in the order given.
pub(super) fn replay_all<T: Send>(subscribers: &[Subscriber], replay: impl Fn(&Subscriber) -> T + Sync) -> Vec<T> {
    let progress = output::progress_bar(Some(subscribers.len() as u64), "{wide_bar} {pos} of {len} subscribers, {eta} left");
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        let mut done = Vec::new();
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            let Some(batch) = subscribers.get(from..subscribers.len().min(from + BATCH)) else { return done };
            if batch.is_empty() {
                return done;
            }
            done.extend(batch.iter().enumerate().map(|(at, subscriber)| (from + at, replay(subscriber))));
            progress.inc(batch.len() as u64);
        }
    };
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault)));
        joined.flatten().collect()
    });
    progress.finish_and_clear();
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, replayed)| replayed).collect()
}

pub(super) fn as_json(mut head: Map<String, Value>, results: &[(&Subscriber, &StoredReplay)]) -> Value {
    let result = |(subscriber, replayed): &(&Subscriber, &StoredReplay)| {
        let promise = subscriber.policy.promise();
        json!({
            "subscriber": subscriber.name,
            "limiter": subscriber.policy.limit.algorithm(),
            "rate": subscriber.policy.limit.rate(),
            "bucket": subscriber.policy.limit.bucket(),
            "offered": replayed.offered,
            "admitted": replayed.admitted,
            "refused": replayed.refused,
            "held": replayed.held,
            "passed_anyway": replayed.passed_anyway,
            "delayed": replayed.delayed,
            "longest_wait_s": output::seconds(replayed.longest_wait),
            "digests": replayed.digests,
            "digested": replayed.digested,
            "withheld": replayed.withheld,
            "busiest_window": replayed.busiest_window,
            "promise": promise.to_string(),
            "most_in_any_window": promise.most_in_any_window,
            "largest_refused": replayed.largest_refused.as_ref().map(output::event_in_short),
            "longest_silence": losses::silence_as_json(replayed.longest_silence),
            "worst_days": losses::days_as_json(&replayed.worst_days),
        })
    };
    head.insert("results".to_owned(), results.iter().map(result).collect());
    head.into()
}

pub(super) fn as_text(head: &str, results: &[(&Subscriber, &StoredReplay)]) -> String {
    let columns = [
        ("subscriber", Side::Left),
        ("limiter", Side::Left),
        ("rate", Side::Right),
        ("bucket", Side::Right),
        ("offered", Side::Right),
        ("admitted", Side::Right),
        ("refused", Side::Right),
        ("held", Side::Right),
        ("digests", Side::Right),
        ("delayed", Side::Right),
        ("busiest", Side::Right),
        ("longest silence", Side::Right),
        ("worst day", Side::Left),
        ("largest refused", Side::Left),
    ];
    let none = || "-".to_owned();
    let rows = results.iter().map(|(subscriber, replayed)| {
        let limit = subscriber.policy.limit;
        vec![
            subscriber.name.to_string(),
            limit.algorithm().to_string(),
            limit.rate().to_string(),
            limit.bucket().map_or_else(none, |bucket| output::count(bucket.into())),
            output::count(replayed.offered),
            output::count(replayed.admitted),
            output::count(replayed.refused),
            output::count(replayed.held),
            output::count(replayed.digests),
            output::count(replayed.delayed),
            output::count(replayed.busiest_window),
            silence(replayed.longest_silence),
            worst_day(&replayed.worst_days),
            largest(replayed.largest_refused.as_ref()),
        ]
    });
    format!("{head}, for {}.\n\n{}", output::counted(results.len() as u64, "subscriber"), output::table(&columns, rows))
}
