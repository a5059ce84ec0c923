//! When to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::daemon::DaemonError;
use crate::time::Span;

/// Tells the stages to stop.
#[derive(Clone)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// A signal that SIGTERM or SIGINT gives.
    ///
    /// # Errors
    /// [`DaemonError::Signals`] if the process cannot listen for them.
    pub fn from_process() -> Result<StopSignal, DaemonError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonError::Signals)?;
        let (send, receive) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            // Nobody listens any more only when everything has stopped.
            let _ = send.send(true);
        });
        Ok(StopSignal(receive))
    }

    /// A signal that is given when `true` is sent.
    #[must_use]
    pub fn from_channel(stop: watch::Receiver<bool>) -> StopSignal {
        StopSignal(stop)
    }

    /// Returns when it is time to stop.
    pub async fn stopped(&mut self) {
        // A sender that is gone cannot ask to stop; then nobody else can either.
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Sleeps so long, or until it is time to stop: whether it is not.
    pub(crate) async fn sleep(&mut self, span: Span) -> bool {
        tokio::select! {
            () = sleep(span.to_std()) => true,
            () = self.stopped() => false,
        }
    }
}
