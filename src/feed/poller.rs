//! Polling one feed: a conditional request, bounded in time and size, and what the answer means. When to poll, and how long
//! to wait after a failure, is the caller's business; see `backoff`.

use std::path::{Path, PathBuf};

use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, Response, StatusCode};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;
use url::Url;

use super::error::FeedError;
use super::source::FeedUrl;
use super::wire::{self, Snapshot};
use crate::backoff::parse_retry_after;
use crate::time::{Span, Timestamp};

/// The largest body, in bytes after unpacking. A month of all events has about 10 MB.
pub const MAX_BODY_BYTES: usize = 32 << 20;
/// The most redirects that one poll follows.
const MAX_REDIRECTS: usize = 3;
/// The longest contact, in bytes.
const MAX_CONTACT_BYTES: usize = 200;
/// A snapshot that claims to be made later than this after `now` is not believed when older ones are told apart.
const MAX_AHEAD: Span = Span::from_seconds(86_400);

/// How a feed is polled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// How the service can reach the operator, like an email address; sent with the product's name.
    pub contact: Option<String>,
    pub timeouts: Timeouts,
    /// When the last snapshot that was kept was made: an older one is nothing new, also after a restart.
    pub last_generated_at: Option<Timestamp>,
}

/// How long one poll may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands, TLS included.
    pub connect: Span,
    /// From the start until the answer begins.
    pub first_byte: Span,
    /// From the start until the answer is read.
    pub whole: Span,
}

/// What a poll brought.
#[derive(Clone, Debug, PartialEq)]
pub enum Poll {
    Fresh(Snapshot),
    /// The same as last time, or older.
    Unchanged,
}

/// One feed and what is known of its last answer.
#[derive(Debug)]
pub struct Feed {
    url: FeedUrl,
    source: Source,
    timeouts: Timeouts,
    accepted: Version,
    /// Of the last poll's fresh snapshot, until it is accepted.
    offered: Option<Version>,
}

/// Where the bytes come from.
#[derive(Debug)]
enum Source {
    Http(Client),
    File(PathBuf),
}

/// Which version of the feed an answer was.
#[derive(Clone, Debug, Default)]
struct Version {
    generated_at: Option<Timestamp>,
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

impl Default for Timeouts {
    /// Ten seconds to connect, twenty to begin, sixty for all.
    fn default() -> Timeouts {
        Timeouts { connect: Span::from_seconds(10), first_byte: Span::from_seconds(20), whole: Span::from_seconds(60) }
    }
}

impl Feed {
    /// A feed that has not been polled yet. Nothing is sent.
    ///
    /// # Errors
    /// [`FeedError::NoCryptoProvider`] if no provider of cryptography for TLS is installed in this process (a file needs
    /// none), [`FeedError::Contact`] and [`FeedError::Client`].
    pub fn new(url: FeedUrl, settings: &Settings) -> Result<Feed, FeedError> {
        let source = match url.file_path() {
            Some(path) => Source::File(path),
            None => Source::Http(client(&url, settings)?),
        };
        let accepted = Version { generated_at: settings.last_generated_at, ..Version::default() };
        Ok(Feed { url, source, timeouts: settings.timeouts, accepted, offered: None })
    }

    /// The feed's address.
    #[must_use]
    pub fn url(&self) -> &FeedUrl {
        &self.url
    }

    /// Asks the feed once. `now` is needed for dates in the answer. Dropping the future loses nothing.
    ///
    /// Until [`Feed::accept`] is called, the same snapshot is fresh again: what could not be kept is not lost.
    ///
    /// # Errors
    /// Any of [`FeedError`] that is not about setting up.
    pub async fn poll(&mut self, now: Timestamp) -> Result<Poll, FeedError> {
        self.offered = None;
        let answer = match &self.source {
            Source::Http(client) => self.fetch(client, now).await?,
            Source::File(path) => Some((self.read(path).await?, HeaderMap::new())),
        };
        let Some((body, headers)) = answer else { return Ok(Poll::Unchanged) };
        let snapshot = wire::parse(&body)?;
        let believable = |at: &Timestamp| *at <= now.plus(MAX_AHEAD);
        let seen = self.accepted.generated_at.filter(believable);
        // A cache on the way may hand out a copy that is older than what it gave before.
        if snapshot.generated_at.is_some_and(|at| Some(at) < seen) {
            return Ok(Poll::Unchanged);
        }
        self.offered = Some(Version {
            generated_at: snapshot.generated_at.or(seen),
            etag: headers.get(header::ETAG).cloned(),
            last_modified: headers.get(header::LAST_MODIFIED).cloned(),
        });
        Ok(Poll::Fresh(snapshot))
    }

    /// The last poll's fresh snapshot has been kept: from now on the feed is asked for what is newer. Nothing otherwise.
    pub fn accept(&mut self) {
        if let Some(version) = self.offered.take() {
            self.accepted = version;
        }
    }

    /// The body and its headers; `None` if the feed has not changed.
    async fn fetch(&self, client: &Client, now: Timestamp) -> Result<Option<(Vec<u8>, HeaderMap)>, FeedError> {
        let whole = self.timeouts.whole;
        let exchange = async {
            let response = self.ask(client).await?;
            match response.status() {
                StatusCode::NOT_MODIFIED => Ok(None),
                StatusCode::OK => {
                    let headers = response.headers().clone();
                    Ok(Some((self.body(response).await?, headers)))
                }
                _ => Err(self.refusal(response, now).await),
            }
        };
        match timeout(whole.to_std(), exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(FeedError::Timeout { url: self.url.to_string(), step: "to answer in full", limit: whole }),
        }
    }

    async fn ask(&self, client: &Client) -> Result<Response, FeedError> {
        let mut request = client.get(self.url.as_url().clone());
        if let Some(etag) = &self.accepted.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        if let Some(last_modified) = &self.accepted.last_modified {
            request = request.header(header::IF_MODIFIED_SINCE, last_modified);
        }
        let limit = self.timeouts.first_byte;
        let url = || self.url.to_string();
        match timeout(limit.to_std(), request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_timeout() => {
                Err(FeedError::Timeout { url: url(), step: "to connect", limit: self.timeouts.connect })
            }
            Ok(Err(error)) if error.is_redirect() => Err(FeedError::Redirect { url: url(), source: Some(error.without_url()) }),
            Ok(Err(error)) => Err(FeedError::Unreachable { url: url(), source: error.without_url() }),
            Err(_) => Err(FeedError::Timeout { url: url(), step: "to begin its answer", limit }),
        }
    }

    /// The body, unpacked; given up as soon as it is too large.
    async fn body(&self, mut response: Response) -> Result<Vec<u8>, FeedError> {
        let too_large = || FeedError::TooLarge { origin: self.url.to_string() };
        // Known before only if it comes unpacked.
        if response.content_length().is_some_and(|length| length > MAX_BODY_BYTES as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await;
            let chunk = chunk.map_err(|error| FeedError::Body { url: self.url.to_string(), source: error.without_url() })?;
            let Some(chunk) = chunk else { return Ok(body) };
            if body.len() + chunk.len() > MAX_BODY_BYTES {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
    }

    /// What an answer means that is neither the feed nor "not modified".
    async fn refusal(&self, mut response: Response, now: Timestamp) -> FeedError {
        let status = response.status();
        if status.is_redirection() {
            return FeedError::Redirect { url: self.url.to_string(), source: None };
        }
        let header = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = header.and_then(|text| parse_retry_after(text, now));
        // For the message only: its beginning, if it can be had.
        let beginning = response.chunk().await.ok().flatten().unwrap_or_default();
        let text = wire::excerpt(&String::from_utf8_lossy(&beginning));
        let found = if text.is_empty() { "nothing".to_owned() } else { format!("'{text}'") };
        FeedError::Status { url: self.url.to_string(), status: status.as_u16(), retry_after, found }
    }

    async fn read(&self, path: &Path) -> Result<Vec<u8>, FeedError> {
        let limit = self.timeouts.whole;
        match timeout(limit.to_std(), read_bounded(path)).await {
            Ok(Ok(body)) if body.len() > MAX_BODY_BYTES => Err(FeedError::TooLarge { origin: path.display().to_string() }),
            Ok(Ok(body)) => Ok(body),
            Ok(Err(source)) => Err(FeedError::File { path: path.display().to_string(), source }),
            Err(_) => Err(FeedError::Timeout { url: self.url.to_string(), step: "to be read", limit }),
        }
    }
}

/// A regular file, up to one byte more than [`MAX_BODY_BYTES`].
async fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    // Opening a pipe would wait for a writer.
    if !tokio::fs::metadata(path).await?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut body = Vec::new();
    tokio::fs::File::open(path).await?.take(MAX_BODY_BYTES as u64 + 1).read_to_end(&mut body).await?;
    Ok(body)
}

fn client(url: &FeedUrl, settings: &Settings) -> Result<Client, FeedError> {
    // Without one, reqwest panics.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(FeedError::NoCryptoProvider { url: url.to_string() });
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/geo+json, application/json"));
    let builder = Client::builder()
        .user_agent(user_agent(settings.contact.as_deref())?)
        .default_headers(headers)
        .connect_timeout(settings.timeouts.connect.to_std())
        .redirect(Policy::custom(follow));
    // What runs on this machine is not asked through a proxy.
    let builder = if url.is_loopback() { builder.no_proxy() } else { builder };
    builder.build().map_err(|source| FeedError::Client { url: url.to_string(), source })
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
