//! An exercise: one message through the real channels, now, outside limiter, ledger and outbox. `subscriber test` sends one to a
//! subscriber, `config check --notify` to the operator.

use super::failure::{Blame, Blamed, Failure};
use crate::alert::Alert;
use crate::delivery::{Delivery, Outcome, WebhookSecret};
use crate::subscriber::{Destination, Preset};

/// Where it goes, and in which form.
pub(super) struct Way<'a> {
    pub destination: &'a Destination,
    pub preset: &'a Preset,
    pub secrets: &'a [WebhookSecret],
}

/// Attempts it once by each of these ways: what became of it, way after way.
pub(super) fn send(delivery: &Delivery, ways: &[Way<'_>], alert: &Alert) -> Result<Vec<Outcome>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(async {
        let mut outcomes = Vec::new();
        for Way { destination, preset, secrets } in ways {
            outcomes.push(delivery.deliver(destination, preset, secrets, alert, alert.created_at).await);
        }
        delivery.close().await;
        outcomes
    }))
}

/// The outcome's word in JSON, and what was answered.
pub(super) fn told(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Delivered { detail } => ("delivered", detail),
        Outcome::Transient { reason, .. } => ("transient", reason),
        Outcome::Permanent { reason, .. } => ("permanent", reason),
    }
}

/// A failure if the exercise did not reach `whom`, with what the daemon would do about a message of its own.
pub(super) fn check(whom: &str, message: &str, outcome: &Outcome) -> Result<(), Failure> {
    let outlook = match outcome {
        Outcome::Delivered { .. } => return Ok(()),
        Outcome::Transient { .. } => "tried again",
        Outcome::Permanent { .. } => "given up",
    };
    let (_, detail) = told(outcome);
    Err(anyhow::anyhow!("the exercise did not reach {whom} ({message} would be {outlook}): {detail}")).blame(Blame::Running)
}
