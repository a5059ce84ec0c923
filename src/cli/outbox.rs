//! `throttler outbox`: what is due, under way and dead; putting dead letters back; ending deliveries.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Global;
use super::failure::Failure;
use super::output::{self, Format, Side};
use super::setup::{now_by, open_existing_store};
use crate::plain::one_line;
use crate::store::{DeliveryStatus, MessageRow, NoticeRow, OutboxRow, Store, SubscriberKey};
use crate::subscriber::{Standing, SubscriberName};

/// The longest answer in a table, in characters; JSON has all of it.
const MAX_ANSWER_CHARS: usize = 80;
/// The longest reason for dropping, in characters.
const MAX_REASON_CHARS: usize = 200;

#[derive(Subcommand)]
pub(super) enum OutboxCommand {
    /// List the messages that are under way, due or dead
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Put dead letters back: a running daemon attempts them within seconds, as if they were new
    #[command(after_help = RETRY_EXAMPLES)]
    Retry(RetryArgs),
    /// End due or dead deliveries: they are not attempted again, and the ledger says why
    #[command(after_help = DROP_EXAMPLES)]
    Drop(DropArgs),
}

const LIST_EXAMPLES: &str = "Examples:
  throttler outbox list
  throttler outbox list --status dead --subscriber anna
  throttler outbox list --status all --format json

Due messages stand in the order in which they leave: the largest magnitude first. A channel is the mail relay (email) or
one webhook host; a subscriber who is paused or disabled gets nothing until it is resumed. Notices to the operator come last, and
not with --subscriber.";

const RETRY_EXAMPLES: &str = "Examples:
  throttler outbox retry k3v9x1-4-17
  throttler outbox retry --all-dead
  throttler outbox retry --all-dead --subscriber anna

All of those named are put back or none. Their ids stay the same, so a receiver that has one already can drop it.";

const DROP_EXAMPLES: &str = "Examples:
  throttler outbox drop k3v9x1-4-17 --reason \"told by telephone\"

All of those named are dropped or none. What is under way cannot be: it may have arrived already.";

#[derive(Args)]
pub(super) struct ListArgs {
    /// leased (an attempt is under way), due, dead, delivered, dropped, or all; several with commas
    #[arg(long, value_name = "STATUS", value_delimiter = ',', default_value = "leased,due,dead")]
    status: Vec<String>,
    /// Only this subscriber's
    #[arg(long, value_name = "NAME")]
    subscriber: Option<SubscriberName>,
    /// The most that are listed of each status
    #[arg(long, value_name = "N", default_value_t = 200)]
    limit: u32,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Args)]
pub(super) struct RetryArgs {
    /// The ids of dead letters, as `outbox list` shows them
    #[arg(value_name = "ID", required_unless_present = "all_dead", conflicts_with = "all_dead")]
    ids: Vec<String>,
    /// All dead letters
    #[arg(long)]
    all_dead: bool,
    /// Of them, only this subscriber's
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    subscriber: Option<SubscriberName>,
}

#[derive(Args)]
pub(super) struct DropArgs {
    /// The ids of due or dead messages, as `outbox list` shows them
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) fn run(global: &Global, command: &OutboxCommand) -> Result<(), Failure> {
    match command {
        OutboxCommand::List(args) => list(&open_existing_store(global)?, args),
        OutboxCommand::Retry(args) => retry(&mut open_existing_store(global)?, args),
        OutboxCommand::Drop(args) => drop(&mut open_existing_store(global)?, args),
    }
}

fn list(store: &Store, args: &ListArgs) -> Result<(), Failure> {
    let statuses = statuses(&args.status)?;
    let key = key_of(store, args.subscriber.as_ref())?;
    let mut counts = Vec::new();
    let mut rows = Vec::new();
    let (mut notice_counts, mut notices) = (Vec::new(), Vec::new());
    for status in statuses {
        counts.push((status, store.count_outbox(status, key)?));
        rows.extend(store.outbox(status, key, args.limit as usize)?);
        if key.is_none() {
            notice_counts.push((status, store.count_notices(status)?));
            notices.extend(store.notices(status, args.limit as usize)?);
        }
    }
    if args.format == Format::Json {
        let by_status = |counts: &[(DeliveryStatus, u64)]| -> serde_json::Map<_, _> {
            counts.iter().map(|(status, count)| (status.name().to_owned(), json!(count))).collect()
        };
        return output::print_json(&json!({
            "backup_at": store.backup_at()?,
            "counts": by_status(&counts),
            "deliveries": rows.iter().map(as_json).collect::<Vec<_>>(),
            "notice_counts": by_status(&notice_counts),
            "notices": notices.iter().map(notice_as_json).collect::<Vec<_>>(),
        }));
    }
    let note = store.backup_at()?.map_or_else(String::new, |at| {
        format!(
            "This database is a backup made at {at}, and no daemon has run on it yet. What is due here may have been sent since: \
             `throttler outbox drop` ends what shall not be sent a second time.\n"
        )
    });
    output::print(&(note + &as_text(&counts, &rows) + &notices_as_text(&notice_counts, &notices)))
}

/// The statuses in the order in which they are shown, each once.
fn statuses(words: &[String]) -> Result<Vec<DeliveryStatus>, Failure> {
    let mut statuses = Vec::new();
    for word in words {
        match word.as_str() {
            "all" => statuses.extend(DeliveryStatus::ALL),
            word => statuses.push(word.parse().map_err(|fault: String| Failure::usage(format!("--status: {fault}, or all")))?),
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    Ok(statuses)
}

fn key_of(store: &Store, name: Option<&SubscriberName>) -> Result<Option<SubscriberKey>, Failure> {
    Ok(name.map(|name| store.subscriber(name)).transpose()?.map(|stored| stored.key))
}

fn as_json(row: &OutboxRow) -> Value {
    let of_its_own =
        json!({ "subscriber": row.subscriber, "standing": row.standing, "channel": row.channel, "magnitude": row.magnitude });
    message_as_json(&row.message, of_its_own)
}

fn notice_as_json(row: &NoticeRow) -> Value {
    message_as_json(&row.message, json!({ "way": row.way.name() }))
}

/// A message with what only its kind has.
fn message_as_json(row: &MessageRow, mut of_its_kind: Value) -> Value {
    let mut message = json!({
        "id": row.id,
        "status": row.status.name(),
        "title": row.title.as_ref().ok(),
        "attempts": row.attempts,
        "created_at": row.created_at,
        "due_at": row.due_at,
        "lease_until": row.lease_until,
        "retried_at": row.retried_at,
        "settled_at": row.settled_at,
        "last_answer": row.detail,
    });
    if let (Value::Object(message), Value::Object(of_its_kind)) = (&mut message, &mut of_its_kind) {
        message.append(of_its_kind);
    }
    message
}

/// How many there are of each status, of which so many are shown.
fn summary(counts: &[(DeliveryStatus, u64)], shown: usize) -> String {
    let total: u64 = counts.iter().map(|(_, count)| count).sum();
    let each: Vec<String> = counts.iter().map(|(status, count)| format!("{} {status}", output::count(*count))).collect();
    let part = if (shown as u64) < total { "; not all are shown, --limit shows more" } else { "" };
    format!("{}{part}\n", each.join(", "))
}

/// Notices to the operator, where there are any.
fn notices_as_text(counts: &[(DeliveryStatus, u64)], rows: &[NoticeRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        ("id", Side::Left),
        ("by", Side::Left),
        ("status", Side::Left),
        ("attempts", Side::Right),
        ("when", Side::Left),
        ("title", Side::Left),
        ("last answer", Side::Left),
    ];
    let lines = rows.iter().map(|row| {
        vec![
            row.message.id.clone(),
            row.way.to_string(),
            row.message.status.to_string(),
            row.message.attempts.to_string(),
            row.message.at().to_string(),
            one_line(row.message.title.as_deref().unwrap_or("?"), MAX_ANSWER_CHARS),
            one_line(row.message.detail.as_deref().unwrap_or("-"), MAX_ANSWER_CHARS),
        ]
    });
    format!("\nNotices to the operator: {}\n{}", summary(counts, rows.len()), output::table(&columns, lines))
}

fn as_text(counts: &[(DeliveryStatus, u64)], rows: &[OutboxRow]) -> String {
    let mut text = summary(counts, rows.len());
    if rows.is_empty() {
        return text;
    }
    let columns = [
        ("id", Side::Left),
        ("subscriber", Side::Left),
        ("status", Side::Left),
        ("M", Side::Right),
        ("attempts", Side::Right),
        ("when", Side::Left),
        ("channel", Side::Left),
        ("last answer", Side::Left),
    ];
    let lines = rows.iter().map(|row| {
        let standing = if row.standing == Standing::Active { String::new() } else { format!(" ({})", row.standing) };
        vec![
            row.message.id.clone(),
            format!("{}{standing}", row.subscriber),
            row.message.status.to_string(),
            row.magnitude.map_or_else(|| "?".into(), |m| m.to_string()),
            row.message.attempts.to_string(),
            row.message.at().to_string(),
            row.channel.to_string(),
            one_line(row.message.detail.as_deref().unwrap_or("-"), MAX_ANSWER_CHARS),
        ]
    });
    text.push('\n');
    text + &output::table(&columns, lines)
}

fn retry(store: &mut Store, args: &RetryArgs) -> Result<(), Failure> {
    let now = now_by(store)?;
    let retried = if args.all_dead {
        let key = key_of(store, args.subscriber.as_ref())?;
        store.retry_all_dead(key, now)?
    } else {
        store.retry_dead(&args.ids, now)?
    };
    let mut text = match retried.count {
        0 => "There are no dead letters.\n".to_owned(),
        1 => "1 dead letter is put back.\n".to_owned(),
        count => format!("{} dead letters are put back.\n", output::count(count)),
    };
    let waiting = retried
        .held_up
        .iter()
        .map(|(name, standing)| format!("Those of {name} wait, since it is {standing}: `throttler subscriber resume {name}`.\n"));
    text.extend(waiting);
    output::print(&text)
}

fn drop(store: &mut Store, args: &DropArgs) -> Result<(), Failure> {
    let reason = args.reason.as_deref().map(|reason| one_line(reason, MAX_REASON_CHARS)).filter(|reason| !reason.is_empty());
    let detail = reason.map_or_else(|| "dropped by hand".to_owned(), |reason| format!("dropped by hand: {reason}"));
    let now = now_by(store)?;
    store.drop_deliveries(&args.ids, &detail, now)?;
    let what = if args.ids.len() == 1 { "1 delivery is".to_owned() } else { format!("{} deliveries are", args.ids.len()) };
    output::print(&format!("{what} dropped.\n"))
}
