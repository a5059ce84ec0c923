//! One request of the service, and the same again where that can help. What goes into a catalogue is `download`'s.

use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use tokio::time::sleep;
use url::Url;

use super::slices::Slices;
use super::{FdsnUrl, Question, SEARCH_LIMIT};
use crate::backoff;
use crate::event::EventId;
use crate::feed::error::FeedError;
use crate::feed::http::{Answer, Http, Settings, Timeouts};
use crate::feed::wire::{self, Snapshot};
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// What the service is asked for.
const ACCEPT: &str = "application/geo+json, application/json, text/csv, text/plain";
/// How the service says that a question has too many answers.
const OVER_THE_LIMIT: &str = "exceeds search limit";

/// The most requests for what a poll lacks. A whole catalogue may take any number.
const MAX_REQUESTS: u64 = 64;

/// Tells the time, for the dates in answers.
pub type Now<'a> = &'a (dyn Fn() -> Timestamp + Send + Sync);

/// How often, and how far apart, the same is asked again when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How often in all, at least once.
    pub attempts: u32,
    /// The ceiling of the first wait; it doubles with every further one.
    pub base: Span,
    /// The longest wait. A service that asks for more is given up.
    pub max: Span,
}

/// A service.
#[derive(Debug)]
pub struct Fdsn {
    url: FdsnUrl,
    http: Http,
    patience: Patience,
}

/// How many events match, and how many the service gives at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub events: u64,
    pub limit: u64,
}

impl Patience {
    /// Six attempts within a few minutes; hardly any wait for what runs on this machine.
    #[must_use]
    pub fn with(url: &FdsnUrl) -> Patience {
        let (base, max) = if url.is_loopback() { (10, 1_000) } else { (2_000, 300_000) };
        Patience { attempts: 6, base: Span::from_millis(base), max: Span::from_millis(max) }
    }
}

impl Fdsn {
    /// The most time that a request for a catalogue may take: wide queries are slow.
    pub const TIMEOUTS: Timeouts =
        Timeouts { connect: Span::from_seconds(10), first_byte: Span::from_seconds(90), whole: Span::from_seconds(300) };

    /// A service. Nothing is sent.
    ///
    /// # Errors
    /// As [`Feed::new`](crate::feed::Feed::new).
    pub fn new(url: FdsnUrl, settings: &Settings) -> Result<Fdsn, FeedError> {
        let http = Http::new(url.as_url(), ACCEPT, settings)?;
        let patience = Patience::with(&url);
        Ok(Fdsn { url, http, patience })
    }

    /// The same service, asked once for each thing: whoever asks comes again.
    #[must_use]
    pub fn impatient(self) -> Fdsn {
        Fdsn { patience: Patience { attempts: 1, ..self.patience }, ..self }
    }

    /// The service's address.
    #[must_use]
    pub fn url(&self) -> &FdsnUrl {
        &self.url
    }

    /// How many events match, all seconds that the span touches included; asked again where that can help.
    ///
    /// # Errors
    /// [`FeedError`] of the last attempt.
    pub async fn count(&self, question: &Question, now: Now<'_>) -> Result<Counted, FeedError> {
        let (from, to) = question.seconds();
        let mut parameters = question.parameters(from, to);
        parameters.push(("format", "geojson".into()));
        let url = self.url.ask("count", &parameters);
        let mut failures = 0;
        loop {
            let counted = self.get(&url, now()).await.and_then(|body| counted(&url, &body));
            match counted {
                Ok(counted) => return Ok(counted),
                Err(fault) => {
                    failures += 1;
                    self.wait(failures, fault).await?;
                }
            }
        }
    }

    /// The events of a question in one answer, as a feed shows them; once.
    ///
    /// # Errors
    /// [`FeedError::SearchLimit`] if they are too many for one answer, and as a poll.
    pub async fn snapshot(
        &self,
        question: &Question,
        updated_after: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Snapshot, FeedError> {
        let (from, to) = question.seconds();
        let mut parameters = question.parameters(from, to);
        parameters.extend([("format", "geojson".to_owned()), ("orderby", "time-asc".to_owned())]);
        parameters.extend(updated_after.map(|at| ("updatedafter", super::question::second(at.seconds()))));
        let url = self.url.ask("query", &parameters);
        let body = self.get(&url, now).await?;
        if body.is_empty() {
            return Ok(Snapshot::default());
        }
        in_the_body(&url, wire::parse(&body))
    }

    /// The same as [`Fdsn::snapshot`] in as many answers as it takes, at most `MAX_REQUESTS`.
    ///
    /// # Errors
    /// As [`Fdsn::snapshot`], with [`FeedError::SearchLimit`] where those answers do not do.
    pub async fn all(
        &self,
        question: &Question,
        updated_after: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Snapshot, FeedError> {
        let (from, to) = question.seconds();
        let mut slices = Slices::new(from, to, 0, SEARCH_LIMIT);
        let mut all = Snapshot::default();
        self.walk(&mut slices, MAX_REQUESTS, async |(first, last)| {
            let at = |seconds| Timestamp::saturating_from_ticks(i128::from(seconds) * i128::from(TICKS_PER_SECOND));
            let part = Question { from: at(first), to: at(last), ..question.clone() };
            let snapshot = self.snapshot(&part, updated_after, now).await?;
            let events = snapshot.events.len() as u64;
            all.events.extend(snapshot.events);
            all.rejected.extend(snapshot.rejected);
            Ok(events)
        })
        .await?;
        Ok(all)
    }

    /// Asks slice by slice until nothing is left, cutting what is too large and waiting where that can help: how many
    /// requests it took, at most `most`. `ask` gives how many events the slice held.
    pub(super) async fn walk(
        &self,
        slices: &mut Slices,
        most: u64,
        mut ask: impl AsyncFnMut((i64, i64)) -> Result<u64, FeedError>,
    ) -> Result<u64, FeedError> {
        let (mut requests, mut failures) = (0, 0);
        while let Some(slice) = slices.current() {
            if requests >= most {
                return Err(FeedError::SearchLimit { url: self.url.to_string() });
            }
            requests += 1;
            match ask(slice).await {
                Ok(events) => {
                    failures = 0;
                    slices.done(events);
                }
                Err(fault @ (FeedError::SearchLimit { .. } | FeedError::TooLarge { .. } | FeedError::TooManyFeatures)) => {
                    if !slices.halve() {
                        return Err(fault);
                    }
                }
                Err(fault) => {
                    let is_wide = is_strain(&fault);
                    failures += 1;
                    self.wait(failures, fault).await?;
                    // One that is a second long is asked for again as it is.
                    let _ = is_wide && slices.halve();
                }
            }
        }
        Ok(requests)
    }

    /// One event as the service knows it now; `None` if it knows none of this id. Once.
    ///
    /// # Errors
    /// [`FeedError::Deleted`] if the service says that it was, and as a poll.
    pub async fn event(&self, id: &EventId, now: Timestamp) -> Result<Option<Snapshot>, FeedError> {
        let url = self.url.ask("query", &[("eventid", id.to_string()), ("format", "geojson".into())]);
        let is = |fault: &FeedError, wanted: u16| {
            matches!(fault, FeedError::Status { status, .. } if *status == wanted)
                || matches!(fault, FeedError::Service { status, .. } if *status == u64::from(wanted))
        };
        let found = match self.get(&url, now).await {
            Ok(body) if body.is_empty() => return Ok(None),
            Ok(body) => wire::parse_one(&body),
            Err(fault) => Err(fault),
        };
        match found {
            Err(fault) if is(&fault, 409) => Err(FeedError::Deleted { url: url.into() }),
            Err(fault) if is(&fault, 404) => Ok(None),
            other => other.map(Some),
        }
    }

    /// The body of a good answer; empty if nothing matches. Once.
    pub(super) async fn get(&self, url: &Url, now: Timestamp) -> Result<Vec<u8>, FeedError> {
        let answer = self.http.get(url, HeaderMap::new()).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            StatusCode::NO_CONTENT => Ok(Vec::new()),
            _ if is_over_the_limit(&answer) => Err(FeedError::SearchLimit { url: url.to_string() }),
            _ => Err(answer.refusal(url, "200 or 204", now)),
        }
    }

    /// Waits before the next attempt, or gives up with the fault.
    pub(super) async fn wait(&self, failures: u32, fault: FeedError) -> Result<(), FeedError> {
        let Patience { attempts, base, max } = self.patience;
        let asked_for = fault.retry_after();
        if failures >= attempts || !fault.is_transient() || asked_for.is_some_and(|wait| wait > max) {
            return Err(fault);
        }
        let random = getrandom::u64().unwrap_or(u64::MAX);
        sleep(backoff::at_least(backoff::delay(failures, base, max, random), asked_for).to_std()).await;
        Ok(())
    }
}

/// Whether a smaller question may be answered where this one was not.
fn is_strain(fault: &FeedError) -> bool {
    match fault {
        FeedError::Status { status, .. } => matches!(status, 500..),
        FeedError::Service { status, .. } => *status >= 500,
        FeedError::Timeout { .. } | FeedError::Body { .. } | FeedError::NotGeoJson { .. } => true,
        _ => false,
    }
}

fn is_over_the_limit(answer: &Answer) -> bool {
    answer.status == StatusCode::BAD_REQUEST && String::from_utf8_lossy(&answer.body).contains(OVER_THE_LIMIT)
}

/// The error that a body states, in the service's terms.
pub(super) fn in_the_body<T>(url: &Url, read: Result<T, FeedError>) -> Result<T, FeedError> {
    match read {
        Err(FeedError::Service { message, .. }) if message.contains(OVER_THE_LIMIT) => {
            Err(FeedError::SearchLimit { url: url.to_string() })
        }
        other => other,
    }
}

/// `{"count":18738,"maxAllowed":20000}`, or the bare number of other services.
fn counted(url: &Url, body: &[u8]) -> Result<Counted, FeedError> {
    #[derive(serde::Deserialize)]
    struct Answer {
        count: u64,
        #[serde(rename = "maxAllowed")]
        limit: Option<u64>,
    }
    let text = String::from_utf8_lossy(body);
    let read = serde_json::from_str(&text).ok();
    let read = read.or_else(|| text.trim().parse().ok().map(|count| Answer { count, limit: None }));
    let Some(Answer { count, limit }) = read else {
        // An error that came with status 200 says so in its own words.
        in_the_body(url, wire::parse(body))?;
        return Err(FeedError::NotCatalogue { url: url.to_string(), found: format!("'{}'", wire::excerpt(&text)) });
    };
    Ok(Counted { events: count, limit: limit.unwrap_or(SEARCH_LIMIT).clamp(1, SEARCH_LIMIT) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_number_or_says_why_not() {
        let url = Url::parse("http://127.0.0.1/count").expect("a URL");
        let read = |text: &str| counted(&url, text.as_bytes());
        assert_eq!(read(r#"{"count":18738,"maxAllowed":20000}"#).ok(), Some(Counted { events: 18_738, limit: 20_000 }));
        assert_eq!(read("77\n").ok(), Some(Counted { events: 77, limit: SEARCH_LIMIT }));
        assert_eq!(read(r#"{"count":7,"maxAllowed":999999}"#).map(|counted| counted.limit).ok(), Some(SEARCH_LIMIT));
        let told = |text: &str| read(text).expect_err(text).to_string();
        assert!(told("<html>").contains("an HTML page"), "{}", told("<html>"));
        assert!(told("").contains("an empty body"));
        assert!(told("-1").contains("got '-1'"));
        let limit = r#"{"metadata":{"status":400,"error":"9 matching events exceeds search limit of 5."},"features":[]}"#;
        assert!(matches!(read(limit), Err(FeedError::SearchLimit { .. })));
    }
}
