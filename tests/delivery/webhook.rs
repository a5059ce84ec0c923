//! Webhooks at real receivers on loopback, well and badly behaved.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use throttler::alert::Alert;
use throttler::delivery::{DeliveryError, Outcome, WebhookSecret, WebhookSender, WebhookSettings};
use throttler::subscriber::{Preset, WebhookUrl};
use throttler::time::{Span, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::alerts::{at, event_alert, every_kind, hostile_alert, late_alert, leavable_alert, notice_alert};

pub fn crypto() {
    // The second test of the process finds it installed; that is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

pub fn url(text: &str) -> WebhookUrl {
    text.parse().expect(text)
}

pub fn now() -> Timestamp {
    at("2025-07-29T23:30:01.900Z")
}

pub fn secret() -> WebhookSecret {
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".parse().expect("secret")
}

fn open() -> WebhookSettings {
    WebhookSettings { allow_private: true, ..WebhookSettings::default() }
}

/// For servers that never answer.
fn impatient() -> WebhookSettings {
    WebhookSettings { timeout: Span::from_millis(700), ..open() }
}

pub async fn attempt(settings: WebhookSettings, target: &str) -> Outcome {
    crypto();
    let sender = WebhookSender::new(settings).expect("sender");
    sender.send(&url(target), &Preset::Json, &[secret()], &event_alert(), now()).await
}

/// What a receiver was sent.
#[derive(Clone)]
pub struct Request {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

type Seen = Arc<Mutex<Vec<Request>>>;

/// An HTTP server that gives every request the same answer and keeps what it was sent.
pub struct Receiver {
    port: u16,
    seen: Seen,
}

#[derive(Clone)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
    seen: Seen,
}

impl Receiver {
    pub async fn answering(status: u16, headers: &[(&'static str, &str)], body: &str) -> Receiver {
        let seen = Seen::default();
        let headers = headers.iter().map(|(name, value)| (name.parse().expect("name"), value.parse().expect("value"))).collect();
        let answer = Answer {
            status: StatusCode::from_u16(status).expect("status"),
            headers,
            body: body.to_owned(),
            seen: Arc::clone(&seen),
        };
        let app = Router::new().fallback(handle).with_state(answer);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let port = listener.local_addr().expect("address").port();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Receiver { port, seen }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn requests(&self) -> usize {
        self.seen.lock().expect("lock").len()
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hooks/T0/secret-path", self.port)
    }

    pub fn only(&self) -> Request {
        let seen = self.seen.lock().expect("lock");
        assert_eq!(seen.len(), 1);
        seen[0].clone()
    }
}

async fn handle(State(answer): State<Answer>, uri: Uri, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    let path = uri.path_and_query().expect("a path").to_string();
    answer.seen.lock().expect("lock").push(Request { path, headers, body });
    (answer.status, answer.headers, answer.body)
}

/// A server that reads a little of the request, writes `answer`, over and over if `endless`, and then closes or waits.
async fn raw(answer: &'static [u8], endless: bool, closes: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let port = listener.local_addr().expect("address").port();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 16_384]).await;
            let _ = stream.write_all(answer).await;
            while endless && stream.write_all(b"and so on, ").await.is_ok() {}
            if !closes {
                open.push(stream);
            }
        }
    });
    format!("http://127.0.0.1:{port}/hooks/secret-path")
}

async fn post(secrets: &[WebhookSecret], alert: &Alert, now: Timestamp) -> (HeaderMap, Bytes) {
    let Request { headers, body, .. } = post_as(&Preset::Json, "hooks/T0/secret-path", secrets, alert, now).await;
    (headers, body)
}

/// What a receiver at `path` gets.
pub async fn post_as(preset: &Preset, path: &str, secrets: &[WebhookSecret], alert: &Alert, now: Timestamp) -> Request {
    crypto();
    let receiver = Receiver::answering(204, &[], "").await;
    let target = url(&format!("http://127.0.0.1:{}/{path}", receiver.port));
    let settings = WebhookSettings { sender: "alerts@example.org".to_owned(), ..open() };
    let outcome = WebhookSender::new(settings).expect("sender").send(&target, preset, secrets, alert, now).await;
    assert_eq!(outcome, Outcome::Delivered { detail: "answered 204 No Content".into() });
    receiver.only()
}

/// The system's time: the specification's library compares with it.
#[expect(clippy::disallowed_methods, reason = "the specification's library compares with the system's clock")]
pub fn system_now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).expect("millis")).expect("now")
}

#[tokio::test]
async fn a_receiver_gets_the_documented_body() {
    for (name, alert) in every_kind().into_iter().chain([("one_click", leavable_alert()), ("notice", notice_alert())]) {
        let (_, body) = post(&[secret()], &alert, now()).await;
        let json: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        insta::assert_snapshot!(format!("{name}.json"), serde_json::to_string_pretty(&json).expect("JSON"));
    }
}

#[tokio::test]
async fn a_receiver_gets_the_documented_headers() {
    let mut alert = late_alert();
    let (headers, _) = post(&[secret()], &alert, at("2025-07-30T01:30:00.750Z")).await;
    let text = |name: &str| headers.get(name).unwrap_or_else(|| panic!("{name}")).to_str().expect("ASCII").to_owned();
    assert_eq!(text("content-type"), "application/json");
    assert_eq!(text("user-agent"), concat!("throttler/", env!("CARGO_PKG_VERSION")));
    assert_eq!(text("webhook-id"), alert.id);
    assert_eq!(text("webhook-timestamp"), "1753839000");
    assert_eq!(text("ratelimit-policy"), "\"default\";q=74;w=53280");
    assert_eq!(text("ratelimit"), "\"default\";r=0;t=720");
    alert.explanation.remaining = 12;
    assert_eq!(post(&[secret()], &alert, now()).await.0["ratelimit"], "\"default\";r=12");
}

#[tokio::test]
async fn a_repeat_has_the_same_id_and_body_and_its_own_timestamp() {
    let (first, body) = post(&[secret()], &event_alert(), now()).await;
    let (second, again) = post(&[secret()], &event_alert(), now().plus(Span::from_seconds(60))).await;
    assert_eq!((&first["webhook-id"], body), (&second["webhook-id"], again));
    assert_ne!(
        (&first["webhook-timestamp"], &first["webhook-signature"]),
        (&second["webhook-timestamp"], &second["webhook-signature"])
    );
}

#[tokio::test]
async fn the_specification_s_own_library_verifies_the_signature() {
    let now = system_now();
    let (old, new, other) = (secret(), WebhookSecret::generate().expect("random"), WebhookSecret::generate().expect("random"));
    let (headers, body) = post(&[old.clone(), new.clone()], &event_alert(), now).await;
    assert_eq!(headers["webhook-signature"].to_str().expect("ASCII").split(' ').count(), 2);
    let verify = |secret: &WebhookSecret, body: &[u8]| {
        standardwebhooks::Webhook::new(&secret.expose()).expect("secret").verify(body, &headers).is_ok()
    };
    assert!(verify(&old, &body) && verify(&new, &body));
    assert!(!verify(&other, &body), "another secret");
    assert!(!verify(&old, &[&body[..], b" "].concat()), "another body");
}

#[tokio::test]
async fn each_status_means_what_is_documented() {
    let second = Span::from_seconds(1);
    let transient = |retry_after| (true, retry_after, false);
    let permanent = |disable| (false, None, disable);
    for (status, headers, expected) in [
        (301, vec![("location", "http://127.0.0.1:1/elsewhere")], permanent(false)),
        (307, vec![("location", "/elsewhere")], permanent(false)),
        (400, vec![], permanent(false)),
        (401, vec![], transient(None)),
        (403, vec![], transient(None)),
        (404, vec![], transient(None)),
        (405, vec![], permanent(false)),
        (408, vec![], transient(None)),
        (410, vec![], permanent(true)),
        (413, vec![], permanent(false)),
        (422, vec![], permanent(false)),
        (425, vec![], transient(None)),
        (429, vec![("retry-after", "120")], transient(Some(Span::from_seconds(120)))),
        (429, vec![("retry-after", "Tue, 29 Jul 2025 23:30:02 GMT")], transient(Some(Span::from_millis(100)))),
        (429, vec![("retry-after", "soon")], transient(None)),
        (500, vec![], transient(None)),
        (501, vec![], permanent(false)),
        (503, vec![("retry-after", "1")], transient(Some(second))),
        (504, vec![], transient(None)),
    ] {
        let receiver = Receiver::answering(status, &headers, "\r\n  no \u{1b}[31mroom \tleft\r\nsecond line").await;
        let outcome = attempt(open(), &receiver.url()).await;
        let (reason, found) = match outcome {
            Outcome::Transient { reason, retry_after, host_failed } => {
                assert_eq!(host_failed, status >= 500, "{status}: whose failure it is");
                (reason, (true, retry_after, false))
            }
            Outcome::Permanent { reason, disable } => (reason, (false, None, disable)),
            Outcome::Delivered { .. } => panic!("{status} is no success"),
        };
        assert_eq!(found, expected, "{status}: {reason}");
        assert!(reason.starts_with(&format!("answered {status} ")) && reason.contains(": no [31mroom left"), "{reason}");
        assert!(!reason.contains("second line") && !reason.contains("secret-path"), "{reason}");
        assert_eq!(receiver.requests(), 1, "{status}: no redirect is followed, nothing is repeated");
    }
}

#[tokio::test]
async fn every_2xx_is_a_success() {
    for status in [200, 201, 202, 204, 299] {
        let receiver = Receiver::answering(status, &[], "").await;
        assert!(matches!(attempt(open(), &receiver.url()).await, Outcome::Delivered { .. }), "{status}");
    }
}

#[tokio::test]
async fn no_answer_is_tried_again() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        format!("http://127.0.0.1:{}/secret-path", listener.local_addr().expect("address").port())
    };
    for (target, words) in [
        (closed, "no connection to 127.0.0.1: Connection refused"),
        (raw(b"", false, true).await, "no answer from 127.0.0.1: "),
        (raw(b"", false, false).await, "no answer from 127.0.0.1 in time"),
        (raw(b"HTTP/1.1 200", false, false).await, "no answer from 127.0.0.1 in time"),
        (raw(b"SSH-2.0-OpenSSH_9.2\r\n", false, true).await, "no answer from 127.0.0.1: "),
        (raw(b"", false, true).await.replace("http:", "https:"), "no connection to 127.0.0.1: "),
    ] {
        let settings = if words.ends_with("in time") { impatient() } else { open() };
        let outcome = attempt(settings, &target).await;
        let Outcome::Transient { reason, retry_after: None, host_failed: true } = outcome else { panic!("{outcome:?}") };
        assert!(reason.starts_with(words), "{reason}");
        assert!(!reason.contains("secret-path"), "{reason}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_short() {
    let refusal = raw(b"HTTP/1.1 500 Oops\r\ntransfer-encoding: identity\r\n\r\nlong story, ", true, true).await;
    let outcome = attempt(open(), &refusal).await;
    let Outcome::Transient { reason, .. } = outcome else { panic!("{outcome:?}") };
    assert!(reason.starts_with("answered 500 ") && reason.ends_with('…') && reason.chars().count() < 200, "{reason}");
    let success = raw(b"HTTP/1.1 200 OK\r\n\r\nlong story, ", true, true).await;
    assert!(matches!(attempt(open(), &success).await, Outcome::Delivered { .. }));
    // A success whose body never ends in time is a success.
    let stalled = raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nstory", false, false).await;
    assert!(matches!(attempt(impatient(), &stalled).await, Outcome::Delivered { .. }));
}

#[tokio::test]
async fn a_certificate_that_does_not_check_is_not_accepted() {
    crypto();
    let tls = crate::tls::Authority::new().acceptor("127.0.0.1");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let target = format!("https://127.0.0.1:{}/", listener.local_addr().expect("address").port());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = tls.accept(stream).await;
        }
    });
    let outcome = attempt(open(), &target).await;
    let Outcome::Transient { reason, .. } = outcome else { panic!("{outcome:?}") };
    assert!(reason.to_lowercase().contains("certificate"), "{reason}");
}

#[tokio::test]
async fn nothing_is_sent_unsigned_or_with_a_broken_header() {
    crypto();
    let receiver = Receiver::answering(200, &[], "").await;
    let sender = WebhookSender::new(open()).expect("sender");
    let unsigned = sender.send(&url(&receiver.url()), &Preset::Json, &[], &event_alert(), now()).await;
    assert!(matches!(unsigned, Outcome::Transient { .. }), "{unsigned:?}");
    let broken = sender.send(&url(&receiver.url()), &Preset::Json, &[secret()], &hostile_alert(), now()).await;
    assert!(matches!(broken, Outcome::Permanent { disable: false, .. }), "{broken:?}");
    assert_eq!(receiver.requests(), 0);
}

#[test]
fn secrets_keep_their_form_and_do_not_show() {
    let generated = WebhookSecret::generate().expect("random");
    assert_ne!(generated, WebhookSecret::generate().expect("random"));
    assert_eq!(generated.expose().parse::<WebhookSecret>().expect("its own text"), generated);
    assert_eq!(format!("{generated:?}"), "WebhookSecret(…)");
    assert_eq!(secret().expose(), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    for text in
        ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_%%%", &format!("whsec_{}", "A".repeat(88))]
    {
        let error = text.parse::<WebhookSecret>().expect_err(text);
        assert!(matches!(error, DeliveryError::Secret) && !error.to_string().contains("c2hvcnQ"), "{error}");
    }
}
