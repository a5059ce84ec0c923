//! An HTTP receiver on loopback that keeps what it is sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde_json::Value;
use tokio::net::TcpListener;

/// One request: the path, the alert's id, the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub path: String,
    pub id: String,
    pub body: Value,
}

#[derive(Default)]
struct Inner {
    requests: Vec<Request>,
    /// By path; 204 for all others.
    statuses: HashMap<String, u16>,
}

#[derive(Clone)]
pub struct Receiver {
    pub port: u16,
    inner: Arc<Mutex<Inner>>,
}

impl Receiver {
    pub async fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let receiver = Receiver { port: listener.local_addr().expect("address").port(), inner: Arc::default() };
        let app = Router::new().fallback(receive).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        receiver
    }

    pub fn requests(&self) -> Vec<Request> {
        self.inner.lock().expect("lock").requests.clone()
    }

    /// From now on requests to `path` are answered with `status`.
    pub fn answer(&self, path: &str, status: u16) {
        self.inner.lock().expect("lock").statuses.insert(path.to_owned(), status);
    }
}

async fn receive(State(receiver): State<Receiver>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    let id = headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
    let request = Request { path: uri.path().to_owned(), id, body: serde_json::from_slice(&body).expect("a JSON body") };
    let mut inner = receiver.inner.lock().expect("lock");
    let status = inner.statuses.get(&request.path).copied().unwrap_or(204);
    inner.requests.push(request);
    StatusCode::from_u16(status).expect("a status")
}
