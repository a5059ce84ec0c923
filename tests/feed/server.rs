//! Real servers on loopback: one that speaks HTTP properly, one that sends whatever bytes it is told.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::Response;
use throttler::feed::{Feed, FeedUrl, Settings, Timeouts};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

/// A server that ends with the test's runtime.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<HeaderMap>>>,
}

impl Server {
    /// Answers each request by its number, from 0, and its headers.
    pub async fn start(answer: impl Fn(usize, &HeaderMap) -> Response + Clone + Send + Sync + 'static) -> Server {
        let requests: Arc<Mutex<Vec<HeaderMap>>> = Arc::default();
        let log = Arc::clone(&requests);
        let router = Router::new().fallback(move |request: Request| {
            let number = {
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                log.push(request.headers().clone());
                log.len() - 1
            };
            std::future::ready(answer(number, request.headers()))
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, router).await });
        Server { address, requests }
    }

    /// Gives each connection to `speak` after reading the beginning of its request.
    pub async fn raw<F: Future<Output = std::io::Result<()>> + Send + 'static>(
        speak: impl Fn(TcpStream) -> F + Send + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                if connection.read(&mut [0; 4_096]).await.is_ok() {
                    tokio::spawn(speak(connection));
                }
            }
        });
        Server { address, requests: Arc::default() }
    }

    /// The headers of every request so far.
    pub fn requests(&self) -> Vec<HeaderMap> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn url(&self, scheme: &str) -> FeedUrl {
        format!("{scheme}://{}/4.5_day.geojson", self.address).parse().expect("a feed address")
    }

    /// A feed of this server, patient enough for a busy machine.
    pub fn feed(&self) -> Feed {
        self.feed_within(Timeouts::default())
    }

    pub fn feed_within(&self, timeouts: Timeouts) -> Feed {
        install_provider();
        Feed::new(self.url("http"), &Settings { timeouts, ..Settings::default() }).expect("a feed")
    }
}

/// As the host does once at its start.
pub fn install_provider() {
    // Another test may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
