//! The daemon: ingest, dispatch and deliver, joined by rows. Each stage takes no input but the database, is idempotent, and
//! runs on a nudge or a timer; recovery after a crash is the normal path.

mod database;
pub mod deliver;
pub mod dispatch;
pub mod ingest;
mod service;
mod systemd;

pub use database::Database;
pub use deliver::Deliverer;
pub use dispatch::Dispatched;
pub use ingest::Ingester;
pub use service::{Service, StopSignal};

/// Why a stage could not do its work; what was there before stands.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Feed(#[from] crate::feed::FeedError),
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
}
