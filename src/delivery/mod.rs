//! One alert to one destination, once: in words, by mail or webhook, and what came of it. When to try, and again, is the
//! daemon's business; nothing here remembers anything between attempts but open connections.

pub mod address_guard;
mod causes;
mod error;
mod outcome;
mod plain;
pub mod render;
mod signature;
mod unsubscribe;
mod webhook;

pub use error::DeliveryError;
pub use outcome::{MAX_REASON_CHARS, MAX_RETRY_AFTER, Outcome};
pub use signature::WebhookSecret;
pub use unsubscribe::Unsubscribe;
pub use webhook::{SCHEMA, WebhookSender, WebhookSettings};
