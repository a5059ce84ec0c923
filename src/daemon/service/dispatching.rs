//! The second stage on its timer and nudges, and what it decided as the log has it.

use tokio::time::sleep;

use super::{Shared, StopSignal, StoreTrouble, until};
use crate::clock::Stopwatch;
use crate::daemon::pulse::Stage;
use crate::daemon::{Dispatched, dispatch};
use crate::plan::Release;

/// Under which target the stage logs what it did: that of its own room.
const LOG: &str = "throttler::daemon::dispatch";

pub async fn keep_dispatching(shared: &Shared, mut stop: StopSignal) {
    let mut trouble = StoreTrouble::new("decided");
    loop {
        shared.vitals.turn(Stage::Dispatch).await;
        let mut since_step = Stopwatch::start();
        let done = dispatch::all(&shared.database, &shared.clock, |dispatched| {
            shared.vitals.mark(Stage::Dispatch);
            shared.metrics.dispatched(dispatched, since_step.elapsed());
            log_dispatched(dispatched);
            shared.nudges.deliver.notify_one();
            since_step = Stopwatch::start();
        });
        // A step under way at a stop ends by itself: it is one transaction on a thread of its own.
        let done = tokio::select! {
            done = done => done,
            () = stop.stopped() => return,
        };
        let next = match done {
            Ok(()) => shared.database.with(|store| store.next_wake()).await,
            Err(fault) => Err(fault),
        };
        let pause = match next {
            Ok(next) => {
                trouble.is_over();
                until(next, shared.clock.now(), shared.idle)
            }
            Err(fault) => {
                trouble.is(&fault);
                shared.retry()
            }
        };
        shared.vitals.trouble(trouble.lasting());
        tokio::select! {
            () = sleep(pause.to_std()) => {}
            () = shared.nudges.dispatch.notified() => {}
            () = stop.stopped() => return,
        }
    }
}

fn log_dispatched(dispatched: &Dispatched) {
    match dispatched {
        Dispatched::Decided { event, chunk } => {
            for (subscriber, plan) in &chunk.decided {
                tracing::debug!(target: LOG, event = %event.id, subscriber, "{}: {}", plan.outcome, plan.reason);
            }
            for (subscriber, fault) in &chunk.undecided {
                tracing::error!(target: LOG, event = %event.id, subscriber, "nothing was decided: {fault}");
            }
            let alerted = chunk.decided.iter().filter(|(_, plan)| plan.message.is_some()).count();
            let withheld = chunk.decided.len() - alerted;
            tracing::info!(target: LOG, event = %event.id, alerted, withheld, "decided: {}", event.title());
        }
        Dispatched::Unconfirmed { event } => {
            tracing::warn!(target: LOG, event = %event.id, "not confirmed in time, so told unconfirmed: {}", event.title());
        }
        Dispatched::Asked { asked } => {
            for (subscriber, release) in asked {
                if let Release::Now { reason, .. } = release {
                    tracing::info!(target: LOG, subscriber, "{reason}");
                }
            }
        }
        Dispatched::Updated { event, chunk } => {
            for (subscriber, plan) in &chunk.decided {
                tracing::debug!(target: LOG, event = %event.id, subscriber, "update {}: {}", plan.outcome, plan.reason);
            }
            for (subscriber, fault) in &chunk.undecided {
                tracing::error!(target: LOG, event = %event.id, subscriber, "nothing was decided: {fault}");
            }
            if !chunk.decided.is_empty() {
                let sent = chunk.decided.iter().filter(|(_, plan)| plan.message.is_some()).count();
                let withheld = chunk.decided.len() - sent;
                let what = if event.is_withdrawn() { "withdrawn" } else { "updated" };
                tracing::info!(target: LOG, event = %event.id, sent, withheld, "{what}: {}", event.title());
            }
        }
        Dispatched::UpdatesAsked { asked } => {
            for (subscriber, plan) in asked {
                if let Some(plan) = plan.as_ref().filter(|plan| plan.message.is_some()) {
                    tracing::info!(target: LOG, subscriber, "an update that waited is told: {}", plan.reason);
                }
            }
        }
    }
}
