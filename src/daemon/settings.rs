//! What of the configuration a running daemon takes over: read again at SIGHUP, handed to the stages between two of their turns.
//! They start from rows, so that nothing else has to be torn down; attempts under way end as they began.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use super::service::{Shared, StopSignal};
use super::vanished::Vanished;
use super::{DaemonError, Egress, GapCloser, systemd};
use crate::delivery::Delivery;
use crate::feed::Feed;
use crate::news::EventRules;
use crate::plain::one_line;
use crate::store::Reload;
use crate::time::{Span, Timestamp};

/// The longest reason for a refusal that is told.
const MAX_REASON_CHARS: usize = 500;

/// What can change while it runs.
pub struct Settings {
    pub polling: Polling,
    pub sending: Sending,
}

/// Of the feed.
pub struct Polling {
    pub feed: Feed,
    pub rules: EventRules,
    /// Whom to ask for what an outage swallowed.
    pub gaps: GapCloser,
    /// Whom to ask for what is gone from the feed.
    pub vanished: Vanished,
    /// Time between two polls.
    pub poll: Span,
    /// When the feed counts as stale.
    pub stale_after: Span,
}

impl Polling {
    /// What is watched under these settings.
    #[must_use]
    pub fn watched_since(&self, since: Timestamp) -> Watching {
        Watching { feed: self.feed.url().to_string(), since, stale_after: self.stale_after }
    }
}

/// Of the channels.
pub struct Sending {
    pub delivery: Arc<Delivery>,
    pub egress: Egress,
}

/// Which feed is watched, for whoever asks whether it is stale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watching {
    /// The feed as the database has it.
    pub feed: String,
    /// When this daemon began to watch it.
    pub since: Timestamp,
    pub stale_after: Span,
}

/// A configuration that was read again.
pub struct Reread {
    pub settings: Settings,
    /// Keys that changed and keep their old value until the daemon is started again.
    pub restart: Vec<&'static str>,
}

/// When to read the configuration again, and how.
pub struct Reloading {
    signal: mpsc::Receiver<()>,
    reread: Arc<dyn Fn() -> Result<Reread, String> + Send + Sync>,
}

/// New settings on their way to a stage, which answers when it has taken them over.
pub(super) type Change<T> = (T, oneshot::Sender<()>);

impl Reloading {
    /// At SIGHUP. What `reread` says of a configuration that it refuses is logged.
    ///
    /// # Errors
    /// [`DaemonError::Signals`] if the process cannot listen for it.
    pub fn from_process(reread: impl Fn() -> Result<Reread, String> + Send + Sync + 'static) -> Result<Reloading, DaemonError> {
        let mut hangup = signal(SignalKind::hangup()).map_err(DaemonError::Signals)?;
        let (send, receive) = mpsc::channel(1);
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                // One that waits already reads what is there then.
                let _ = send.try_send(());
            }
        });
        Ok(Reloading::from_channel(receive, reread))
    }

    /// Whenever something is sent.
    #[must_use]
    pub fn from_channel(
        signal: mpsc::Receiver<()>,
        reread: impl Fn() -> Result<Reread, String> + Send + Sync + 'static,
    ) -> Reloading {
        Reloading { signal, reread: Arc::new(reread) }
    }
}

pub(super) async fn keep_reloading(
    shared: &Shared,
    mut reloading: Reloading,
    (to_ingest, to_deliver): (mpsc::Sender<Change<Polling>>, mpsc::Sender<Change<Sending>>),
    mut stop: StopSignal,
) {
    loop {
        let asked = tokio::select! {
            asked = reloading.signal.recv() => asked,
            () = stop.stopped() => return,
        };
        if asked.is_none() {
            // Nobody can ask any more.
            return;
        }
        systemd::reloading();
        let reread = Arc::clone(&reloading.reread);
        let done = match tokio::task::spawn_blocking(move || reread()).await {
            Ok(done) => done,
            Err(fault) => std::panic::resume_unwind(fault.into_panic()),
        };
        let (applied, detail) = match done {
            Ok(Reread { settings: Settings { polling, sending }, restart }) => {
                let taken_over = async {
                    hand_over(&to_ingest, polling).await;
                    hand_over(&to_deliver, sending).await;
                };
                tokio::select! {
                    () = taken_over => {}
                    () = stop.stopped() => return,
                }
                tracing::info!("the configuration was read again and holds from now on");
                for key in &restart {
                    tracing::warn!(key, "changed, and takes a restart: the old value stays until then");
                }
                (true, (!restart.is_empty()).then(|| format!("a restart is needed for {}", restart.join(", "))))
            }
            Err(reason) => {
                let reason = one_line(&reason, MAX_REASON_CHARS);
                tracing::error!("the configuration is refused, and the one before stays: {reason}");
                (false, Some(reason))
            }
        };
        shared.metrics.reloaded(applied);
        shared.vitals.reloaded(Reload { at: shared.clock.now(), applied, detail }).await;
    }
}

/// Waits until the stage has taken it over; one that is gone stops, as everything does then.
async fn hand_over<T>(to: &mpsc::Sender<Change<T>>, settings: T) {
    let (taken, is_taken) = oneshot::channel();
    if to.send((settings, taken)).await.is_ok() {
        let _ = is_taken.await;
    }
}
