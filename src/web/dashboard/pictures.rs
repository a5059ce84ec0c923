//! The pictures of the dashboard: the scene of what the ledger says happened to one subscriber, and the map of the earthquakes.

use super::ask::Ask;
use super::read::Chosen;
use crate::limiter::{Algorithm, Policy};
use crate::plain::without_addresses;
use crate::plan::Outcome;
use crate::plot::{Fate, Left, Map, Recorded, Row, Scene, Spot};
use crate::store::{LedgerRow, MessageMoment, Quake};
use crate::time::Timestamp;
use crate::web::shell::Markup;

pub(super) fn scene(ask: &Ask, chosen: &Chosen) -> Markup {
    let row = row(ask, chosen);
    let scene = Scene { title: String::new(), subtitle: String::new(), from: ask.from, to: ask.to, rows: vec![row] };
    Markup::drawn(scene.to_figures())
}

fn row(ask: &Ask, chosen: &Chosen) -> Row {
    let subscriber = &chosen.stored.subscriber;
    let queues = subscriber.policy.limit.algorithm() == Algorithm::LeakyBucket;
    let mut left: Vec<Left> = Vec::new();
    let decisions = chosen.decision_before.iter().chain(&chosen.decisions);
    left.extend(decisions.filter_map(|row| left_after(row, &subscriber.policy)));
    let messages = chosen.message_before.iter().chain(&chosen.messages);
    left.extend(messages.filter_map(|message| left_with(message, &subscriber.policy)));
    left.sort_by_key(|left| left.at);
    let mut sent: Vec<Timestamp> =
        chosen.messages.iter().filter(|message| message.counts).map(|m| if queues { m.due_at } else { m.created_at }).collect();
    sent.sort_unstable();
    let recorded = chosen.decisions.iter().map(|row| recorded(row, queues)).collect();
    Row::recorded(subscriber, (ask.from, ask.to), recorded, &left, &sent)
}

/// What was left after a decision, with what is kept for larger events; unknown where all that is known is that no more than that was left.
fn left_after(row: &LedgerRow, policy: &Policy) -> Option<Left> {
    let tokens = with_kept(row.remaining?, policy.request(row.event.magnitude).keep)?;
    Some(Left { at: row.decided_at, tokens })
}

fn left_with(message: &MessageMoment, policy: &Policy) -> Option<Left> {
    Some(Left { at: message.created_at, tokens: with_kept(message.remaining, policy.request(None).keep)? })
}

fn with_kept(remaining: u64, keep: u32) -> Option<u64> {
    (remaining > 0 || keep == 0).then(|| remaining.saturating_add(keep.into()))
}

fn recorded(row: &LedgerRow, queues: bool) -> Recorded {
    let departs_at = if queues { row.due_at } else { row.told_at }.unwrap_or(row.decided_at);
    let fate = match row.outcome {
        Outcome::Alerted if departs_at > row.decided_at => Fate::Delayed,
        outcome => fate(outcome),
    };
    let delivery = match (row.delivery.as_deref(), &row.delivery_detail) {
        (Some(status @ ("dead" | "dropped")), Some(detail)) => format!("; {status}: {}", without_addresses(detail)),
        (Some(status), _) => format!("; {status}"),
        (None, _) => String::new(),
    };
    let why = format!("{}: {}{delivery}", row.outcome, row.reason);
    Recorded { event: row.event.clone(), decided_at: row.decided_at, fate, departs_at, why }
}

/// What waits is not told of yet.
fn fate(outcome: Outcome) -> Fate {
    match outcome {
        Outcome::Alerted => Fate::Alerted,
        Outcome::Digested => Fate::Digested,
        Outcome::Withheld | Outcome::Pending | Outcome::Waiting | Outcome::Held | Outcome::Undecided => Fate::Withheld,
    }
}

pub(super) fn map(quakes: &[Quake], about: String) -> Markup {
    let spot = |quake: &Quake| Spot {
        at: quake.event.origin_at,
        coordinates: quake.event.coordinates,
        magnitude: quake.event.magnitude,
        title: quake.event.title(),
        id: quake.event.id.to_string(),
        // Whether an alert had to wait is the scene's to tell.
        fate: quake.outcome.map(|outcome| if outcome == Outcome::Alerted { Fate::Passed } else { fate(outcome) }),
    };
    let map = Map { title: "Where they were".to_owned(), subtitle: about, spots: quakes.iter().map(spot).collect() };
    Markup::drawn(map.to_figures())
}
