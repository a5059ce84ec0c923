//! The listener: one request a connection, and nobody holds one for longer than a request may take.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::daemon::StopSignal;
use crate::time::Span;

/// The longest head of a request, in bytes, and the most lines that it has: the least that the library takes is 8 KiB.
const MAX_HEAD_BYTES: usize = 8_192;
const MAX_HEADERS: usize = 64;
/// The pause after a connection could not be taken, as when the process has no file left to open.
const ACCEPT_RETRY: Span = Span::from_millis(100);

/// How much others can take up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; further ones wait in the system's queue.
    pub connections: usize,
    /// The longest that the head of a request may take to come.
    pub head: Span,
    /// The longest that a connection may last: its request, the answer, and the reading of it.
    pub request: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 64, head: Span::from_seconds(5), request: Span::from_seconds(15) }
    }
}

/// A listener that nobody is served by yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    limits: Limits,
}

impl Server {
    /// Listens on `address`.
    ///
    /// # Errors
    /// What the system says of an address that it does not have, that is taken, or that needs more rights.
    pub async fn bind(address: SocketAddr, limits: Limits) -> io::Result<Server> {
        Ok(Server { listener: TcpListener::bind(address).await?, limits })
    }

    /// The address, with the port that the system chose if none was asked for.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the signal comes, then lets requests under way finish.
    pub async fn serve(self, routes: Router, mut stop: StopSignal) {
        let Server { listener, limits } = self;
        if let Ok(address) = listener.local_addr() {
            tracing::info!("answers on http://{address}");
        }
        let room = Arc::new(Semaphore::new(limits.connections));
        let mut connections = JoinSet::new();
        loop {
            let next = async {
                // The semaphore is never closed; without a permit the connection would be unbounded.
                let permit = Arc::clone(&room).acquire_owned().await.map_err(io::Error::other)?;
                Ok::<_, io::Error>((listener.accept().await?.0, permit))
            };
            tokio::select! {
                next = next => match next {
                    Ok((stream, permit)) => {
                        let (routes, stop) = (routes.clone(), stop.clone());
                        connections.spawn(async move {
                            serve_one(stream, routes, limits, stop).await;
                            drop(permit);
                        });
                    }
                    Err(fault) => {
                        tracing::debug!("a connection could not be taken: {fault}");
                        sleep(ACCEPT_RETRY.to_std()).await;
                    }
                },
                // What has ended is let go of.
                Some(_) = connections.join_next() => {}
                () = stop.stopped() => break,
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }
}

async fn serve_one(stream: TcpStream, routes: Router, limits: Limits, mut stop: StopSignal) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head.to_std())
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = pin!(connection);
    let served = async {
        tokio::select! {
            served = connection.as_mut() => served,
            () = stop.stopped() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    // Whoever is too slow is hung up on, as is who speaks something else; neither is worth a line in the log.
    match timeout(limits.request.to_std(), served).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => tracing::debug!("a connection ended: {fault}"),
        Err(_) => tracing::debug!("a connection was too slow"),
    }
}
