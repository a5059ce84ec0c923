//! `throttler report`: who is being held back most, what became of all events, which destinations are dead.

use clap::Args;
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::{self, Format, Side};
use super::setup::{now_by, open_existing_store};
use crate::channel::Channel;
use crate::plan::Outcome;
use crate::store::SubscriberReport;
use crate::subscriber::Mode;
use crate::time::{Span, Timestamp};
use crate::withholding::RULE;

/// Days that a report looks back unless told otherwise.
const DEFAULT_DAYS: u32 = 7;

/// Show who is being held back most, what became of all events, and which destinations are dead
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReportArgs {
    /// Decisions from then on [default: 7 days before the end]
    #[arg(long, value_name = "TIME", conflicts_with = "days")]
    from: Option<Timestamp>,
    /// Decisions before then [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<Timestamp>,
    /// So many days before the end instead of --from
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: Option<u32>,
    /// The most subscribers that are listed
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "Examples:
  throttler report
  throttler report --days 30
  throttler report --from 2025-07-29 --to 2025-08-05 --format json

The share is of the events that matched a subscriber's interest: how many its limiter refused, whatever became of them (a
digest tells of them, they waited, or the ledger alone knows). Withholding is sustained where more than half of at least
4 matched events were refused on each of the last 3 days before the end, or more: the limit is then too small for what
the subscriber wants to hear of. In shadow mode nothing is withheld.";

pub(super) fn run(global: &Global, args: &ReportArgs) -> Result<(), Failure> {
    let store = open_existing_store(global)?;
    let to = args.to.map_or_else(|| now_by(&store), Ok)?;
    let days = args.days.unwrap_or(DEFAULT_DAYS);
    let from = args.from.unwrap_or_else(|| to.minus(Span::from_seconds(u64::from(days) * 86_400)));
    if from >= to {
        return Err(Failure::usage(format!("--from {from} is not before --to {to}")));
    }
    let (mut reports, reaches) = (store.report(from, to)?, store.ledger_from()?);
    SubscriberReport::sort_by_share(&mut reports);
    match args.format {
        Format::Json => {
            let mut value = as_json(&reports, from, to, args.limit as usize);
            value["ledger_from"] = json!(reaches);
            output::print_json(&value)
        }
        Format::Text => {
            let mut text = as_text(&reports, from, to, args.limit as usize);
            if let Some(reaches) = reaches.filter(|reaches| *reaches > from) {
                text = format!("{text}\nThe ledger reaches back to {reaches}: what was decided before is not counted.\n");
            }
            output::print(&text)
        }
    }
}

fn by_outcome(outcomes: &[u64; Outcome::ALL.len()]) -> serde_json::Map<String, serde_json::Value> {
    Outcome::ALL.iter().zip(outcomes).map(|(outcome, count)| (outcome.name().to_owned(), json!(count))).collect()
}

fn sums(reports: &[SubscriberReport]) -> [u64; Outcome::ALL.len()] {
    let mut sums = [0; Outcome::ALL.len()];
    for report in reports {
        for (sum, count) in sums.iter_mut().zip(report.outcomes) {
            *sum += count;
        }
    }
    sums
}

fn as_json(reports: &[SubscriberReport], from: Timestamp, to: Timestamp, limit: usize) -> serde_json::Value {
    let subscribers = reports.iter().take(limit).map(|report| {
        json!({
            "subscriber": report.name,
            "standing": report.standing,
            "mode": report.mode,
            "matched": report.matched(),
            "refused": report.refused,
            "share_refused": report.share_refused(),
            "sustained_days": report.sustained_days(),
            "outcomes": by_outcome(&report.outcomes),
        })
    });
    let dead = reports.iter().filter(|report| report.is_dead()).take(limit).map(|report| {
        json!({
            "subscriber": report.name,
            "channel": Channel::of(&report.destination),
            "standing": report.standing,
            "reason": report.standing_reason,
            "dead_letters": report.dead,
        })
    });
    json!({
        "from": from,
        "to": to,
        "matched": sums(reports).iter().sum::<u64>(),
        "refused": reports.iter().map(|report| report.refused).sum::<u64>(),
        "outcomes": by_outcome(&sums(reports)),
        "sustained_rule": RULE,
        "sustained": reports.iter().filter(|report| report.sustained_days().is_some()).map(|report| &report.name).collect::<Vec<_>>(),
        "subscribers": subscribers.collect::<Vec<_>>(),
        "dead_destinations": dead.collect::<Vec<_>>(),
    })
}

fn as_text(reports: &[SubscriberReport], from: Timestamp, to: Timestamp, limit: usize) -> String {
    let counts = sums(reports);
    let refused: u64 = reports.iter().map(|report| report.refused).sum();
    let held_back = reports.iter().filter(|report| report.sustained_days().is_some()).count();
    let mut text = format!(
        "{} for {} from {from} to {to}, {} refused by a limiter; sustained withholding: {held_back}\n",
        output::counted(counts.iter().sum(), "decision"),
        output::counted(reports.len() as u64, "subscriber"),
        output::count(refused),
    );
    let outcomes: Vec<(&str, String)> = Outcome::ALL
        .iter()
        .zip(counts)
        .filter(|(_, count)| *count > 0)
        .map(|(outcome, count)| (outcome.name(), output::count(count)))
        .collect();
    if !outcomes.is_empty() {
        text = format!("{text}\nWhat became of them\n{}", output::pairs(&outcomes));
        text = format!("{text}\nHeld back most\n{}", held_back_most(reports, limit));
    }
    let dead: Vec<_> = reports.iter().filter(|report| report.is_dead()).collect();
    if !dead.is_empty() {
        text = format!("{text}\nDead destinations\n{}", dead_destinations(&dead, limit));
    }
    text
}

fn held_back_most(reports: &[SubscriberReport], limit: usize) -> String {
    let columns = [
        ("subscriber", Side::Left),
        ("matched", Side::Right),
        ("refused", Side::Right),
        ("share", Side::Right),
        ("sustained", Side::Left),
    ];
    let listed = reports.iter().filter(|report| report.matched() > 0).take(limit);
    let lines = listed.map(|report| {
        let shadow = if report.mode == Mode::Shadow { " (shadow)" } else { "" };
        vec![
            format!("{}{shadow}", report.name),
            output::count(report.matched()),
            output::count(report.refused),
            format!("{:.0} %", 100.0 * report.share_refused()),
            report.sustained_days().map_or_else(|| "-".into(), |days| format!("for {days} days")),
        ]
    });
    output::table(&columns, lines)
}

fn dead_destinations(dead: &[&SubscriberReport], limit: usize) -> String {
    let columns = [
        ("subscriber", Side::Left),
        ("channel", Side::Left),
        ("standing", Side::Left),
        ("dead letters", Side::Right),
        ("why", Side::Left),
    ];
    let lines = dead.iter().take(limit).map(|report| {
        vec![
            report.name.clone(),
            Channel::of(&report.destination).to_string(),
            report.standing.to_string(),
            output::count(report.dead),
            report.standing_reason.clone().unwrap_or_else(|| "-".into()),
        ]
    });
    output::table(&columns, lines)
}
