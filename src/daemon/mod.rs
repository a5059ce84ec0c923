//! The daemon: ingest, dispatch, deliver and notify, joined by rows. Each stage takes no input but the database, is idempotent, and
//! runs on a nudge or a timer; recovery after a crash is the normal path.

mod database;
pub mod deliver;
pub mod dispatch;
mod gap;
pub mod ingest;
mod metrics;
pub mod notify;
mod operator;
mod outside;
pub mod prune;
mod pulse;
mod service;
mod settings;
mod systemd;
mod vanished;
mod vitals;

pub use database::Database;
pub use deliver::{Deliverer, Egress};
pub use dispatch::Dispatched;
pub use gap::GapCloser;
pub use ingest::Ingester;
pub use metrics::Metrics;
pub use notify::{Noticed, Notifier};
pub use operator::{Contact, Operator};
pub use service::{IDLE, STOP_TIMEOUT, Service, StopSignal};
pub use settings::{Polling, Reloading, Reread, Sending, Settings, Watching};
pub use vanished::Vanished;
pub use vitals::Identity;

/// An error with what caused it, in one line. A cause that only repeats what stands there already is left out.
pub(crate) fn with_causes(fault: &dyn std::error::Error) -> String {
    let mut line = fault.to_string();
    let mut cause = fault.source();
    while let Some(fault) = cause {
        let text = fault.to_string();
        // SQLite's errors come as "Error code 26: file is not a database", below the same words.
        if !line.contains(text.rsplit(": ").next().unwrap_or_default()) {
            line = format!("{line}: {text}");
        }
        cause = fault.source();
    }
    line
}

/// Why a stage could not do its work; what was there before stands.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Feed(#[from] crate::feed::FeedError),
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    #[error("another daemon on this database polls")]
    PollsElsewhere,
    #[error("the poll, with all that belongs to it, took longer than {0} and is given up")]
    Slow(crate::time::Span),
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
}
