//! `subscriber list` and `subscriber show`: settings, the promise, and what the limiter allows now.

use serde_json::{Value, json};

use crate::cli::failure::Failure;
use crate::cli::output::{self, Format, Side};
use crate::cli::setup::now_by;
use crate::limiter::Outlook;
use crate::plan::{Outcome, UpdateOutcome};
use crate::quiet::QuietHours;
use crate::store::{Store, StoredSubscriber, SubscriberCounts};
use crate::subscriber::{Destination, Subscriber, SubscriberName, Updates};
use crate::time::Timestamp;

pub(super) fn list(store: &Store, format: Format) -> Result<(), Failure> {
    let subscribers = store.subscribers()?;
    if format == Format::Json {
        return output::print_json(&json!({ "subscribers": subscribers.iter().map(settings).collect::<Vec<_>>() }));
    }
    let mut text = match subscribers.len() {
        0 => "No subscribers yet; `throttler subscriber add` makes one.\n".to_owned(),
        1 => "1 subscriber\n".to_owned(),
        n => format!("{} subscribers\n", output::count(n as u64)),
    };
    if !subscribers.is_empty() {
        let columns = [
            ("name", Side::Left),
            ("standing", Side::Left),
            ("limiter", Side::Left),
            ("rate", Side::Right),
            ("bucket", Side::Right),
            ("interest", Side::Left),
            ("to", Side::Left),
        ];
        let rows = subscribers.iter().map(|stored| {
            let limit = stored.subscriber.policy.limit;
            vec![
                stored.subscriber.name.to_string(),
                stored.standing.to_string(),
                limit.algorithm().to_string(),
                limit.rate().to_string(),
                limit.bucket().map_or_else(|| "-".into(), |bucket| bucket.to_string()),
                stored.subscriber.interest.to_string(),
                destination(&stored.subscriber),
            ]
        });
        text = format!("{text}\n{}", output::table(&columns, rows));
    }
    output::print(&text)
}

pub(super) fn one(store: &Store, name: &SubscriberName, with_secret: bool, format: Format) -> Result<(), Failure> {
    let stored = store.subscriber(name)?;
    let (counts, reaches) = (store.counts(stored.key)?, store.ledger_from()?);
    let now = now_by(store)?;
    let outlook = stored.limiter_at(now).map(|limiter| limiter.outlook(now, stored.subscriber.policy.request(None)));
    let secret = if with_secret { store.secret(name)? } else { None };
    match format {
        Format::Json => {
            let mut value = as_json(&stored, &outlook, &counts, secret.as_deref(), now);
            value["ledger_from"] = json!(reaches);
            output::print_json(&value)
        }
        Format::Text => {
            let mut text = as_text(&stored, &outlook, &counts, secret.as_deref(), now);
            // Of a subscriber that came later everything is there.
            if let Some(reaches) = reaches.filter(|reaches| *reaches > stored.created_at) {
                text = format!("{text}\nDecisions and messages since {reaches}: so far the ledger reaches back.\n");
            }
            output::print(&text)
        }
    }
}

/// Where its messages go, and in which form if there are several.
fn destination(subscriber: &Subscriber) -> String {
    match &subscriber.destination {
        Destination::Webhook(url) if !subscriber.preset.is_standard() => format!("{url} ({})", subscriber.preset),
        other => other.to_string(),
    }
}

/// What both `list` and `show` say of a subscriber in JSON: its settings, its standing, its promise.
fn settings(stored: &StoredSubscriber) -> Value {
    // A subscriber is made of texts and numbers, which always become JSON.
    let mut value = serde_json::to_value(&stored.subscriber).unwrap_or(Value::Null);
    let promise = stored.subscriber.policy.promise();
    if matches!(stored.subscriber.destination, Destination::Webhook(_)) {
        value["preset"] = json!(stored.subscriber.preset);
    }
    value["standing"] = json!(stored.standing);
    value["standing_reason"] = json!(stored.standing_reason);
    if let Some(at) = stored.unsubscribed_at {
        value["unsubscribed_at"] = json!(at);
    }
    value["created_at"] = json!(stored.created_at);
    value["promise"] = json!(promise.to_string());
    value["most_in_any_window"] = json!(promise.most_in_any_window);
    value
}

fn as_json(
    stored: &StoredSubscriber,
    outlook: &Result<Outlook, String>,
    counts: &SubscriberCounts,
    secret: Option<&str>,
    now: Timestamp,
) -> Value {
    let mut value = settings(stored);
    value["quiet_until"] = json!(stored.subscriber.quiet.as_ref().and_then(|quiet| quiet.until(now)));
    match outlook {
        Ok(outlook) => {
            value["remaining"] = json!(outlook.remaining);
            value["retry_at"] = json!(outlook.retry_at);
            value["reset_at"] = json!(outlook.reset_at);
        }
        Err(fault) => value["limiter_fault"] = json!(fault),
    }
    let decisions: serde_json::Map<_, _> =
        Outcome::ALL.iter().zip(counts.outcomes).map(|(outcome, count)| (outcome.name().to_owned(), json!(count))).collect();
    value["decisions"] = decisions.into();
    // What it wants is among the settings, as `updates`.
    let told: serde_json::Map<_, _> =
        UpdateOutcome::ALL.iter().zip(counts.updates).map(|(outcome, count)| (outcome.name().to_owned(), json!(count))).collect();
    value["updates_told"] = told.into();
    value["messages"] = json!({ "delivered": counts.delivered, "due": counts.due, "dead": counts.dead });
    if let Some(secret) = secret {
        value["secret"] = json!(secret);
    }
    value
}

fn as_text(
    stored: &StoredSubscriber,
    outlook: &Result<Outlook, String>,
    counts: &SubscriberCounts,
    secret: Option<&str>,
    now: Timestamp,
) -> String {
    let subscriber = &stored.subscriber;
    let (policy, limit) = (&subscriber.policy, subscriber.policy.limit);
    let promise = policy.promise();
    let mut lines = vec![
        (
            "standing",
            match &stored.standing_reason {
                Some(reason) => format!("{}: {reason}", stored.standing),
                None => stored.standing.to_string(),
            },
        ),
        ("to", destination(subscriber)),
        ("interest", subscriber.interest.to_string()),
        (
            "limiter",
            match limit.bucket() {
                Some(bucket) => format!("{} {}, bucket {bucket}", limit.algorithm(), limit.rate()),
                None => format!("{} {}", limit.algorithm(), limit.rate()),
            },
        ),
        ("promise", promise.to_string()),
        ("number", format!("{} at most in any stretch of {}", output::count(promise.most_in_any_window), limit.rate().window())),
        ("excess", format!("{}, mode {}", subscriber.excess, subscriber.mode)),
        ("updates", updates_line(subscriber.updates, counts)),
        ("now", now_line(outlook, now)),
        ("decisions", counted(Outcome::ALL.iter().map(Outcome::to_string).zip(counts.outcomes))),
        (
            "messages",
            counted(
                [("delivered", counts.delivered), ("due", counts.due), ("dead", counts.dead)].map(|(w, n)| (w.to_owned(), n)),
            ),
        ),
        ("since", stored.created_at.to_string()),
    ];
    if let Some(quiet) = &subscriber.quiet {
        // Beside the other rules, before what there is of it now.
        lines.insert(7, ("quiet", quiet_line(quiet, now)));
    }
    if !subscriber.tags.is_empty() {
        lines.insert(2, ("tags", subscriber.tags.to_string()));
    }
    lines.extend(secret.map(|secret| ("secret", secret.to_owned())));
    format!("{}: {promise}\n\n{}", subscriber.name, output::pairs(&lines))
}

fn quiet_line(quiet: &QuietHours, now: Timestamp) -> String {
    let until = |until| format!("{quiet}; now, until {} ({until})", quiet.zone.clock_at(until));
    quiet.until(now).map_or_else(|| quiet.to_string(), until)
}

/// Which it wants, and what became of those that there were.
fn updates_line(wanted: Updates, counts: &SubscriberCounts) -> String {
    if counts.updates.iter().all(|count| *count == 0) {
        return wanted.to_string();
    }
    format!("{wanted}: {}", counted(UpdateOutcome::ALL.iter().map(UpdateOutcome::to_string).zip(counts.updates)))
}

fn now_line(outlook: &Result<Outlook, String>, now: Timestamp) -> String {
    match outlook {
        Err(fault) => format!("nothing can be decided: {fault}"),
        Ok(Outlook { remaining: 0, retry_at: Some(at), .. }) => format!("none may come before {at}"),
        Ok(Outlook { remaining, reset_at, .. }) if *reset_at > now => {
            format!("{} more may come, back to full at {reset_at}", output::count(*remaining))
        }
        Ok(Outlook { remaining, .. }) => format!("{} may come", output::count(*remaining)),
    }
}

/// What there is any of: `189 alerted, 3 pending`.
fn counted(counts: impl IntoIterator<Item = (String, u64)>) -> String {
    let some: Vec<_> =
        counts.into_iter().filter(|(_, count)| *count > 0).map(|(word, n)| format!("{} {word}", output::count(n))).collect();
    if some.is_empty() { "none yet".to_owned() } else { some.join(", ") }
}
