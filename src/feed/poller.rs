//! Polling one feed: a conditional request, or a file read, and what the answer means. When to poll, and how long to wait
//! after a failure, is the caller's business; see `backoff`.

use std::path::{Path, PathBuf};

use reqwest::StatusCode;
use reqwest::header::{self, HeaderMap, HeaderValue};
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::error::FeedError;
use super::http::{Http, MAX_BODY_BYTES, Settings, Timeouts};
use super::source::FeedUrl;
use super::wire::{self, Snapshot};
use crate::time::{Span, Timestamp};

/// A snapshot that claims to be made later than this after `now` is not believed when older ones are told apart.
const MAX_AHEAD: Span = Span::from_seconds(86_400);
/// What a feed is asked for.
const ACCEPT: &str = "application/geo+json, application/json, text/csv, text/plain";

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
    Http(Http),
    File(PathBuf),
}

/// Which version of the feed an answer was.
#[derive(Clone, Debug, Default)]
struct Version {
    generated_at: Option<Timestamp>,
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
}

impl Feed {
    /// A feed that has not been polled yet. Nothing is sent.
    ///
    /// # Errors
    /// [`FeedError::NoCryptoProvider`] if no provider of cryptography for TLS is installed in this process (a file needs
    /// none), [`FeedError::Contact`], [`FeedError::CaFile`] and [`FeedError::Client`].
    pub fn new(url: FeedUrl, settings: &Settings) -> Result<Feed, FeedError> {
        let source = match url.file_path() {
            Some(path) => Source::File(path),
            None => Source::Http(Http::new(url.as_url(), ACCEPT, settings)?),
        };
        let accepted = Version { generated_at: settings.last_generated_at, ..Version::default() };
        Ok(Feed { url, source, timeouts: settings.timeouts, accepted, offered: None })
    }

    /// The same feed under other settings, which goes on where `before` is: nothing if it is another feed.
    #[must_use]
    pub fn carrying_on(mut self, before: &Feed) -> Feed {
        if self.url == before.url {
            self.accepted = before.accepted.clone();
        }
        self
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
            Source::Http(http) => self.fetch(http, now).await?,
            Source::File(path) => Some((self.read(path).await?, HeaderMap::new())),
        };
        let Some((body, headers)) = answer else { return Ok(Poll::Unchanged) };
        let nothing = body.is_empty() && self.url.is_query();
        let snapshot = if nothing { Snapshot::default() } else { wire::parse_from(&body, &self.url.service())? };
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
    async fn fetch(&self, http: &Http, now: Timestamp) -> Result<Option<(Vec<u8>, HeaderMap)>, FeedError> {
        let mut conditions = HeaderMap::new();
        let known = [(header::IF_NONE_MATCH, &self.accepted.etag), (header::IF_MODIFIED_SINCE, &self.accepted.last_modified)];
        for (name, value) in known {
            conditions.extend(value.clone().map(|value| (name, value)));
        }
        let answer = http.get(self.url.as_url(), conditions).await?;
        match answer.status {
            StatusCode::NOT_MODIFIED => Ok(None),
            StatusCode::OK => Ok(Some((answer.body, answer.headers))),
            StatusCode::NO_CONTENT if self.url.is_query() => Ok(Some((Vec::new(), answer.headers))),
            _ => Err(answer.refusal(self.url.as_url(), "200 or 304", now)),
        }
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
