//! One attempt at a delivery, and what its outcome means for the row that it is of.

use super::channels::Told;
use super::{LOG, random};
use crate::backoff;
use crate::channel::Lane;
use crate::clock::{Clock, Stopwatch};
use crate::daemon::Contact;
use crate::daemon::metrics::Attempt;
use crate::delivery::{Delivery, Outcome, WebhookSecret};
use crate::notice::Way;
use crate::store::{Claimed, ClaimedNotice, Settlement};
use crate::time::{Span, Timestamp};

/// The first repeat comes within this, each further one within twice as much, up to [`RETRY_MAX`].
pub const RETRY_BASE: Span = Span::from_seconds(30);
/// The longest wait between two attempts that the receiver did not ask for.
pub const RETRY_MAX: Span = Span::from_seconds(3_600);
/// An alert that could not be delivered for this long is given up.
pub const MAX_AGE: Span = Span::from_seconds(86_400);

/// What one attempt leaves.
pub struct Attempted {
    pub delivery_key: i64,
    pub lane: Lane,
    /// Of a notice, by which way it went.
    pub way: Option<Way>,
    pub settlement: Settlement,
    pub told: Told,
    /// `None` if there was none in the end.
    pub measured: Option<Measured>,
}

/// How an attempt went.
pub struct Measured {
    pub attempt: Attempt,
    pub took: Span,
    /// From the first sight of its event to its receipt.
    pub latency: Option<Span>,
}

pub async fn attempt(delivery: &Delivery, clock: &dyn Clock, mut claimed: Claimed, is_limited: bool) -> Attempted {
    let (since_start, begun_at) = (Stopwatch::start(), clock.now());
    claimed.alert.unsubscribe_url = delivery.unsubscribe_url(claimed.enrolment);
    let secrets: Result<Vec<WebhookSecret>, _> = claimed.secret.iter().map(|secret| secret.parse()).collect();
    let (outcome, told) = match secrets {
        Ok(secrets) => {
            let outcome = delivery.deliver(&claimed.destination, &claimed.preset, &secrets, &claimed.alert, clock.now()).await;
            let told = told_by(&outcome);
            (outcome, told)
        }
        Err(fault) => {
            let reason = format!("the webhook's secret cannot be read: {fault}");
            (Outcome::Transient { reason, retry_after: None, host_failed: false }, Told::Nothing)
        }
    };
    log(&claimed, &outcome);
    let now = clock.now();
    let (attempt, latency) = match outcome {
        Outcome::Delivered { .. } => (Attempt::Delivered, claimed.first_seen_at.map(|seen_at| now.since(seen_at))),
        Outcome::Transient { .. } => (Attempt::Transient, None),
        Outcome::Permanent { .. } => (Attempt::Permanent, None),
    };
    let measured = Some(Measured { attempt, took: since_start.elapsed(), latency });
    // What it waited for a limit before the first attempt is not the destination's fault.
    let age_from = (is_limited && claimed.attempts == 0).then_some(begun_at);
    let settlement = settlement(outcome, claimed.attempts, (claimed.waits_since, age_from), now, random());
    Attempted { delivery_key: claimed.delivery_key, lane: claimed.lane, way: None, settlement, told, measured }
}

pub async fn attempt_notice(delivery: &Delivery, clock: &dyn Clock, claimed: ClaimedNotice, contact: Contact) -> Attempted {
    let (lane, Contact { way, destination, preset, secrets }) = (Lane::untagged(contact.channel()), contact);
    let outcome = delivery.deliver(&destination, &preset, &secrets, &claimed.alert, clock.now()).await;
    let told = told_by(&outcome);
    let notice = &claimed.alert.id;
    match &outcome {
        Outcome::Delivered { detail } => tracing::info!(target: LOG, notice, "delivered: {detail}"),
        Outcome::Transient { reason, .. } => tracing::warn!(target: LOG, notice, "not delivered yet: {reason}"),
        Outcome::Permanent { reason, .. } => tracing::error!(target: LOG, notice, "given up: {reason}"),
    }
    let settlement = settlement(outcome, claimed.attempts, (claimed.waits_since, None), clock.now(), random());
    Attempted { delivery_key: claimed.delivery_key, lane, way: Some(way), settlement, told, measured: None }
}

/// What the outcome of an attempt tells of its channel.
fn told_by(outcome: &Outcome) -> Told {
    match outcome {
        Outcome::Transient { host_failed: true, retry_after, .. } => Told::Failed { retry_after: *retry_after },
        _ => Told::Answered,
    }
}

/// What is left of a claim whose recipient is gone: settling drops it.
pub fn not_attempted(claimed: Claimed) -> Attempted {
    let Claimed { delivery_key, lane, .. } = claimed;
    Attempted { delivery_key, lane, way: None, settlement: Settlement::GivenBack, told: Told::Nothing, measured: None }
}

fn log(claimed: &Claimed, outcome: &Outcome) {
    let (alert, subscriber) = (&claimed.alert.id, &claimed.alert.subscriber);
    match outcome {
        Outcome::Delivered { detail } => tracing::info!(target: LOG, alert, subscriber, "delivered: {detail}"),
        Outcome::Transient { reason, .. } => tracing::warn!(target: LOG, alert, subscriber, "not delivered yet: {reason}"),
        Outcome::Permanent { reason, disable: false } => tracing::error!(target: LOG, alert, subscriber, "given up: {reason}"),
        Outcome::Permanent { reason, disable: true } => {
            tracing::error!(target: LOG, alert, subscriber, "given up, and the subscriber is disabled: {reason}");
        }
    }
}

/// What an attempt's outcome means for its row. `attempts` is how often it was attempted before; its age counts from
/// `waits_since` or, where that is given, from `age_from`.
fn settlement(
    outcome: Outcome,
    attempts: u32,
    (waits_since, age_from): (Timestamp, Option<Timestamp>),
    now: Timestamp,
    random: u64,
) -> Settlement {
    match outcome {
        Outcome::Delivered { detail } => Settlement::Delivered { detail },
        Outcome::Permanent { reason, disable } => Settlement::Dead { reason, disable },
        Outcome::Transient { reason, retry_after, .. } => {
            let failures = attempts.saturating_add(1);
            let wait = backoff::at_least(backoff::delay(failures, RETRY_BASE, RETRY_MAX, random), retry_after);
            let at = now.plus(wait);
            if at.since(age_from.unwrap_or(waits_since)) > MAX_AGE {
                Settlement::Dead { reason: format!("given up after {failures} attempts in {MAX_AGE}: {reason}"), disable: false }
            } else {
                Settlement::Retry { at, reason, age_from }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_delivery_is_repeated_later_and_later_and_then_given_up() {
        let created = Timestamp::from_millis(0).expect("the epoch");
        let failing = |failures, now: u64, retry_after| {
            let outcome = Outcome::Transient { reason: "busy".into(), retry_after, host_failed: false };
            settlement(outcome, failures, (created, None), created.plus(Span::from_seconds(now)), u64::MAX)
        };
        let at = |seconds| created.plus(Span::from_seconds(seconds));
        let Settlement::Retry { at: first, .. } = failing(0, 0, None) else { panic!("the first failure is repeated") };
        assert_eq!(first, at(30), "the longest wait that chance allows after the first failure");
        let Settlement::Retry { at: tenth, .. } = failing(10, 0, None) else { panic!("the tenth failure is repeated") };
        assert!(tenth > at(30) && tenth <= at(3_600), "{tenth}");
        let Settlement::Retry { at: asked, .. } = failing(0, 0, Some(Span::from_seconds(7_200))) else {
            panic!("it is repeated")
        };
        assert!(asked >= at(7_200), "what the receiver asks for is honoured: {asked}");
        assert!(matches!(failing(40, 86_400, None), Settlement::Dead { disable: false, .. }));
    }
}
