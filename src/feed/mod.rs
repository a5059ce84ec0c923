//! The feed: where earthquakes come from. Its wire format, its address, and polling it.
//!
//! What a sighting means for what is known is `identity`'s business; when to poll, and what is kept, the daemon's.

mod error;
pub mod fdsn;
mod feature;
mod foreign;
mod http;
mod lines;
mod poller;
mod shallow;
mod source;
mod table;
mod wire;

pub use error::FeedError;
pub use feature::MAX_EVENT_IDS;
pub use http::{MAX_BODY_BYTES, Settings, Timeouts};
pub use poller::{Feed, Poll};
pub use source::{FeedUrl, MIN_POLL, MIN_POLL_LOCAL};
pub use wire::{MAX_FEATURES, Rejection, Snapshot, parse, parse_from};
