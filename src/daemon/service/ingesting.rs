//! The first stage on its timer: polls, what they brought, and how long to wait for the next.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::{STORE_RETRY, Shared, StopSignal, StoreTrouble};
use crate::backoff;
use crate::clock::{Clock, Stopwatch};
use crate::daemon::metrics::Polled;
use crate::daemon::pulse::{MAX_POLL, Stage};
use crate::daemon::settings::{Change, Polling, Watching};
use crate::daemon::{DaemonError, Database, Ingester, with_causes};
use crate::freshness::Freshness;
use crate::store::Ingested;
use crate::time::Span;

/// The longest pause between polls that fail.
const POLL_RETRY_MAX: Span = Span::from_seconds(1_800);
/// Under which target the stage logs what it did: that of its own room.
const LOG: &str = "throttler::daemon::ingest";

/// Tells of a feed that goes stale, and of its recovery, once each.
struct Watch {
    watching: watch::Sender<Watching>,
    freshness: Freshness,
}

impl Watch {
    async fn look(&mut self, ingester: &Ingester) {
        // A database that fails is told of by whoever needs it.
        let Ok(state) = ingester.state().await else { return };
        let (since, stale_after) = {
            let watching = self.watching.borrow();
            (watching.since, watching.stale_after)
        };
        let found = state.freshness(since, stale_after, ingester.clock.now());
        match (self.freshness, found) {
            (Freshness::Fresh, Freshness::Stale { .. }) => tracing::warn!(target: LOG, "{found}"),
            (Freshness::Stale { since, .. }, Freshness::Fresh) => {
                tracing::info!(target: LOG, "{found} again, for the first time since {since}");
            }
            _ => {}
        }
        self.freshness = found;
    }
}

/// The first stage, and when it polls.
pub struct Ingesting {
    pub ingester: Ingester,
    pub poll: Span,
    watch: Watch,
    /// Polls in a row that failed.
    failures: u32,
    trouble: StoreTrouble,
}

impl Ingesting {
    pub fn new(polling: Polling, database: Database, clock: Arc<dyn Clock>, watching: watch::Sender<Watching>) -> Ingesting {
        let Polling { feed, rules, gaps, vanished, poll, .. } = polling;
        Ingesting {
            ingester: Ingester { feed, rules, database, clock, gaps, vanished },
            poll,
            watch: Watch { watching, freshness: Freshness::Fresh },
            failures: 0,
            trouble: StoreTrouble::new("recorded"),
        }
    }

    /// Takes over other settings: how much of a pause is left under them. Another feed is polled at once.
    fn take_over(&mut self, polling: Polling, left: Span) -> Span {
        self.poll = polling.poll;
        let watched = polling.watched_since(self.ingester.clock.now());
        let is_other = self.ingester.take_over(polling);
        self.watch.watching.send_modify(|watching| {
            let since = if is_other { watched.since } else { watching.since };
            *watching = Watching { since, ..watched };
        });
        if is_other {
            (self.failures, self.watch.freshness) = (0, Freshness::Fresh);
            return Span::ZERO;
        }
        left.min(self.poll)
    }

    /// What a poll brought, told and counted: how long to wait for the next.
    fn pause_after(&mut self, polled: Result<Option<Ingested>, DaemonError>, took: Span, shared: &Shared) -> Span {
        match polled {
            Ok(brought) => {
                self.failures = 0;
                self.trouble.is_over();
                shared.metrics.polled(if brought.is_some() { Polled::Fresh } else { Polled::Unchanged }, took);
                if let Some(brought) = &brought {
                    shared.metrics.ingested(brought);
                }
                log_ingested(brought);
                shared.nudges.dispatch.notify_one();
                self.poll
            }
            Err(DaemonError::PollsElsewhere) => {
                self.failures = 0;
                self.trouble.is_over();
                tracing::debug!(target: LOG, "another daemon polls");
                self.poll
            }
            // The feed is not to blame, and shows the same again.
            Err(DaemonError::Store(fault)) => {
                shared.metrics.polled(Polled::Unrecorded, took);
                self.trouble.is(&fault);
                STORE_RETRY.min(self.poll)
            }
            Err(fault) => {
                shared.metrics.polled(Polled::Failed, took);
                let random = getrandom::u64().unwrap_or(u64::MAX);
                let retry_after = if let DaemonError::Feed(fault) = &fault { fault.retry_after() } else { None };
                self.failures += 1;
                let delay = backoff::delay(self.failures, self.poll, POLL_RETRY_MAX, random);
                let pause = backoff::at_least(self.poll.max(delay), retry_after);
                let shown = Span::from_millis(pause.ticks().div_ceil(1_000));
                tracing::error!(target: LOG, "{}; the next poll comes in {} s", with_causes(&fault), shown.as_seconds());
                pause
            }
        }
    }
}

pub async fn keep_ingesting(
    shared: &Shared,
    mut ingesting: Ingesting,
    mut changes: mpsc::Receiver<Change<Polling>>,
    mut stop: StopSignal,
) {
    loop {
        shared.vitals.turn(Stage::Ingest).await;
        let since_start = Stopwatch::start();
        let polled = tokio::select! {
            polled = timeout(MAX_POLL.to_std(), ingesting.ingester.poll()) => polled.unwrap_or(Err(DaemonError::Slow(MAX_POLL))),
            () = stop.stopped() => return,
        };
        let mut left = ingesting.pause_after(polled, since_start.elapsed(), shared);
        shared.vitals.trouble(ingesting.trouble.lasting());
        ingesting.watch.look(&ingesting.ingester).await;
        shared.nudges.notify.notify_one();
        while left > Span::ZERO {
            shared.vitals.turn(Stage::Ingest).await;
            let slice = left.min(shared.idle);
            tokio::select! {
                () = sleep(slice.to_std()) => left = Span::from_ticks(left.ticks() - slice.ticks()),
                Some((polling, taken)) = changes.recv() => {
                    left = ingesting.take_over(polling, left);
                    // Whoever handed it over stops if nobody waits any more.
                    let _ = taken.send(());
                }
                () = stop.stopped() => return,
            }
        }
    }
}

fn log_ingested(ingested: Option<Ingested>) {
    match ingested {
        None => tracing::debug!(target: LOG, "the feed has not changed"),
        Some(Ingested { new: 0, revised: 0, merged: 0, withdrawn: 0, notes, .. }) if notes.is_empty() => {
            tracing::debug!(target: LOG, "nothing new in the feed");
        }
        Some(Ingested { new, revised, merged, withdrawn, to_dispatch, notes }) => {
            tracing::info!(target: LOG, new, revised, merged, withdrawn, to_dispatch, "the feed brought news");
            for note in notes {
                tracing::info!(target: LOG, "{note}");
            }
        }
    }
}
