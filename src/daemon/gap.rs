//! Closing gaps: after an outage longer than the feed reaches back, what came and went meanwhile is asked for once, of a
//! wider feed beside it, or of the FDSN service.

use std::fmt;
use std::sync::Arc;

use crate::backoff;
use crate::event::Magnitude;
use crate::feed::fdsn::{Fdsn, Question};
use crate::feed::{Feed, FeedError, FeedUrl, Poll, Settings, Snapshot};
use crate::time::{Span, Timestamp};

/// An event is in the feed only so long after its origin: what happened shortly before the outage came during it.
const PUBLISHED_WITHIN: Span = Span::from_seconds(20 * 60);
/// How far before the outage the FDSN service is asked for origins: remote events come up to a day late.
const LATE: Span = Span::from_seconds(86_400);
/// The first and the longest pause between attempts that fail.
const RETRY: Span = Span::from_seconds(60);
const RETRY_MAX: Span = Span::from_seconds(1_800);

/// Knows whom to ask.
#[derive(Debug, Default)]
pub struct GapCloser {
    settings: Settings,
    fdsn: Option<Arc<Fdsn>>,
    failures: u32,
    /// Not before this.
    next_at: Option<Timestamp>,
}

/// What was asked, and what it brought.
#[derive(Debug)]
pub struct Closed {
    pub asked: Asked,
    pub snapshot: Snapshot,
}

/// Who was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A feed that reaches over the gap.
    Wider(FeedUrl),
    /// The widest feed there is, and it does not.
    Widest(FeedUrl),
    /// The FDSN service.
    Fdsn(String),
}

impl GapCloser {
    /// Asks the feeds beside the configured one with these settings, and this service, which should be an impatient one.
    #[must_use]
    pub fn new(settings: Settings, fdsn: Option<Arc<Fdsn>>) -> GapCloser {
        GapCloser { settings, fdsn, failures: 0, next_at: None }
    }

    /// Whether content since `known_until` may be missing from a feed at this address that is read at `now`. Not if it is
    /// unknown how far it reaches back.
    #[must_use]
    pub fn is_gap(url: &FeedUrl, known_until: Timestamp, now: Timestamp) -> bool {
        url.reach().is_some_and(|reach| to_bridge(known_until, now) > reach)
    }

    /// Whether there is anybody to ask about a gap in the feed at this address.
    #[must_use]
    pub fn can_ask(&self, url: &FeedUrl) -> bool {
        self.fdsn.is_some() || !url.wider().is_empty()
    }

    /// What the gap may have swallowed, as it is known now. `None`: not yet, or there is nobody to ask.
    ///
    /// # Errors
    /// [`FeedError`] if whoever was asked did not answer well; it is tried again after a while.
    pub async fn close(
        &mut self,
        url: &FeedUrl,
        since: Timestamp,
        min_magnitude: Magnitude,
        now: Timestamp,
    ) -> Result<Option<Closed>, FeedError> {
        // A clock that was set back does not make it wait longer than the longest pause.
        if self.next_at.is_some_and(|next| now < next && next.since(now) <= backoff::MAX_RETRY_AFTER) {
            return Ok(None);
        }
        match self.ask(url, since, min_magnitude, now).await {
            Ok(closed) => {
                (self.failures, self.next_at) = (0, None);
                Ok(closed)
            }
            Err(fault) => {
                self.failures = self.failures.saturating_add(1);
                let random = getrandom::u64().unwrap_or(u64::MAX);
                let delay = RETRY.max(backoff::delay(self.failures, RETRY, RETRY_MAX, random));
                self.next_at = Some(now.plus(backoff::at_least(delay, fault.retry_after())));
                Err(fault)
            }
        }
    }

    async fn ask(
        &self,
        url: &FeedUrl,
        since: Timestamp,
        min_magnitude: Magnitude,
        now: Timestamp,
    ) -> Result<Option<Closed>, FeedError> {
        let wider = url.wider();
        let bridges = wider.iter().find(|(_, reach)| *reach >= to_bridge(since, now));
        if let Some((wider, _)) = bridges {
            let snapshot = self.poll(wider, now).await?;
            return Ok(Some(Closed { asked: Asked::Wider(wider.clone()), snapshot }));
        }
        if let Some(fdsn) = &self.fdsn {
            let (from, updated_after) = (since.minus(LATE), since.minus(PUBLISHED_WITHIN));
            let to = now.plus(crate::news::CLOCK_TOLERANCE);
            let question = Question { from, to, min_magnitude: Some(min_magnitude), kinds: Vec::new() };
            let snapshot = fdsn.all(&question, Some(updated_after), now).await?;
            return Ok(Some(Closed { asked: Asked::Fdsn(fdsn.url().to_string()), snapshot }));
        }
        let Some((widest, _)) = wider.last() else { return Ok(None) };
        let snapshot = self.poll(widest, now).await?;
        Ok(Some(Closed { asked: Asked::Widest(widest.clone()), snapshot }))
    }

    async fn poll(&self, url: &FeedUrl, now: Timestamp) -> Result<Snapshot, FeedError> {
        match Feed::new(url.clone(), &self.settings)?.poll(now).await? {
            Poll::Fresh(snapshot) => Ok(snapshot),
            // A feed that was never asked has nothing to be the same as.
            Poll::Unchanged => Ok(Snapshot::default()),
        }
    }
}

fn to_bridge(since: Timestamp, now: Timestamp) -> Span {
    now.since(since.minus(PUBLISHED_WITHIN))
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Wider(url) => write!(f, "{url}"),
            Asked::Widest(url) => {
                write!(f, "{url}, which does not reach back so far either; feed.fdsn names a service that does")
            }
            Asked::Fdsn(url) => write!(f, "{url}"),
        }
    }
}
