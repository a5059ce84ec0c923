//! Why a poll failed, and whether trying again can help.

use std::path::PathBuf;

use crate::time::Span;

use super::http::MAX_BODY_BYTES;
use super::wire::MAX_FEATURES;

/// Why there is no snapshot. What was known stands.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("'{url}' is not a feed address: {fault}")]
    Address { url: String, fault: &'static str },
    #[error("cannot prepare to poll {url}: no TLS crypto provider is installed, expected one process-wide before the first feed")]
    NoCryptoProvider { url: String },
    #[error("cannot prepare to poll {url}")]
    Client {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("'{0}' is not a contact: expected visible ASCII characters and spaces without parentheses, at most 200")]
    Contact(String),
    #[error("cannot use the certificates in {path}: {fault}")]
    CaFile { path: PathBuf, fault: &'static str },
    #[error("cannot reach {url}")]
    Unreachable {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("{url} took longer than {limit} {step}")]
    Timeout { url: String, step: &'static str, limit: Span },
    #[error("{url} redirects elsewhere: expected an answer, or a redirect to https on the same host")]
    Redirect {
        url: String,
        #[source]
        source: Option<reqwest::Error>,
    },
    /// `retry_after` is how long the server asks to be left alone.
    #[error("{url} answered {status}: expected {expected}; it says {found}")]
    Status { url: String, status: u16, expected: &'static str, retry_after: Option<Span>, found: String },
    #[error("the answer of {url} broke off or cannot be unpacked")]
    Body {
        url: String,
        #[source]
        source: reqwest::Error,
    },
    #[error("{origin} holds more than {MAX_BODY_BYTES} bytes")]
    TooLarge { origin: String },
    #[error("cannot read the feed file {path}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot read the feed: expected GeoJSON, FDSN text or CSV, got {found}")]
    NotGeoJson { found: String },
    #[error("cannot read the feed: expected GeoJSON, got JSON that is broken or cut off")]
    Json {
        #[source]
        source: serde_json::Error,
    },
    #[error("cannot read the feed: it has more than {MAX_FEATURES} features")]
    TooManyFeatures,
    #[error("{url} has more events than it gives at once")]
    SearchLimit { url: String },
    #[error("{url} says that this event was deleted")]
    Deleted { url: String },
    #[error("{url} did not answer with a catalogue: expected CSV with the columns id and time, got {found}")]
    NotCatalogue { url: String, found: String },
    #[error("{url}, line {line}: {fault}")]
    CatalogueRow { url: String, line: u64, fault: String },
    #[error("{url} counts {counted} events: expected at most {limit} in one catalogue; ask for a part")]
    TooManyEvents { url: String, counted: u64, limit: u64 },
    #[error("cannot {step} {path}")]
    Part {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("another fetch is writing {path}")]
    PartLocked { path: PathBuf },
    /// The status stands in the body; HTTP said 200.
    #[error("the feed reports status {status}: {message}")]
    Service { status: u64, message: String },
}

impl FeedError {
    /// Whether the same request may succeed later without anybody changing the configuration.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            FeedError::Address { .. }
            | FeedError::NoCryptoProvider { .. }
            | FeedError::Client { .. }
            | FeedError::Contact(_)
            | FeedError::CaFile { .. }
            | FeedError::Redirect { .. }
            | FeedError::Deleted { .. }
            | FeedError::TooManyEvents { .. }
            | FeedError::Part { .. }
            | FeedError::PartLocked { .. } => false,
            FeedError::Status { status, .. } => is_passing(u64::from(*status)),
            FeedError::Service { status, .. } => is_passing(*status),
            FeedError::Unreachable { .. }
            | FeedError::Timeout { .. }
            | FeedError::Body { .. }
            | FeedError::TooLarge { .. }
            | FeedError::File { .. }
            | FeedError::NotGeoJson { .. }
            | FeedError::Json { .. }
            | FeedError::TooManyFeatures
            | FeedError::SearchLimit { .. }
            | FeedError::NotCatalogue { .. }
            | FeedError::CatalogueRow { .. } => true,
        }
    }

    /// How long the server asks to be left alone, if it does.
    #[must_use]
    pub fn retry_after(&self) -> Option<Span> {
        match self {
            FeedError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Request timeout, too early, too many requests, and the server's own failures.
fn is_passing(status: u64) -> bool {
    matches!(status, 408 | 425 | 429) || status >= 500
}
