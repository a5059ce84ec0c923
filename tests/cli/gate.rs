//! An HTTP server on loopback that keeps everybody waiting until it is let: a feed that hangs, or a webhook.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::HeaderMap;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub struct Gate {
    pub port: u16,
    open: watch::Sender<bool>,
    ids: Arc<Mutex<Vec<String>>>,
}

impl Gate {
    /// One that answers with this in the end.
    pub async fn start(body: String) -> Gate {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (open, is_open) = watch::channel(false);
        let ids: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&ids);
        let app = Router::new().fallback(move |headers: HeaderMap| {
            let (mut is_open, body) = (is_open.clone(), body.clone());
            let id = headers.get("webhook-id").map_or("", |id| id.to_str().expect("an id")).to_owned();
            kept.lock().expect("lock").push(id);
            async move {
                is_open.wait_for(|open| *open).await.expect("somebody opens");
                body
            }
        });
        tokio::spawn(async move { axum::serve(listener, app).await });
        Gate { port, open, ids }
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// The ids of the webhooks that have come; of other requests nothing.
    pub fn came(&self) -> Vec<String> {
        self.ids.lock().expect("lock").clone()
    }
}
