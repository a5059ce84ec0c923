//! Feeds over TLS: a redirect to https on the same host that is really followed, and certificates that are not trusted.

use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use tempfile::TempDir;
use throttler::feed::{Feed, FeedError, FeedUrl, Poll, Settings, Timeouts};
use throttler::time::Span;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::authority::Authority;
use crate::server::{Server, install_provider};
use crate::support::{at, fixture};

/// A server that speaks TLS under this name and answers every request with the fixture: its port.
async fn secure(authority: &Authority, name: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (port, acceptor) = (listener.local_addr().expect("an address").port(), authority.acceptor(name));
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            // A client that does not trust the certificate hangs up.
            let Ok(mut connection) = acceptor.accept(connection).await else { continue };
            if connection.read(&mut [0; 4_096]).await.is_ok() {
                let body = fixture("as_sent.geojson");
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = connection.write_all(&[head.as_bytes(), &body].concat()).await;
                let _ = connection.shutdown().await;
            }
        }
    });
    port
}

fn url(text: &str) -> FeedUrl {
    text.parse().expect(text)
}

#[tokio::test]
async fn a_redirect_to_https_on_the_same_host_is_followed() {
    install_provider();
    let (directory, authority) = (TempDir::new().expect("a directory"), Authority::new());
    let port = secure(&authority, "127.0.0.1").await;
    let location = format!("https://127.0.0.1:{port}/4.5_day.geojson");
    let server =
        Server::start(move |_, _| (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, location.clone())]).into_response()).await;
    let settings = Settings { ca_file: Some(authority.pem_file(directory.path())), ..Settings::default() };
    let mut feed = Feed::new(server.url("http"), &settings).expect("a feed");
    let Poll::Fresh(snapshot) = feed.poll(at("2030-01-01")).await.expect("the feed over TLS") else { panic!("unchanged") };
    assert_eq!(snapshot.events.len(), 5);
    assert_eq!(server.requests().len(), 1);

    // Without the authority the same is refused.
    let error = server.feed().poll(at("2030-01-01")).await.expect_err("an unknown authority");
    assert!(matches!(error, FeedError::Unreachable { .. }) && error.is_transient(), "{error:?}");
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    install_provider();
    let (directory, authority) = (TempDir::new().expect("a directory"), Authority::new());
    let port = secure(&authority, "feed.example.org").await;
    let settings = Settings { ca_file: Some(authority.pem_file(directory.path())), ..Settings::default() };
    let mut feed = Feed::new(url(&format!("https://127.0.0.1:{port}/")), &settings).expect("a feed");
    assert!(matches!(feed.poll(at("2030-01-01")).await, Err(FeedError::Unreachable { .. })));
}

#[tokio::test]
async fn a_connection_that_does_not_come_about_is_given_up() {
    install_provider();
    let silent = Server::raw(|connection| async move {
        let _open = connection;
        std::future::pending().await
    })
    .await;
    let timeouts = Timeouts { connect: Span::from_millis(200), ..Timeouts::default() };
    let mut feed = Feed::new(silent.url("https"), &Settings { timeouts, ..Settings::default() }).expect("a feed");
    let error = feed.poll(at("2030-01-01")).await.expect_err("no handshake");
    assert!(error.to_string().ends_with(".geojson took longer than 200ms to connect"), "{error}");
    assert!(matches!(error, FeedError::Timeout { .. }) && error.is_transient());
}

#[test]
fn certificates_that_are_none_are_refused_at_the_start() {
    install_provider();
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("ca.pem");
    for (text, expected) in [
        (None, "expected a readable file of at most 4 MiB"),
        (Some(""), "expected certificates in PEM"),
        (Some("-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n"), "expected certificates in PEM"),
    ] {
        if let Some(text) = text {
            std::fs::write(&file, text).expect("written");
        }
        let settings = Settings { ca_file: Some(file.clone()), ..Settings::default() };
        let error = Feed::new(url("https://feed.example.org/"), &settings).expect_err("no certificates");
        assert!(error.to_string().ends_with(expected) && !error.is_transient(), "{error}");
    }
}
