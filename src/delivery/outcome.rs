//! What came of one attempt. When to try again is decided elsewhere, from this.

use crate::plain::one_line;
use crate::time::Span;

/// The longest reason or detail, in characters.
pub const MAX_REASON_CHARS: usize = 300;

/// The outcome of one attempt. Texts are one line of at most [`MAX_REASON_CHARS`], without passwords, secrets or the path
/// of a webhook (for many receivers the path is the secret).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it.
    Delivered { detail: String },
    /// It may go through later. `retry_after` is what the receiver asked for, at most [`MAX_RETRY_AFTER`](crate::backoff::MAX_RETRY_AFTER).
    /// `host_failed`: it is the host that failed (no answer, or one that says so), so that other alerts by the same channel
    /// would fare no better.
    Transient { reason: String, retry_after: Option<Span>, host_failed: bool },
    /// Another attempt at this alert would fail as well. `disable`: so would any other alert to this destination.
    Permanent { reason: String, disable: bool },
}

impl Outcome {
    pub(super) fn delivered(detail: &str) -> Outcome {
        Outcome::Delivered { detail: one_line(detail, MAX_REASON_CHARS) }
    }

    pub(super) fn transient(reason: &str) -> Outcome {
        Outcome::Transient { reason: one_line(reason, MAX_REASON_CHARS), retry_after: None, host_failed: false }
    }

    /// The host failed: no answer, or one that says so.
    pub(super) fn host_failed(reason: &str, retry_after: Option<Span>) -> Outcome {
        Outcome::Transient { reason: one_line(reason, MAX_REASON_CHARS), retry_after, host_failed: true }
    }

    pub(super) fn permanent(reason: &str, disable: bool) -> Outcome {
        Outcome::Permanent { reason: one_line(reason, MAX_REASON_CHARS), disable }
    }
}
