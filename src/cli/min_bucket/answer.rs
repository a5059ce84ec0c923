//! The answers of `min-bucket` as text and as JSON.

use serde_json::{Value, json};

use super::Found;
use super::curve::{CurveAnswer, rounded};
use crate::analysis::{LossyBucket, MinBucket, RateResult, Run, SmallestRate};
use crate::cli::output::{self, Side};
use crate::rate::Rate;
use crate::time::Span;

/// An hour, in which a rate without a window of its own is told to people.
const HOUR: Span = Span::from_seconds(3_600);

/// The smallest bucket at one rate that loses at most `most`.
pub(super) struct Lossy {
    pub rate: Rate,
    pub most: u64,
    pub found: LossyBucket,
}

pub(super) fn as_json(found: &Found) -> Value {
    let needs = &found.needs;
    let mut value = json!({
        "events": needs.events,
        "first": needs.ends.map(|(first, _)| first),
        "last": needs.ends.map(|(_, last)| last),
        "results": needs.results.iter().map(result_as_json).collect::<Vec<_>>(),
    });
    if !found.lossy.is_empty() {
        let lossy = |lossy: &Lossy| json!({ "rate": lossy.rate, "accepted": lossy.most, "bucket": lossy.found.bucket, "lost": lossy.found.lost });
        value["lose"] = found.lossy.iter().map(lossy).collect();
    }
    if let Some((bucket, smallest)) = &found.smallest_rate {
        value["smallest_rate"] = smallest_rate_as_json(*bucket, smallest);
    }
    if let Some(curve) = &found.curve {
        value["curve"] = curve.as_json();
    }
    value
}

fn result_as_json(result: &RateResult) -> Value {
    json!({
        "rate": result.rate,
        "limit": result.rate.limit(),
        "window_s": output::seconds(result.rate.window()),
        "bucket": result.bucket,
        "level": rounded(result.level),
        "busiest_window": result.busiest_window,
        "critical_run": result.critical_run.as_ref().map(run_as_json),
    })
}

pub(super) fn run_as_json(run: &Run) -> Value {
    json!({ "events": run.events, "first": run.first, "last": run.last, "duration_s": output::seconds(run.duration()) })
}

fn smallest_rate_as_json(bucket: u64, smallest: &SmallestRate) -> Value {
    match smallest {
        SmallestRate::Any => json!({ "bucket": bucket, "rate": "any", "critical_run": null }),
        SmallestRate::Never { critical_run } => {
            json!({ "bucket": bucket, "rate": "never", "critical_run": run_as_json(critical_run) })
        }
        SmallestRate::Rate { rate, critical_run } => json!({
            "bucket": bucket,
            "rate": rate.to_string(),
            "per_hour": rounded(rate.per(HOUR)),
            "critical_run": run_as_json(critical_run),
        }),
    }
}

pub(super) fn as_text(found: &Found) -> String {
    let needs = &found.needs;
    let Some((first, last)) = needs.ends else {
        return "No event matches, so a bucket of 0 loses nothing.\n".to_owned();
    };
    let events = output::count(needs.events);
    let summary = match needs.results.as_slice() {
        [only] => format!("A bucket of {} loses none of {events} events at {}.", output::count(only.bucket), only.rate),
        _ => format!("The smallest buckets that lose none of {events} events."),
    };
    let mut parts = vec![format!("{summary}\n{events} events from {first} to {last}.\n\n{}", results_as_text(needs))];
    parts.extend(found.lossy.iter().map(|lossy| {
        format!(
            "To lose at most {} of them at {}, a bucket of {} is enough: it loses {}.\n",
            output::count(lossy.most),
            lossy.rate,
            output::count(lossy.found.bucket),
            output::count(lossy.found.lost),
        )
    }));
    parts.extend(found.smallest_rate.iter().map(|(bucket, smallest)| smallest_rate_as_text(*bucket, smallest) + "\n"));
    parts.extend(found.curve.iter().map(CurveAnswer::as_text));
    parts.join("\n")
}

fn results_as_text(needs: &MinBucket) -> String {
    let columns = [
        ("rate", Side::Right),
        ("bucket", Side::Right),
        ("busiest window", Side::Right),
        ("critical run", Side::Right),
        ("from", Side::Left),
        ("to", Side::Left),
        ("lasting", Side::Right),
    ];
    let rows = needs.results.iter().map(|result| {
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
    output::table(&columns, rows)
}

fn smallest_rate_as_text(bucket: u64, smallest: &SmallestRate) -> String {
    let held = output::count(bucket);
    let run = |run: &Run| {
        format!("{} events from {} within {}", output::count(run.events), run.first, output::duration(run.duration()))
    };
    match smallest {
        SmallestRate::Any => format!("A bucket of {held} loses nothing at any rate: there are no more events than it holds."),
        SmallestRate::Never { critical_run } => {
            format!(
                "A bucket of {held} loses something at every rate: {} events came at one instant, {}.",
                critical_run.events, critical_run.first
            )
        }
        SmallestRate::Rate { rate, critical_run } => format!(
            "A bucket of {held} loses nothing from {:.4} an hour on (exactly {rate}): {} empty it.",
            rate.per(HOUR),
            run(critical_run)
        ),
    }
}
