//! `throttler ledger`: every decision with its reason and what became of it.

use clap::Args;
use serde_json::json;

use super::Global;
use super::failure::Failure;
use super::output::{self, Format, Side};
use super::setup::open_existing_store;
use crate::event::EventId;
use crate::store::{HistoryRow, LedgerRow, UpdateRow};
use crate::subscriber::SubscriberName;
use crate::time::Timestamp;

/// Show every decision with its reason and what became of it
#[derive(Args)]
#[command(after_help = "Examples:
  throttler ledger --subscriber anna
  throttler ledger --event us6000qw60 --format json")]
pub(super) struct LedgerArgs {
    /// Only this subscriber's decisions
    #[arg(long, value_name = "NAME")]
    subscriber: Option<SubscriberName>,
    /// Only the decisions on this event, by any of its ids
    #[arg(long, value_name = "ID")]
    event: Option<EventId>,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(global: &Global, args: &LedgerArgs) -> Result<(), Failure> {
    let store = open_existing_store(global)?;
    let subscriber = args.subscriber.as_ref().map(|name| store.subscriber(name)).transpose()?.map(|stored| stored.key);
    if let Some(id) = &args.event
        && store.event(id)?.is_none()
    {
        return Err(Failure::usage(format!("no event '{id}' has been recorded")));
    }
    let rows = store.ledger(subscriber, args.event.as_ref())?;
    let updates = store.updates(subscriber, args.event.as_ref())?;
    let history = args.event.as_ref().map(|id| store.history(id)).transpose()?;
    let reaches = store.ledger_from()?;
    match args.format {
        Format::Json => {
            let (decisions, updates): (Vec<_>, Vec<_>) =
                (rows.iter().map(as_json).collect(), updates.iter().map(update_as_json).collect());
            let mut value = json!({ "ledger_from": reaches, "decisions": decisions, "updates": updates });
            if let Some(history) = history {
                value["history"] = history.iter().map(history_as_json).collect();
            }
            output::print_json(&value)
        }
        Format::Text => {
            let history = history.as_deref().map_or_else(String::new, history_as_text);
            output::print(&format!("{}{}{history}", as_text(&rows, reaches), updates_as_text(&updates)))
        }
    }
}

fn update_as_json(row: &UpdateRow) -> serde_json::Value {
    json!({
        "subscriber": row.subscriber,
        "event": output::event_in_short(&row.event),
        "kind": kind(row),
        "decided_at": row.decided_at,
        "outcome": row.outcome.name(),
        "refused": row.refused,
        "reason": row.reason,
        "retry_at": row.retry_at,
        "alert_id": row.alert_id,
        "delivery": row.delivery,
        "settled_at": row.settled_at,
    })
}

fn kind(row: &UpdateRow) -> &'static str {
    if row.withdrawal { "withdrawal" } else { "update" }
}

/// Nothing where there was no update.
fn updates_as_text(rows: &[UpdateRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        ("decided", Side::Left),
        ("subscriber", Side::Left),
        ("event", Side::Left),
        ("M", Side::Right),
        ("kind", Side::Left),
        ("outcome", Side::Left),
        ("delivery", Side::Left),
        ("why", Side::Left),
    ];
    let lines = rows.iter().map(|row| {
        vec![
            row.decided_at.to_string(),
            row.subscriber.clone(),
            row.event.id.to_string(),
            row.event.magnitude.map_or_else(|| "?".into(), |m| m.to_string()),
            kind(row).to_owned(),
            row.outcome.to_string(),
            row.delivery.clone().unwrap_or_else(|| "-".into()),
            row.reason.clone(),
        ]
    });
    format!("\n{}", output::table(&columns, lines))
}

fn history_as_json(row: &HistoryRow) -> serde_json::Value {
    json!({ "seen_at": row.seen_at, "event": output::event_in_short(&row.event), "changes": row.changes })
}

fn history_as_text(rows: &[HistoryRow]) -> String {
    let columns = [("seen", Side::Left), ("event", Side::Left), ("M", Side::Right), ("what", Side::Left)];
    let lines = rows.iter().map(|row| {
        let magnitude = row.event.magnitude.map_or_else(|| "?".into(), |m| m.to_string());
        vec![row.seen_at.to_string(), row.event.id.to_string(), magnitude, row.changes.clone()]
    });
    format!("\n{}", output::table(&columns, lines))
}

fn as_json(row: &LedgerRow) -> serde_json::Value {
    json!({
        "subscriber": row.subscriber,
        "event": { "id": row.event.id, "magnitude": row.event.magnitude, "time": row.event.origin_at, "place": row.event.place },
        "decided_at": row.decided_at,
        "outcome": row.outcome.name(),
        "refused": row.refused,
        "reason": row.reason,
        "retry_at": row.retry_at,
        "alert_id": row.alert_id,
        "delivery": row.delivery,
        "settled_at": row.settled_at,
        "delivery_detail": row.delivery_detail,
    })
}

/// The decision's reason, and why its message did not arrive.
fn why(row: &LedgerRow) -> String {
    match (row.delivery.as_deref(), &row.delivery_detail) {
        (Some("dead" | "dropped"), Some(detail)) => format!("{}; {detail}", row.reason),
        _ => row.reason.clone(),
    }
}

fn as_text(rows: &[LedgerRow], reaches: Option<Timestamp>) -> String {
    let refused = rows.iter().filter(|row| row.refused).count() as u64;
    let decisions =
        if rows.len() == 1 { "1 decision".to_owned() } else { format!("{} decisions", output::count(rows.len() as u64)) };
    let reaches = reaches.map_or_else(String::new, |from| format!("; the ledger reaches back to {from}"));
    let summary = format!("{decisions}, {} of them refused by the limiter{reaches}\n", output::count(refused));
    if rows.is_empty() {
        return summary;
    }
    let columns = [
        ("decided", Side::Left),
        ("subscriber", Side::Left),
        ("event", Side::Left),
        ("M", Side::Right),
        ("outcome", Side::Left),
        ("delivery", Side::Left),
        ("why", Side::Left),
    ];
    let lines = rows.iter().map(|row| {
        vec![
            row.decided_at.to_string(),
            row.subscriber.clone(),
            row.event.id.to_string(),
            row.event.magnitude.map_or_else(|| "?".into(), |m| m.to_string()),
            row.outcome.to_string(),
            row.delivery.clone().unwrap_or_else(|| "-".into()),
            why(row),
        ]
    });
    format!("{summary}\n{}", output::table(&columns, lines))
}
