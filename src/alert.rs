//! The alert: what one message to one subscriber says. How it looks is `delivery`'s business; whether it goes is `plan`'s.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::identity::Change;
use crate::notice::{Notice, OPERATOR};
use crate::rate::Rate;
use crate::revision::before_and_after;
use crate::time::{Span, Timestamp};

/// An event first alerted longer than this after its origin is marked late.
pub const LATE_AFTER: Span = Span::from_seconds(3_600);
/// A digest lists at most this many events, the largest first; its count tells of all.
pub const MAX_DIGEST_EVENTS: usize = 50;

/// One message to one subscriber, as it stands in the outbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// The same at every attempt, so that a receiver can drop a repeat: the email's Message-ID, the webhook's id.
    pub id: String,
    /// The subscriber's name; [`OPERATOR`] of a notice.
    pub subscriber: String,
    pub created_at: Timestamp,
    pub content: Content,
    pub explanation: Explanation,
    /// The page on which its recipient leaves, where there is one. Put in when it is sent: the page may move while it waits.
    #[serde(skip)]
    pub unsubscribe_url: Option<String>,
}

/// What the message is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// One event that matches the subscriber's interest.
    Event {
        /// Shared by all to whom it goes.
        #[serde(with = "shared")]
        event: Arc<Event>,
        late: bool,
        /// Whether it was to be confirmed, and was not in time.
        #[serde(default)]
        unconfirmed: bool,
    },
    /// What was withheld since the last digest.
    Digest(Digest),
    /// An event that the subscriber was told of has changed.
    Update(Box<Update>),
    /// The service withdrew an event that the subscriber was told of.
    Withdrawal { event: Box<Event>, of: First },
    /// A test of the subscription that the operator asked for, with an event that never happened.
    Exercise(Box<Event>),
    /// To the operator, about the service itself.
    Notice(Notice),
}

/// The message that first told a subscriber of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct First {
    pub id: String,
    /// The alert's `created_at`.
    pub sent_at: Timestamp,
    /// Whether it was a digest, which may tell of other events as well.
    pub digest: bool,
}

/// What changed since the subscriber was last told of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Update {
    pub event: Event,
    /// As the subscriber was last told.
    pub before: Event,
    /// In the order of [`Change`], never empty.
    pub changes: Vec<Change>,
    pub of: First,
}

/// The events withheld from one subscriber, so that nothing is withheld in silence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Digest {
    /// When the first of them was withheld.
    pub since: Timestamp,
    /// How many were withheld.
    pub count: u64,
    /// The largest of them, largest first, at most [`MAX_DIGEST_EVENTS`]; never empty.
    pub events: Vec<Event>,
}

/// Why the message came and what may come next; every message ends with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Why it came, in one sentence.
    pub reason: String,
    /// What the limiter promises, in one sentence.
    pub promise: String,
    pub rate: Rate,
    /// The most that the limiter admits at once: the bucket, or the rate's N.
    pub burst: u64,
    /// How many more may come at once after this one.
    pub remaining: u64,
    /// When the next may come if nothing else happens; after `created_at`, while some remain, only for quiet hours.
    pub retry_at: Timestamp,
    /// When the limiter is back to full if nothing else happens.
    pub reset_at: Timestamp,
}

impl Alert {
    /// A test of `subscriber`'s subscription; its id is another at every `now`.
    #[must_use]
    pub fn exercise(subscriber: String, explanation: Explanation, now: Timestamp) -> Alert {
        let id = format!("exercise-{subscriber}-{}", now.ticks());
        let content = Content::Exercise(Box::new(Event::exercise(now)));
        Alert { id, subscriber, created_at: now, content, explanation, unsubscribe_url: None }
    }

    /// A message to the operator.
    #[must_use]
    pub fn notice(id: String, notice: Notice, explanation: Explanation, now: Timestamp) -> Alert {
        let content = Content::Notice(notice);
        Alert { id, subscriber: OPERATOR.to_owned(), created_at: now, content, explanation, unsubscribe_url: None }
    }

    /// Whether it is to the operator, who has no subscription to leave.
    #[must_use]
    pub fn is_notice(&self) -> bool {
        matches!(self.content, Content::Notice(_))
    }

    /// One line for people: a subject, a log line.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.content {
            Content::Event { event, late, unconfirmed } => {
                let late = if *late { " (late)" } else { "" };
                format!("{}{}{late}", event.title(), if *unconfirmed { " (unconfirmed)" } else { "" })
            }
            Content::Digest(digest) => match digest.events.first() {
                Some(largest) => format!("{} withheld, the largest {}", earthquakes(digest.count), largest.title()),
                None => format!("{} withheld", earthquakes(digest.count)),
            },
            Content::Exercise(event) => format!("EXERCISE: {}", event.title()),
            Content::Update(update) => update.title(),
            Content::Withdrawal { event, .. } => format!("WITHDRAWN: {}", event.title()),
            Content::Notice(notice) => notice.title(),
        }
    }

    /// The id of the message that first told of the event, where this is a later one.
    #[must_use]
    pub fn follows(&self) -> Option<&str> {
        match &self.content {
            Content::Update(update) => Some(&update.of.id),
            Content::Withdrawal { of, .. } => Some(&of.id),
            Content::Event { .. } | Content::Digest(_) | Content::Exercise(_) | Content::Notice(_) => None,
        }
    }

    /// The largest event that it tells of, for sending the most urgent first.
    #[must_use]
    pub fn largest(&self) -> Option<&Event> {
        self.content.largest()
    }
}

impl Content {
    /// The largest event in it.
    #[must_use]
    pub fn largest(&self) -> Option<&Event> {
        match self {
            Content::Event { event, .. } => Some(event),
            Content::Withdrawal { event, .. } | Content::Exercise(event) => Some(event),
            Content::Digest(digest) => digest.events.first(),
            Content::Update(update) => Some(&update.event),
            Content::Notice(_) => None,
        }
    }
}

impl Update {
    /// `UPDATE: M 5.0 → 5.7 - 24 km S of …`, or what else changed most: `UPDATE: M 5.7 - 24 km S of … (alert level none → orange)`.
    fn title(&self) -> String {
        let (before, event) = (&self.before, &self.event);
        if before.magnitude != event.magnitude {
            let was = before.magnitude.map_or_else(|| "?".to_owned(), |m| m.to_string());
            let title = event.title();
            return format!("UPDATE: M {was} → {}", title.strip_prefix("M ").unwrap_or(&title));
        }
        let urgent = [Change::Status, Change::Tsunami, Change::Pager, Change::Kind, Change::Place];
        let first = urgent.into_iter().find(|change| self.changes.contains(change)).or(self.changes.first().copied());
        let what = first.map_or_else(String::new, |change| {
            let (was, is) = before_and_after(change, before, event);
            format!(" ({change} {was} → {is})")
        });
        format!("UPDATE: {}{what}", event.title())
    }
}

/// An event behind a counter, written as the event itself.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::event::Event;

    pub fn serialize<S: Serializer>(event: &Event, serializer: S) -> Result<S::Ok, S::Error> {
        event.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Event>, D::Error> {
        Event::deserialize(deserializer).map(Arc::new)
    }
}

fn earthquakes(count: u64) -> String {
    if count == 1 { "1 event".to_owned() } else { format!("{count} events") }
}
