//! One HTTP client for all that is asked of the service: a request bounded in time and size, redirects that lead nowhere
//! else, and a name that tells who asks. What an answer means is for whoever asked.

use std::path::{Path, PathBuf};

use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, Response, StatusCode};
use tokio::time::timeout;
use url::Url;

use super::error::FeedError;
use super::source::is_loopback;
use super::wire;
use crate::backoff::parse_retry_after;
use crate::time::{Span, Timestamp};

/// The largest body, in bytes after unpacking. A month of all events has about 10 MB.
pub const MAX_BODY_BYTES: usize = 32 << 20;
/// The most redirects that one request follows.
const MAX_REDIRECTS: usize = 3;
/// The longest contact, in bytes.
const MAX_CONTACT_BYTES: usize = 200;
/// The largest file of certificates.
const MAX_CA_FILE_BYTES: u64 = 4 << 20;
/// What is wrong with a file of certificates that can be read.
const NO_CERTIFICATES: &str = "expected certificates in PEM";

/// Who asks, and how patiently.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How the service can reach the operator, like an email address; sent with the product's name.
    pub contact: Option<String>,
    pub timeouts: Timeouts,
    /// When the last snapshot that was kept was made: an older one is nothing new, also after a restart.
    pub last_generated_at: Option<Timestamp>,
    /// Additional root certificates, in PEM.
    pub ca_file: Option<PathBuf>,
}

/// How long one request may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Span,
    /// From the start until the answer begins.
    pub first_byte: Span,
    /// From the start until the answer is read.
    pub whole: Span,
}

impl Default for Timeouts {
    /// Ten seconds to connect, twenty to begin, sixty for all.
    fn default() -> Timeouts {
        Timeouts { connect: Span::from_seconds(10), first_byte: Span::from_seconds(20), whole: Span::from_seconds(60) }
    }
}

/// The client.
#[derive(Debug)]
pub(super) struct Http {
    client: Client,
    timeouts: Timeouts,
}

/// What came back: the whole body of a 200, the beginning of any other.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Http {
    /// A client for the host of `url` that wants `accept`. Nothing is sent.
    pub fn new(url: &Url, accept: &'static str, settings: &Settings) -> Result<Http, FeedError> {
        // Without one, reqwest panics.
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(FeedError::NoCryptoProvider { url: url.to_string() });
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        let mut builder = Client::builder()
            .user_agent(user_agent(settings.contact.as_deref())?)
            .default_headers(headers)
            .connect_timeout(settings.timeouts.connect.to_std())
            .redirect(Policy::custom(follow));
        // What runs on this machine is not asked through a proxy.
        if is_loopback(url) {
            builder = builder.no_proxy();
        }
        if let Some(path) = &settings.ca_file {
            builder = builder.tls_certs_merge(certificates(path)?);
        }
        let client = builder.build().map_err(|source| match &settings.ca_file {
            // Nothing else of what is set up here comes from outside and is not checked yet.
            Some(path) => FeedError::CaFile { path: path.clone(), fault: NO_CERTIFICATES },
            None => FeedError::Client { url: url.to_string(), source },
        })?;
        Ok(Http { client, timeouts: settings.timeouts })
    }

    /// Asks once. Dropping the future loses nothing.
    pub async fn get(&self, url: &Url, headers: HeaderMap) -> Result<Answer, FeedError> {
        let whole = self.timeouts.whole;
        let exchange = async {
            let mut response = self.ask(url, headers).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let body = if status == StatusCode::OK {
                body(url, response).await?
            } else {
                // For a message only: its beginning, if it can be had.
                response.chunk().await.ok().flatten().unwrap_or_default().to_vec()
            };
            Ok(Answer { status, headers, body })
        };
        match timeout(whole.to_std(), exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(FeedError::Timeout { url: url.to_string(), step: "to answer in full", limit: whole }),
        }
    }

    async fn ask(&self, url: &Url, headers: HeaderMap) -> Result<Response, FeedError> {
        let (limit, shown) = (self.timeouts.first_byte, || url.to_string());
        match timeout(limit.to_std(), self.client.get(url.clone()).headers(headers).send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_timeout() => {
                Err(FeedError::Timeout { url: shown(), step: "to connect", limit: self.timeouts.connect })
            }
            Ok(Err(error)) if error.is_redirect() => Err(FeedError::Redirect { url: shown(), source: Some(error.without_url()) }),
            Ok(Err(error)) => Err(FeedError::Unreachable { url: shown(), source: error.without_url() }),
            Err(_) => Err(FeedError::Timeout { url: shown(), step: "to begin its answer", limit }),
        }
    }
}

impl Answer {
    /// What an answer means that is none of the `expected` ones.
    pub fn refusal(&self, url: &Url, expected: &'static str, now: Timestamp) -> FeedError {
        if self.status.is_redirection() {
            return FeedError::Redirect { url: url.to_string(), source: None };
        }
        let header = self.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|text| parse_retry_after(text, now));
        let text = wire::excerpt(&String::from_utf8_lossy(&self.body));
        let found = if text.is_empty() { "nothing".to_owned() } else { format!("'{text}'") };
        FeedError::Status { url: url.to_string(), status: self.status.as_u16(), expected, retry_after, found }
    }
}

/// The body, unpacked; given up as soon as it is too large.
async fn body(url: &Url, mut response: Response) -> Result<Vec<u8>, FeedError> {
    let too_large = || FeedError::TooLarge { origin: url.to_string() };
    // Known before only if it comes unpacked.
    if response.content_length().is_some_and(|length| length > MAX_BODY_BYTES as u64) {
        return Err(too_large());
    }
    let mut body = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| FeedError::Body { url: url.to_string(), source: error.without_url() })?;
        let Some(chunk) = chunk else { return Ok(body) };
        if body.len() + chunk.len() > MAX_BODY_BYTES {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, FeedError> {
    let wrong = |fault| FeedError::CaFile { path: path.to_owned(), fault };
    let readable = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_CA_FILE_BYTES);
    let pem = if readable { std::fs::read(path).ok() } else { None };
    let pem = pem.ok_or_else(|| wrong("expected a readable file of at most 4 MiB"))?;
    let found = Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
    found.ok_or_else(|| wrong(NO_CERTIFICATES))
}

/// `throttler/0.1.0 (+contact)`.
fn user_agent(contact: Option<&str>) -> Result<String, FeedError> {
    let product = concat!("throttler/", env!("CARGO_PKG_VERSION"));
    let Some(contact) = contact else { return Ok(product.to_owned()) };
    let is_plain = contact.bytes().all(|b| matches!(b, b' '..=b'~') && !b"()\\".contains(&b));
    if is_plain && (1..=MAX_CONTACT_BYTES).contains(&contact.len()) {
        Ok(format!("{product} (+{contact})"))
    } else {
        Err(FeedError::Contact(wire::excerpt(contact)))
    }
}

fn follow(attempt: Attempt) -> reqwest::redirect::Action {
    let from = attempt.previous().first();
    if attempt.previous().len() <= MAX_REDIRECTS && from.is_some_and(|from| may_lead_to(from, attempt.url())) {
        attempt.follow()
    } else {
        let refusal = format!("a redirect to {}", wire::excerpt(attempt.url().as_str()));
        attempt.error(refusal)
    }
}

/// Only to https on the same host, so that nobody can send the daemon elsewhere.
fn may_lead_to(from: &Url, to: &Url) -> bool {
    to.scheme() == "https" && to.host_str() == from.host_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_only_to_https_on_the_same_host() {
        let url = |text: &str| Url::parse(text).expect(text);
        let from = url("http://feed.example.org/4.5_day.geojson");
        for (to, allowed) in [
            ("https://feed.example.org/4.5_day.geojson", true),
            ("https://FEED.example.org/v2/4.5_day.geojson", true),
            ("http://feed.example.org/v2", false),
            ("https://example.org/4.5_day.geojson", false),
            ("https://feed.example.org.evil.example/", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(may_lead_to(&from, &url(to)), allowed, "{to}");
        }
    }
}
