//! Deliver: from the outbox to the destinations, and back to a receipt in the row.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::Database;
use crate::backoff;
use crate::clock::Clock;
use crate::delivery::{Delivery, Outcome, WebhookSecret};
use crate::store::{Claimed, Settlement, StoreError};
use crate::time::{Span, Timestamp};

/// Attempts under way at once.
pub const MAX_IN_FLIGHT: usize = 64;
/// How long an attempt is nobody else's: well above what its timeouts allow.
pub const LEASE: Span = Span::from_seconds(300);
/// The first repeat comes within this, each further one within twice as much, up to [`RETRY_MAX`].
pub const RETRY_BASE: Span = Span::from_seconds(30);
/// The longest wait between two attempts that the receiver did not ask for.
pub const RETRY_MAX: Span = Span::from_seconds(3_600);
/// An alert that could not be delivered for this long is given up.
pub const MAX_AGE: Span = Span::from_seconds(86_400);

/// Claims, attempts and settles deliveries.
pub struct Deliverer {
    database: Database,
    delivery: Arc<Delivery>,
    clock: Arc<dyn Clock>,
    owner: String,
    attempts: JoinSet<(i64, Settlement)>,
}

impl Deliverer {
    /// A deliverer without attempts under way.
    #[must_use]
    pub fn new(database: Database, delivery: Arc<Delivery>, clock: Arc<dyn Clock>) -> Deliverer {
        Deliverer { database, delivery, clock, owner: format!("process {}", std::process::id()), attempts: JoinSet::new() }
    }

    /// Starts attempts at what is due, as far as there is room.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is started then.
    pub async fn start(&mut self) -> Result<(), StoreError> {
        let room = MAX_IN_FLIGHT.saturating_sub(self.attempts.len());
        if room == 0 {
            return Ok(());
        }
        let (owner, now) = (self.owner.clone(), self.clock.now());
        for claimed in self.database.with(move |store| store.claim(&owner, room, LEASE, now)).await? {
            let (delivery, clock) = (Arc::clone(&self.delivery), Arc::clone(&self.clock));
            self.attempts.spawn(async move { attempt(&delivery, &*clock, claimed).await });
        }
        Ok(())
    }

    /// Waits until an attempt ends and settles all that have; at once if none is under way. May be dropped while waiting.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be written; the leases then run out and the attempts are repeated.
    pub async fn settle(&mut self) -> Result<(), StoreError> {
        let Some(first) = self.attempts.join_next().await else { return Ok(()) };
        let mut ended = vec![first];
        while let Some(next) = self.attempts.try_join_next() {
            ended.push(next);
        }
        let settled: Vec<_> = ended
            .into_iter()
            .filter_map(|attempt| attempt.inspect_err(|fault| tracing::error!("an attempt at delivery broke: {fault}")).ok())
            .collect();
        let (owner, now) = (self.owner.clone(), self.clock.now());
        self.database.with(move |store| store.settle(&owner, &settled, now)).await
    }

    /// Attempts everything that is due, until nothing is.
    ///
    /// # Errors
    /// As [`Deliverer::start`] and [`Deliverer::settle`].
    pub async fn all(&mut self) -> Result<(), StoreError> {
        loop {
            self.start().await?;
            if self.attempts.is_empty() {
                return Ok(());
            }
            self.settle().await?;
        }
    }

    /// Waits for the attempts under way, without starting others.
    ///
    /// # Errors
    /// As [`Deliverer::settle`].
    pub async fn finish(&mut self) -> Result<(), StoreError> {
        while !self.attempts.is_empty() {
            self.settle().await?;
        }
        Ok(())
    }

    /// Whether there is no room for another attempt.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.attempts.len() >= MAX_IN_FLIGHT
    }

    /// Whether attempts are under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.attempts.is_empty()
    }
}

async fn attempt(delivery: &Delivery, clock: &dyn Clock, claimed: Claimed) -> (i64, Settlement) {
    let secrets: Result<Vec<WebhookSecret>, _> = claimed.secret.iter().map(|secret| secret.parse()).collect();
    let outcome = match secrets {
        Ok(secrets) => delivery.deliver(&claimed.destination, &claimed.preset, &secrets, &claimed.alert, clock.now()).await,
        Err(fault) => Outcome::Transient { reason: format!("the webhook's secret cannot be read: {fault}"), retry_after: None },
    };
    log(&claimed, &outcome);
    // Without randomness the repeats are merely less spread out.
    let random = getrandom::u64().unwrap_or(u64::MAX);
    (claimed.delivery_key, settlement(outcome, claimed.attempts, claimed.created_at, clock.now(), random))
}

fn log(claimed: &Claimed, outcome: &Outcome) {
    let (alert, subscriber) = (&claimed.alert.id, &claimed.alert.subscriber);
    match outcome {
        Outcome::Delivered { detail } => tracing::info!(alert, subscriber, "delivered: {detail}"),
        Outcome::Transient { reason, .. } => tracing::warn!(alert, subscriber, "not delivered yet: {reason}"),
        Outcome::Permanent { reason, disable: false } => tracing::error!(alert, subscriber, "given up: {reason}"),
        Outcome::Permanent { reason, disable: true } => {
            tracing::error!(alert, subscriber, "given up, and the subscriber is disabled: {reason}");
        }
    }
}

/// What an attempt's outcome means for its row. `attempts` is how often it was attempted before.
fn settlement(outcome: Outcome, attempts: u32, created_at: Timestamp, now: Timestamp, random: u64) -> Settlement {
    match outcome {
        Outcome::Delivered { detail } => Settlement::Delivered { detail },
        Outcome::Permanent { reason, disable } => Settlement::Dead { reason, disable },
        Outcome::Transient { reason, retry_after } => {
            let failures = attempts.saturating_add(1);
            let wait = backoff::at_least(backoff::delay(failures, RETRY_BASE, RETRY_MAX, random), retry_after);
            let at = now.plus(wait);
            if at.since(created_at) > MAX_AGE {
                Settlement::Dead { reason: format!("given up after {failures} attempts in {MAX_AGE}: {reason}"), disable: false }
            } else {
                Settlement::Retry { at, reason }
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
            let outcome = Outcome::Transient { reason: "busy".into(), retry_after };
            settlement(outcome, failures, created, created.plus(Span::from_seconds(now)), u64::MAX)
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
