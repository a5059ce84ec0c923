//! Polling a real server: what is asked, what an answer means, and what the next poll asks then.

use std::error::Error as _;
use std::io::Write as _;
use std::process::Command;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use throttler::feed::{Feed, FeedError, MAX_BODY_BYTES, Poll, Settings, Snapshot, Timeouts};
use throttler::time::{Span, Timestamp};
use tokio::io::AsyncWriteExt as _;

use crate::port::Port;
use crate::server::{Server, install_provider};
use crate::support::{at, fixture};

const MADE: &str = "Sun, 17 Mar 2030 18:06:40 GMT";

fn now() -> Timestamp {
    at("2030-03-17T18:30:00Z")
}

/// A feed without events that was made so many seconds after 2030-03-17T18:00:00Z.
fn made_at(seconds: u32) -> String {
    format!(r#"{{"metadata":{{"generated":{}}},"features":[]}}"#, 1_900_000_800_000 + i64::from(seconds) * 1_000)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn gzipped(packed: Vec<u8>) -> Response {
    ([(header::CONTENT_ENCODING, "gzip")], packed).into_response()
}

async fn fresh(feed: &mut Feed) -> Snapshot {
    match feed.poll(now()).await.expect("an answer") {
        Poll::Fresh(snapshot) => snapshot,
        Poll::Unchanged => panic!("expected a fresh snapshot"),
    }
}

/// The error of one poll of a server that always answers so.
async fn error_of(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> FeedError {
    let server = Server::start(move |_, _| answer()).await;
    server.feed().poll(now()).await.expect_err("a failure")
}

/// The first line of the message after the address, which differs from run to run.
fn told(error: &FeedError) -> String {
    let text = error.to_string();
    text.split_once(".geojson ").map_or(text.clone(), |(_, told)| told.to_owned())
}

#[tokio::test]
async fn the_service_is_asked_politely() {
    install_provider();
    let server = Server::start(|_, _| fixture("as_sent.geojson").into_response()).await;
    let settings = Settings { contact: Some("operator@example.org".into()), ..Settings::default() };
    let mut feed = Feed::new(server.url("http"), &settings).expect("a feed");
    assert_eq!(fresh(&mut feed).await.events.len(), 5);
    let asked = &server.requests()[0];
    assert_eq!(asked[header::USER_AGENT], format!("throttler/{} (+operator@example.org)", env!("CARGO_PKG_VERSION")));
    assert_eq!(asked[header::ACCEPT_ENCODING], "gzip");
    assert!(!asked.contains_key(header::IF_NONE_MATCH) && !asked.contains_key(header::IF_MODIFIED_SINCE));
    for contact in ["", "a\r\nX: y", "a(b", "ä", &"x".repeat(201)] {
        let settings = Settings { contact: Some(contact.into()), ..Settings::default() };
        assert!(matches!(Feed::new(server.url("http"), &settings), Err(FeedError::Contact(_))), "{contact:?}");
    }
}

/// Answers 304 to whoever has the version.
fn conditional(headers: &HeaderMap) -> Response {
    let has_it = headers.get(header::IF_NONE_MATCH).is_some_and(|tag| tag == "\"v1\"")
        && headers.get(header::IF_MODIFIED_SINCE).is_some_and(|date| date == MADE);
    if has_it {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::ETAG, "\"v1\""), (header::LAST_MODIFIED, MADE)], made_at(0)).into_response()
    }
}

#[tokio::test]
async fn what_was_accepted_is_not_asked_for_again() {
    let server = Server::start(|_, headers| conditional(headers)).await;
    let mut feed = server.feed();
    fresh(&mut feed).await;
    // The snapshot could not be kept: it must come again.
    fresh(&mut feed).await;
    feed.accept();
    assert_eq!(feed.poll(now()).await.expect("304"), Poll::Unchanged);
    feed.accept();
    assert_eq!(feed.poll(now()).await.expect("304"), Poll::Unchanged);
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn what_was_not_accepted_before_the_next_poll_comes_again() {
    let server = Server::start(|number, headers| match number {
        1 => StatusCode::BAD_GATEWAY.into_response(),
        _ => conditional(headers),
    })
    .await;
    let mut feed = server.feed();
    fresh(&mut feed).await;
    feed.poll(now()).await.expect_err("a failure");
    feed.accept();
    fresh(&mut feed).await;
}

#[tokio::test]
async fn a_failure_in_between_changes_nothing() {
    let failures: [fn() -> Response; 4] = [
        || StatusCode::BAD_GATEWAY.into_response(),
        || ([(header::ETAG, "\"bad\"")], "<html>").into_response(),
        || ([(header::ETAG, "\"bad\"")], fixture("as_sent.geojson")[..900].to_vec()).into_response(),
        || ([(header::ETAG, "\"bad\"")], "").into_response(),
    ];
    let server = Server::start(move |number, headers| match number.checked_sub(1).and_then(|n| failures.get(n)) {
        Some(failure) => failure(),
        None => conditional(headers),
    })
    .await;
    let mut feed = server.feed();
    fresh(&mut feed).await;
    feed.accept();
    for _ in failures {
        let error = feed.poll(now()).await.expect_err("a failure");
        assert!(error.is_transient(), "{error}");
        // A caller that accepts out of turn does no harm.
        feed.accept();
    }
    assert_eq!(feed.poll(now()).await.expect("304"), Poll::Unchanged);
}

#[tokio::test]
async fn an_older_copy_than_already_seen_is_nothing_new() {
    let server = Server::start(|number, _| {
        let (tag, seconds) = [("\"b\"", 120), ("\"a\"", 60), ("\"c\"", 180), ("\"c\"", 180)][number];
        ([(header::ETAG, tag)], made_at(seconds)).into_response()
    })
    .await;
    let mut feed = server.feed();
    fresh(&mut feed).await;
    feed.accept();
    assert_eq!(feed.poll(now()).await.expect("an old copy"), Poll::Unchanged);
    feed.accept();
    let newest = fresh(&mut feed).await.generated_at;
    assert_eq!(server.requests()[2][header::IF_NONE_MATCH], "\"b\"", "the old copy left no trace");

    // After a restart with what was last kept: the same is read again, something older is not.
    let settings = |last_generated_at| Settings { last_generated_at, ..Settings::default() };
    let mut restarted = Feed::new(server.url("http"), &settings(newest)).expect("a feed");
    fresh(&mut restarted).await;
    let server = Server::start(|_, _| made_at(60).into_response()).await;
    let mut restarted = Feed::new(server.url("http"), &settings(newest)).expect("a feed");
    assert_eq!(restarted.poll(now()).await.expect("an old copy"), Poll::Unchanged);
}

#[tokio::test]
async fn a_feed_from_the_far_future_does_not_end_all_news() {
    let server = Server::start(|number, _| made_at([200_000_000, 60][number]).into_response()).await;
    let mut feed = server.feed();
    fresh(&mut feed).await;
    feed.accept();
    fresh(&mut feed).await;
}

#[tokio::test]
async fn a_packed_feed_is_unpacked() {
    let server = Server::start(|_, _| gzipped(gzip(&fixture("as_sent.geojson")))).await;
    assert_eq!(fresh(&mut server.feed()).await.events.len(), 5);
}

#[tokio::test]
async fn a_broken_or_cut_off_body_is_a_failure() {
    let packed = gzip(&fixture("as_sent.geojson"));
    let half = packed[..packed.len() / 2].to_vec();
    let error = error_of(move || gzipped(half.clone())).await;
    assert!(matches!(error, FeedError::Body { .. }) && error.is_transient(), "{error:?}");
    let error = error_of(|| gzipped(b"not gzip at all".to_vec())).await;
    assert!(matches!(error, FeedError::Body { .. }), "{error:?}");

    let server = Server::raw(|mut connection| async move {
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{\"features\":[]").await
    })
    .await;
    let error = server.feed().poll(now()).await.expect_err("half a body");
    assert_eq!(told(&error), "broke off or cannot be unpacked");
}

#[tokio::test]
async fn an_answer_that_is_no_feed_is_named() {
    let page = "<!DOCTYPE html><html><body>Service Unavailable</body></html>";
    let error = error_of(move || ([(header::CONTENT_TYPE, "text/html")], page).into_response()).await;
    assert!(matches!(error, FeedError::NotGeoJson { .. }) && error.is_transient());
    assert!(error.to_string().contains("got an HTML page or XML: '<!DOCTYPE html><html>"), "{error}");
    assert!(error_of(|| "".into_response()).await.to_string().ends_with("got an empty body"));
    let error = error_of(|| fixture("error_status.geojson").into_response()).await;
    assert!(matches!(error, FeedError::Service { status: 400, .. }));
}

#[tokio::test]
async fn a_refusal_tells_the_status_and_how_long_to_wait() {
    for (status, retry_after, wait_s, transient) in [
        (403, None, None, false),
        (404, None, None, false),
        (204, None, None, false),
        (429, None, None, true),
        (429, Some("120"), Some(120), true),
        (429, Some("Sun, 17 Mar 2030 18:35:00 GMT"), Some(300), true),
        (429, Some("999999999"), Some(86_400), true),
        (429, Some("later"), None, true),
        (408, None, None, true),
        (500, None, None, true),
        (503, Some("60"), Some(60), true),
        (504, None, None, true),
    ] {
        let error = error_of(move || {
            let mut response = (StatusCode::from_u16(status).expect("a status"), "sorry\r\nnot now").into_response();
            if let Some(value) = retry_after {
                response.headers_mut().insert(header::RETRY_AFTER, value.parse().expect("a header"));
            }
            response
        })
        .await;
        let said = if status == 204 { "nothing" } else { "'sorry not now'" };
        assert_eq!(told(&error), format!("answered {status}: expected 200 or 304; it says {said}"));
        assert_eq!((error.retry_after(), error.is_transient()), (wait_s.map(Span::from_seconds), transient), "{status}");
    }
}

#[tokio::test]
async fn a_redirect_to_elsewhere_is_refused() {
    let other = Server::start(|_, _| made_at(0).into_response()).await;
    let elsewhere = other.url("http").to_string();
    for (status, location) in [
        (302, elsewhere.clone()),
        (301, "http://example.invalid/".into()),
        (308, "https://example.invalid/".into()),
        (307, "file:///etc/passwd".into()),
        (302, "/again".into()),
    ] {
        let shown = location.clone();
        let answer =
            move || (StatusCode::from_u16(status).expect("a status"), [(header::LOCATION, location.clone())]).into_response();
        let error = error_of(answer).await;
        assert!(matches!(error, FeedError::Redirect { .. }) && !error.is_transient(), "{shown}: {error:?}");
    }
    assert!(other.requests().is_empty());
    let error = error_of(|| StatusCode::FOUND.into_response()).await;
    assert_eq!(told(&error), "redirects elsewhere: expected an answer, or a redirect to https on the same host");
}

#[tokio::test]
async fn too_large_a_body_is_given_up() {
    // Known before, unknown before, and only after unpacking.
    let spaces = || vec![b' '; MAX_BODY_BYTES + 1];
    let packed = gzip(&spaces());
    assert!(packed.len() < MAX_BODY_BYTES / 100);
    let announced = Server::raw(|mut connection| async move {
        connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n").await?;
        std::future::pending().await
    })
    .await;
    let endless = Server::raw(|mut connection| async move {
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        loop {
            connection.write_all(&[b' '; 8_192]).await?;
        }
    })
    .await;
    let bomb = Server::start(move |_, _| gzipped(packed.clone())).await;
    for server in [announced, endless, bomb] {
        let error = server.feed().poll(now()).await.expect_err("too much");
        assert!(matches!(error, FeedError::TooLarge { .. }), "{error:?}");
    }
    // The largest that is allowed.
    let mut largest = spaces();
    largest.truncate(MAX_BODY_BYTES);
    largest[..15].copy_from_slice(br#"{"features":[]}"#);
    let server = Server::start(move |_, _| Body::from(largest.clone()).into_response()).await;
    fresh(&mut server.feed()).await;
}

#[tokio::test]
async fn a_slow_server_is_given_up() {
    let silent = Server::raw(|connection| async move {
        let _open = connection;
        std::future::pending().await
    })
    .await;
    let short = Span::from_millis(200);
    let hasty = Timeouts { first_byte: short, ..Timeouts::default() };
    let error = silent.feed_within(hasty).poll(now()).await.expect_err("no answer");
    assert_eq!(told(&error), "took longer than 200ms to begin its answer");
    assert!(matches!(error, FeedError::Timeout { .. }) && error.is_transient(), "{error:?}");

    // A byte every now and then does not prolong the whole.
    let trickling = Server::raw(|mut connection| async move {
        connection.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        let mut beat = tokio::time::interval(Span::from_millis(20).to_std());
        loop {
            beat.tick().await;
            connection.write_all(b" ").await?;
        }
    })
    .await;
    let hasty = Timeouts { whole: short, ..Timeouts::default() };
    let error = trickling.feed_within(hasty).poll(now()).await.expect_err("half an answer");
    assert_eq!(told(&error), "took longer than 200ms to answer in full");
}

#[tokio::test]
async fn a_server_that_is_not_there_or_speaks_no_tls_is_told_with_its_cause() {
    install_provider();
    let server = Server::start(|_, _| made_at(0).into_response()).await;
    let mut feed = Feed::new(server.url("https"), &Settings::default()).expect("a feed");
    let error = feed.poll(now()).await.expect_err("no TLS there");
    assert!(matches!(error, FeedError::Unreachable { .. }) && error.is_transient(), "{error:?}");
    assert!(error.source().is_some());

    let closed = Port::take();
    let url = format!("http://{}/", closed.address).parse().expect("a feed address");
    let error = Feed::new(url, &Settings::default()).expect("a feed").poll(now()).await.expect_err("nobody there");
    assert_eq!(error.to_string(), format!("cannot reach http://{}/", closed.address));
}

#[tokio::test]
async fn a_file_is_a_feed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("feed.geojson");
    let feed_of = |path: &std::path::Path| {
        let url = format!("file://{}", path.display()).parse().expect("a feed address");
        Feed::new(url, &Settings::default()).expect("a feed")
    };
    let mut feed = feed_of(&path);
    let error = feed.poll(now()).await.expect_err("no file yet");
    assert_eq!(error.to_string(), format!("cannot read the feed file {}", path.display()));
    assert!(error.is_transient());

    std::fs::write(&path, fixture("as_sent.geojson")).expect("a file");
    assert_eq!(fresh(&mut feed).await.events.len(), 5);
    feed.accept();
    std::fs::write(&path, made_at(0)).expect("a file");
    assert_eq!(feed.poll(now()).await.expect("an older file"), Poll::Unchanged);

    assert!(matches!(feed_of(folder.path()).poll(now()).await, Err(FeedError::File { .. })));
    std::fs::File::create(&path).and_then(|file| file.set_len(MAX_BODY_BYTES as u64 + 1)).expect("a hollow file");
    assert!(matches!(feed.poll(now()).await, Err(FeedError::TooLarge { .. })));
}

/// Set for the process that has no provider of cryptography.
const BARE: &str = "THROTTLER_TEST_WITHOUT_PROVIDER";

#[test]
fn without_a_crypto_provider_there_is_an_error_and_no_panic() {
    if std::env::var_os(BARE).is_some() {
        let url = |text: &str| text.parse().expect(text);
        for text in ["https://earthquake.usgs.gov/earthquakes/feed/v1.0/summary/4.5_day.geojson", "http://127.0.0.1/"] {
            let error = Feed::new(url(text), &Settings::default()).expect_err("no provider");
            assert!(error.to_string().contains("no TLS crypto provider is installed"), "{error}");
        }
        assert!(Feed::new(url("file:///feed.geojson"), &Settings::default()).is_ok(), "a file needs none");
        return;
    }
    // The provider is the process's, and other tests install one: look at a process that runs this test alone.
    let name = "poller::without_a_crypto_provider_there_is_an_error_and_no_panic";
    let alone = Command::new(std::env::current_exe().expect("this test")).args(["--exact", name]).env(BARE, "1").output();
    let alone = alone.expect("a process");
    let told = String::from_utf8_lossy(&alone.stdout);
    assert!(alone.status.success() && told.contains("1 passed"), "{told}");
}
