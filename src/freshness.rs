//! Whether what is known of the feed is fresh: a pure question about its last successful poll and when its content was made.

use std::fmt;

use crate::time::{Span, Timestamp};

/// What is known of the feed's polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    /// The last successful poll, also one that found nothing new; `None` before the first.
    pub polled_at: Option<Timestamp>,
    /// When the newest content was made, where the feed says so.
    pub generated_at: Option<Timestamp>,
    /// Since when content may be missing, because of an outage that the feed did not bridge.
    pub gap_since: Option<Timestamp>,
}

/// How fresh the feed is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    Fresh,
    /// Nothing newer than `since`, for longer than is allowed.
    Stale {
        since: Timestamp,
        cause: Cause,
    },
}

/// Why nothing is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No poll has succeeded.
    NoPoll,
    /// Polls succeed, but the service makes no new content.
    OldContent,
}

impl FeedState {
    /// Until when the feed's content is known: when the newest was made, or else seen.
    #[must_use]
    pub fn known_until(&self) -> Option<Timestamp> {
        // Content cannot be made after it was seen; where it claims so, clocks differ.
        match (self.polled_at, self.generated_at) {
            (Some(polled), Some(generated)) => Some(polled.min(generated)),
            (polled, _) => polled,
        }
    }

    /// How fresh the feed is at `now`. Before the first successful poll it counts from `watching_since`.
    #[must_use]
    pub fn freshness(&self, watching_since: Timestamp, stale_after: Span, now: Timestamp) -> Freshness {
        let polled_at = self.polled_at.unwrap_or(watching_since);
        if now.since(polled_at) > stale_after {
            return Freshness::Stale { since: polled_at, cause: Cause::NoPoll };
        }
        match self.generated_at {
            Some(since) if now.since(since) > stale_after => Freshness::Stale { since, cause: Cause::OldContent },
            _ => Freshness::Fresh,
        }
    }
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Freshness::Fresh => write!(f, "the feed is fresh"),
            Freshness::Stale { since, cause: Cause::NoPoll } => {
                write!(f, "the feed is stale: no poll has succeeded since {since}")
            }
            Freshness::Stale { since, cause: Cause::OldContent } => {
                write!(f, "the feed is stale: its service has made nothing new since {since}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_stale_when_it_is_not_read_or_not_renewed() {
        let at = |minutes: u64| Timestamp::saturating_from_ticks(0).plus(Span::from_seconds(60 * minutes));
        let half_an_hour = Span::from_seconds(1_800);
        let stale = |minutes, cause| Freshness::Stale { since: at(minutes), cause };
        for (polled, generated, now, expected) in [
            (None, None, 30, Freshness::Fresh),
            (None, None, 31, stale(0, Cause::NoPoll)),
            (Some(100), None, 130, Freshness::Fresh),
            (Some(100), None, 131, stale(100, Cause::NoPoll)),
            (Some(100), Some(99), 129, Freshness::Fresh),
            (Some(100), Some(60), 100, stale(60, Cause::OldContent)),
            (Some(100), Some(60), 200, stale(100, Cause::NoPoll)),
            (Some(100), Some(9_000), 110, Freshness::Fresh),
        ] {
            let known = FeedState { polled_at: polled.map(at), generated_at: generated.map(at), gap_since: None };
            assert_eq!(known.freshness(at(0), half_an_hour, at(now)), expected, "{known:?} at {now}");
        }
    }

    #[test]
    fn content_is_known_until_it_was_made() {
        let at = |seconds| Some(Timestamp::saturating_from_ticks(0).plus(Span::from_seconds(seconds)));
        let until = |polled_at, generated_at| FeedState { polled_at, generated_at, gap_since: None }.known_until();
        assert_eq!(until(at(9), at(5)), at(5));
        assert_eq!(until(at(9), at(900)), at(9));
        assert_eq!((until(at(9), None), until(None, at(5))), (at(9), None));
    }
}
