//! What the demonstration prints: a line for each decision as it happens, and what came of it in the end.

use std::collections::BTreeSet;

use serde_json::json;

use super::course::Course;
use crate::cli::output::{self, Side};
use crate::daemon::Dispatched;
use crate::plan::{Outcome, Plan, Release};
use crate::replay::busiest_window;
use crate::store::{LedgerRow, StoredSubscriber};
use crate::subscriber::Subscriber;
use crate::time::Timestamp;

/// Above the lines: who the subscribers are, and what the columns mean.
pub(super) fn heading(subscribers: &[Subscriber]) -> String {
    let rows: Vec<_> = subscribers
        .iter()
        .map(|subscriber| {
            let limit = subscriber.policy.limit;
            let bucket = limit.bucket().map_or_else(String::new, |bucket| format!(", bucket {bucket}"));
            let kind = match subscriber.destination {
                crate::subscriber::Destination::Email(_) => "email",
                crate::subscriber::Destination::Webhook(_) => "webhook",
            };
            let always = subscriber.policy.always_from.map_or_else(String::new, |m| format!(", always from M {m}"));
            let what = format!("{kind}, {} {}{bucket}{always}, excess: {}", limit.algorithm(), limit.rate(), subscriber.excess);
            (subscriber.name.to_string(), what)
        })
        .collect();
    format!("Three subscribers to earthquakes of M 5.0 or more:\n{}\n", output::pairs(&rows))
}

/// One step of dispatch in lines; nothing for a limiter that only was asked too early.
pub(super) fn lines(now: Timestamp, dispatched: &Dispatched) -> Vec<String> {
    let at = &now.to_string()[..19];
    match dispatched {
        Dispatched::Decided { event, chunk } => {
            let magnitude = event.magnitude.map_or_else(|| "?".to_owned(), |m| m.to_string());
            let place: String = event.place.chars().take(44).collect();
            let decided: Vec<_> = chunk.decided.iter().map(|(name, plan)| format!("{name} {:<9}", word(now, plan))).collect();
            vec![format!("{at}  M {magnitude:<4}  {place:<44}  {}\n", decided.join("  ").trim_end())]
        }
        Dispatched::Asked { asked } => {
            let told = asked.iter().filter_map(|(name, release)| match release {
                Release::Now { reason, .. } => Some((name, reason)),
                Release::Later(_) | Release::Never => None,
            });
            told.map(|(name, reason)| format!("{at}  {:<6}  {:<44}  {name} {reason}\n", "", "the limit allows a message again"))
                .collect()
        }
        // The catalogue of the demo tells of every quake once, as it was in the end.
        Dispatched::Unconfirmed { .. } | Dispatched::Updated { .. } | Dispatched::UpdatesAsked { .. } => Vec::new(),
    }
}

fn word(now: Timestamp, plan: &Plan) -> &'static str {
    match (&plan.message, plan.answer.refused()) {
        (Some(_), true) => "always",
        (Some(message), false) if message.due_at > now => "queued",
        (Some(_), false) => "sent",
        (None, _) => "withheld",
    }
}

/// What one subscriber got.
struct Sum<'c> {
    stored: &'c StoredSubscriber,
    matched: u64,
    /// Events told one by one, and in how many digests how many others.
    alerts: u64,
    digests: u64,
    digested: u64,
    /// Events that only the ledger tells of.
    withheld: u64,
    largest_withheld: Option<&'c LedgerRow>,
    /// The most messages in any half-open hour of delivery.
    busiest: u64,
    undelivered: u64,
}

impl<'c> Sum<'c> {
    fn of(stored: &'c StoredSubscriber, rows: &'c [LedgerRow]) -> Sum<'c> {
        let count = |outcome: Outcome| rows.iter().filter(|row| row.outcome == outcome).count() as u64;
        let messages: BTreeSet<_> = rows.iter().filter_map(|row| Some((row.settled_at?, row.alert_id.as_deref()?))).collect();
        let digests: BTreeSet<_> =
            rows.iter().filter(|row| row.outcome == Outcome::Digested).filter_map(|row| row.alert_id.as_deref()).collect();
        let sent_at: Vec<i128> = messages.iter().map(|(at, _)| at.ticks().into()).collect();
        let window = stored.subscriber.policy.limit.rate().window().ticks().into();
        let not_alone = rows.iter().filter(|row| row.outcome != Outcome::Alerted);
        Sum {
            stored,
            matched: rows.len() as u64,
            alerts: count(Outcome::Alerted),
            digests: digests.len() as u64,
            digested: count(Outcome::Digested),
            withheld: count(Outcome::Withheld) + count(Outcome::Pending) + count(Outcome::Waiting) + count(Outcome::Held),
            largest_withheld: not_alone.min_by_key(|row| (std::cmp::Reverse(row.event.magnitude), row.decided_at)),
            busiest: busiest_window(&sent_at, window),
            undelivered: rows.iter().filter(|row| row.alert_id.is_some() && row.delivery.as_deref() != Some("delivered")).count()
                as u64,
        }
    }
}

pub(super) fn as_text(course: &Course) -> String {
    let sums: Vec<_> = course.subscribers.iter().map(|(stored, rows)| Sum::of(stored, rows)).collect();
    let columns = [
        ("subscriber", Side::Left),
        ("limiter", Side::Left),
        ("matched", Side::Right),
        ("alerts", Side::Right),
        ("digests", Side::Right),
        ("told there", Side::Right),
        ("withheld", Side::Right),
        ("busiest hour", Side::Right),
        ("largest not sent at once", Side::Left),
    ];
    let rows = sums.iter().map(|sum| {
        let largest = sum.largest_withheld.map_or_else(|| "-".to_owned(), |row| row.event.title());
        let numbers = [sum.matched, sum.alerts, sum.digests, sum.digested, sum.withheld, sum.busiest].map(output::count);
        let names = [sum.stored.subscriber.name.to_string(), sum.stored.subscriber.policy.limit.algorithm().to_string()];
        names.into_iter().chain(numbers).chain([largest]).collect()
    });
    let table = output::table(&columns, rows);
    let promises: Vec<_> = sums
        .iter()
        .map(|sum| (sum.stored.subscriber.name.to_string(), sum.stored.subscriber.policy.promise().to_string()))
        .collect();
    let (first, last) = course.ends.unwrap_or((Timestamp::MIN, Timestamp::MIN));
    format!(
        "\n{} events from {first} to {last}, decided and delivered in {}.\n\n{table}\nWhat was promised:\n{}\n{}\nWhere everything lies:\n{}",
        output::count(course.events as u64),
        output::duration(course.took),
        output::pairs(&promises),
        accounts(course, &sums),
        output::pairs(&places(course)),
    )
}

/// That what was decided is what arrived.
fn accounts(course: &Course, sums: &[Sum<'_>]) -> String {
    let messages = |webhook: bool| -> u64 {
        let to =
            |sum: &&Sum<'_>| matches!(sum.stored.subscriber.destination, crate::subscriber::Destination::Webhook(_)) == webhook;
        sums.iter().filter(to).map(|sum| sum.alerts + sum.digests).sum()
    };
    let undelivered: u64 = sums.iter().map(|sum| sum.undelivered).sum();
    format!(
        "Arrived: {} of {} emails, {} of {} webhooks (signatures checked, {} bad); {undelivered} events wait in the outbox.\n",
        course.mails,
        messages(false),
        course.received.good,
        messages(true),
        course.received.bad,
    )
}

fn places(course: &Course) -> Vec<(&'static str, String)> {
    let within = |name: &str| course.directory.join(name).display().to_string();
    vec![
        ("email", within("mail")),
        ("webhooks", within("webhooks")),
        ("database", within("throttler.db")),
        ("every decision", format!("throttler ledger --database {}", within("throttler.db"))),
    ]
}

pub(super) fn as_json(course: &Course) -> serde_json::Value {
    let subscriber = |(stored, rows): &(StoredSubscriber, Vec<LedgerRow>)| {
        let sum = Sum::of(stored, rows);
        json!({
            "subscriber": stored.subscriber.name,
            "limiter": stored.subscriber.policy.limit.algorithm(),
            "bucket": stored.subscriber.policy.limit.bucket(),
            "matched": sum.matched,
            "alerts": sum.alerts,
            "digests": sum.digests,
            "digested": sum.digested,
            "withheld": sum.withheld,
            "busiest_window": sum.busiest,
            "promise": stored.subscriber.policy.promise().to_string(),
            "largest_withheld": sum.largest_withheld.map(|row| output::event_in_short(&row.event)),
        })
    };
    json!({
        "events": course.events,
        "first": course.ends.map(|(first, _)| first),
        "last": course.ends.map(|(_, last)| last),
        "results": course.subscribers.iter().map(subscriber).collect::<Vec<_>>(),
        "emails": course.mails,
        "webhooks": course.received.good,
        "directory": course.directory,
    })
}
