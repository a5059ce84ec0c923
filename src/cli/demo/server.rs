//! The two outside things of the demonstration, both on loopback: the feed that it polls, and the receiver of webhooks.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::delivery::WebhookSecret;
use crate::event::Event;
use crate::time::Timestamp;

/// A server that ends when it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    /// The feed's body, as it is now.
    feed: Mutex<String>,
    /// Where received webhooks are put.
    webhooks: PathBuf,
    secret: WebhookSecret,
    received: Mutex<Received>,
}

/// What the receiver has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// With a good signature.
    pub good: u64,
    /// With a bad one, refused.
    pub bad: u64,
}

impl Server {
    /// Listens on a free port of loopback; webhooks become files in `webhooks`, which exists.
    pub async fn start(webhooks: PathBuf, secret: WebhookSecret) -> std::io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let received = Mutex::default();
        let shared = Arc::new(Shared { feed: Mutex::default(), webhooks, secret, received });
        let routes = Router::new().route("/feed.geojson", get(feed)).route("/hook", post(hook)).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            if let Err(fault) = axum::serve(listener, routes).await {
                eprintln!("throttler: the demonstration's server failed: {fault}");
            }
        });
        Ok(Server { address, shared, task })
    }

    pub fn feed_url(&self) -> String {
        format!("http://{}/feed.geojson", self.address)
    }

    pub fn hook_url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Shows these events from now on, newest first, as the USGS does.
    pub fn show<'e>(&self, events: impl DoubleEndedIterator<Item = &'e Event>, generated_at: Timestamp) {
        let features: Vec<_> = events.rev().map(feature).collect();
        let feed = json!({
            "type": "FeatureCollection",
            "metadata": { "generated": generated_at.millis(), "title": "Demonstration", "status": 200, "count": features.len() },
            "features": features,
        });
        *self.shared.feed.lock().unwrap_or_else(PoisonError::into_inner) = feed.to_string();
    }

    pub fn received(&self) -> Received {
        *self.shared.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An event in the feed's shape.
fn feature(event: &Event) -> serde_json::Value {
    let ids = event.ids.iter().fold(",".to_owned(), |ids, id| ids + id.as_str() + ",");
    json!({
        "type": "Feature",
        "id": event.id,
        "properties": {
            "mag": event.magnitude, "magType": event.magnitude_type, "place": event.place, "time": event.origin_at.millis(),
            "updated": event.updated_at.unwrap_or(event.origin_at).millis(), "status": event.status, "ids": ids,
            "type": event.kind, "tsunami": u8::from(event.tsunami), "alert": event.pager,
        },
        "geometry": {
            "type": "Point",
            "coordinates": [event.coordinates.longitude(), event.coordinates.latitude(), event.depth_km],
        },
    })
}

async fn feed(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let body = shared.feed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ([(header::CONTENT_TYPE, "application/geo+json")], body)
}

/// Checks the signature as the Standard Webhooks specification says, and keeps the body.
async fn hook(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let seconds: Option<i64> = text("webhook-timestamp").parse().ok();
    let at = seconds.and_then(|seconds| seconds.checked_mul(1_000)).and_then(|millis| Timestamp::from_millis(millis).ok());
    let signed = at.is_some_and(|at| text("webhook-signature") == shared.secret.sign(text("webhook-id"), at, &body));
    let mut received = shared.received.lock().unwrap_or_else(PoisonError::into_inner);
    if !signed {
        received.bad += 1;
        return StatusCode::UNAUTHORIZED;
    }
    received.good += 1;
    let file = shared.webhooks.join(format!("{:04}.json", received.good));
    match std::fs::write(file, &body) {
        Ok(()) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::INSUFFICIENT_STORAGE,
    }
}
