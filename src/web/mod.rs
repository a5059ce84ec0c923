//! What the daemon answers over HTTP: whether it lives and is ready, the pages on which recipients unsubscribe, and pages and metrics for
//! its operator.
//!
//! It is meant to stand on loopback behind a reverse proxy that speaks TLS. A page to unsubscribe on is for whoever holds its link,
//! and health tells nothing that is worth hiding; `access` says who sees the rest. Nothing here changes anything but by unsubscribing.

mod access;
mod dashboard;
mod fields;
mod form;
mod health;
mod history;
mod laboratory;
mod metrics;
mod page;
mod query;
mod server;
mod shell;
mod table;
mod unsubscribe;
mod what_if;
mod work;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::watch;

use crate::clock::Clock;
use crate::daemon::{Database, Metrics, Watching};
use crate::delivery::UnsubscribeKey;

pub use access::{Access, Token, TokenError};
pub use history::{History, MAX_EVENTS};
pub use server::{Limits, Server};
pub use work::Work;

/// What the answers come from.
pub struct Web {
    pub database: Database,
    pub clock: Arc<dyn Clock>,
    /// Verifies links.
    pub key: UnsubscribeKey,
    /// Which feed is watched, as the configuration has it now.
    pub watching: watch::Receiver<Watching>,
    pub metrics: Arc<Metrics>,
    /// Who sees what is for the operator.
    pub access: Access,
    /// What the pages for the operator are computed and read by.
    pub work: Work,
    /// What "what if" looks back on.
    pub history: History,
}

impl Web {
    /// Everything that is served.
    pub fn routes(self) -> Router {
        let web = Arc::new(self);
        let for_the_operator = Router::new()
            .route("/", get(dashboard::show))
            .route("/what-if", get(what_if::show))
            .route("/laboratory", get(laboratory::show))
            .route("/metrics", get(metrics::metrics))
            .route_layer(from_fn_with_state(Arc::clone(&web), access::guard));
        Router::new()
            .merge(for_the_operator)
            .route("/healthz", get(health::live))
            .route("/readyz", get(health::ready))
            .route("/unsubscribe/{token}", get(unsubscribe::ask).post(unsubscribe::leave))
            .fallback(|| async { (StatusCode::NOT_FOUND, "not found\n") })
            .with_state(web)
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
