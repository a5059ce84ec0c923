//! One alert to one destination, once: in words, by mail or webhook, and what came of it. When to try, and again, is the
//! daemon's business; nothing here remembers anything between attempts but open connections.

mod outcome;
mod plain;
pub mod render;
mod unsubscribe;

pub use outcome::{MAX_REASON_CHARS, MAX_RETRY_AFTER, Outcome};
pub use unsubscribe::Unsubscribe;
