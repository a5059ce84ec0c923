//! What the daemon answers over HTTP: whether it lives and is ready, and the pages on which recipients unsubscribe.
//!
//! It is meant to stand on loopback behind a reverse proxy that speaks TLS. Nothing here asks who somebody is: a page to
//! unsubscribe on is for whoever holds its link, and health and metrics tell nothing that is worth hiding.

mod form;
mod health;
mod metrics;
mod page;
mod server;
mod unsubscribe;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::daemon::{Database, Metrics, Watching};
use crate::delivery::UnsubscribeKey;

pub use server::{Limits, Server};

/// What the answers come from.
pub struct Web {
    pub database: Database,
    pub clock: Arc<dyn Clock>,
    /// Verifies links.
    pub key: UnsubscribeKey,
    /// Which feed is watched, as the configuration has it now.
    pub watching: watch::Receiver<Watching>,
    pub metrics: Arc<Metrics>,
}

impl Web {
    /// Everything that is served.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/healthz", get(health::live))
            .route("/readyz", get(health::ready))
            .route("/metrics", get(metrics::metrics))
            .route("/unsubscribe/{token}", get(unsubscribe::ask).post(unsubscribe::leave))
            .fallback(|| async { (StatusCode::NOT_FOUND, "not found\n") })
            .with_state(Arc::new(self))
            .layer(map_response(strict))
    }
}

/// No page loads, frames, stores or tells anything; what one page needs beyond that it says itself.
async fn strict(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The path of a page is the right to unsubscribe.
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The answer when the database does not give one.
fn unavailable() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "30")]).into_response()
}
