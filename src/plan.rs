//! The plan: what becomes of one event for one subscriber, and of what was withheld when the limiter allows again.
//!
//! Pure: it changes the limiter it is given and answers with what to write; the store commits both together or neither.

use std::fmt;
use std::str::FromStr;

use crate::alert::{Content, Digest, Explanation, LATE_AFTER, MAX_DIGEST_EVENTS};
use crate::event::Event;
use crate::limiter::{Limiter, Outlook, Passage, Ruling, Verdict};
use crate::subscriber::{Excess, Mode, Subscriber};
use crate::time::{Span, Timestamp};

/// With `--excess delay`, what waited longer than this goes into a digest.
pub const MAX_WAIT: Span = Span::from_seconds(6 * 3_600);

/// What the ledger says of one event and one subscriber: exactly one at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// An alert stands in the outbox; its delivery tells the rest.
    Alerted,
    /// The limiter refused it and the ledger alone tells of it.
    Withheld,
    /// The limiter refused it; the next digest will tell of it.
    Pending,
    /// The limiter refused it; it waits for its turn.
    Waiting,
    /// A digest in the outbox tells of it.
    Digested,
    /// The limiter's state could not be read, so nothing was decided.
    Undecided,
}

/// The decision on one event for one subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub outcome: Outcome,
    /// Why, in one sentence.
    pub reason: String,
    /// Whether the limiter refused it, whatever became of it.
    pub refused: bool,
    /// What the limiter answers next to a request like this.
    pub outlook: Outlook,
    /// What to send and when, if it passes.
    pub message: Option<Message>,
    /// When to ask again on behalf of what is withheld now.
    pub wake_at: Option<Timestamp>,
}

/// What goes into the outbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub content: Content,
    pub explanation: Explanation,
    /// Not before this; later than the decision only out of a leaky bucket.
    pub due_at: Timestamp,
}

/// An event that was withheld and of which the subscriber is still to be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub event: Event,
    pub withheld_at: Timestamp,
}

/// What may be told now of what was withheld.
#[derive(Clone, Debug, PartialEq)]
pub enum Release {
    /// One message about these, given by their places in the list; the outcome is the same for all of them.
    Now { message: Box<Message>, outcome: Outcome, reason: String, held: Vec<usize> },
    /// Nothing before this.
    Later(Timestamp),
    /// Nothing ever, as things stand: the limiter cannot hold what it takes.
    Never,
}

/// Decides on an event that matches the subscriber's interest.
pub fn decide(subscriber: &Subscriber, limiter: &mut Limiter, event: &Event, now: Timestamp) -> Plan {
    let ruling = subscriber.policy.rule(limiter, event.magnitude, now);
    let reason = reason(subscriber, event, &ruling, now);
    let outlook = ruling.decision.outlook;
    let refused = !ruling.decision.admitted();
    if ruling.passes() || subscriber.mode == Mode::Shadow {
        let content = Content::Event { event: Box::new(event.clone()), late: now.since(event.origin_at) > LATE_AFTER };
        let explanation = explain(subscriber, limiter, reason.clone(), now);
        let due_at = if ruling.passage == Passage::Limiter { ruling.decision.departs_at } else { now };
        let message = Some(Message { content, explanation, due_at });
        return Plan { outcome: Outcome::Alerted, reason, refused, outlook, message, wake_at: None };
    }
    let ordinary = || limiter.outlook(now, subscriber.policy.request(None)).retry_at;
    let (outcome, wake_at) = match (subscriber.excess, ruling.passage) {
        (Excess::Digest, _) => (Outcome::Pending, ordinary()),
        (Excess::Delay, Passage::Withheld) => (Outcome::Waiting, outlook.retry_at),
        _ => (Outcome::Withheld, None),
    };
    Plan { outcome, reason, refused, outlook, message: None, wake_at }
}

/// Tells of what was withheld, if the limiter allows one message now: a digest costs one admission, a delayed event its own.
///
/// `held` is never empty and in any order. Call it again until it answers [`Release::Later`] or nothing is held.
pub fn release(subscriber: &Subscriber, limiter: &mut Limiter, held: &[Held], now: Timestamp) -> Release {
    let waited_too_long = |held: &Held| now.since(held.withheld_at) > MAX_WAIT;
    let due: Vec<usize> = match subscriber.excess {
        Excess::Delay if !held.iter().any(waited_too_long) => return release_largest(subscriber, limiter, held, now),
        Excess::Delay => (0..held.len()).filter(|&at| waited_too_long(&held[at])).collect(),
        Excess::Digest | Excess::Drop => (0..held.len()).collect(),
    };
    let decision = limiter.decide(now, subscriber.policy.request(None));
    if decision.verdict != Verdict::Admitted {
        return decision.outlook.retry_at.map_or(Release::Never, Release::Later);
    }
    let digest = digest(held, &due);
    let reason = format!("told in a digest of {}", digest.count);
    let explanation =
        explain(subscriber, limiter, "the limit allows a message again, so here is what it withheld".to_owned(), now);
    let message = Message { content: Content::Digest(digest), explanation, due_at: decision.departs_at };
    Release::Now { message: Box::new(message), outcome: Outcome::Digested, reason, held: due }
}

/// The turn of the largest that waits, the oldest among equals.
fn release_largest(subscriber: &Subscriber, limiter: &mut Limiter, held: &[Held], now: Timestamp) -> Release {
    let rank = |at: &usize| (held[*at].event.magnitude, std::cmp::Reverse(held[*at].withheld_at));
    let Some(largest) = (0..held.len()).max_by_key(rank) else { return Release::Never };
    let plan = decide(subscriber, limiter, &held[largest].event, now);
    match plan.message {
        Some(message) => {
            let reason = format!("waited its turn since {}; {}", held[largest].withheld_at, plan.reason);
            Release::Now { message: Box::new(message), outcome: Outcome::Alerted, reason, held: vec![largest] }
        }
        None => plan.wake_at.map_or(Release::Never, Release::Later),
    }
}

fn digest(held: &[Held], due: &[usize]) -> Digest {
    let mut told: Vec<&Held> = due.iter().map(|&at| &held[at]).collect();
    told.sort_by(|a, b| b.event.magnitude.cmp(&a.event.magnitude).then(a.event.origin_at.cmp(&b.event.origin_at)));
    Digest {
        since: told.iter().map(|held| held.withheld_at).min().unwrap_or(Timestamp::MIN),
        count: told.len() as u64,
        events: told.iter().take(MAX_DIGEST_EVENTS).map(|held| held.event.clone()).collect(),
    }
}

fn explain(subscriber: &Subscriber, limiter: &Limiter, reason: String, now: Timestamp) -> Explanation {
    let policy = &subscriber.policy;
    let outlook = limiter.outlook(now, policy.request(None));
    Explanation {
        reason,
        promise: policy.promise().to_string(),
        rate: policy.limit.rate(),
        burst: policy.limit.burst().into(),
        remaining: outlook.remaining,
        retry_at: outlook.retry_at.unwrap_or(outlook.reset_at),
        reset_at: outlook.reset_at,
    }
}

/// Why an event passed or not.
fn reason(subscriber: &Subscriber, event: &Event, ruling: &Ruling, now: Timestamp) -> String {
    let outlook = ruling.decision.outlook;
    let next = outlook.retry_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    let refusal = match ruling.passage {
        Passage::Limiter if ruling.decision.departs_at > now => {
            return format!("within the limit, leaves in its turn at {}", ruling.decision.departs_at);
        }
        Passage::Limiter => return format!("within the limit, which has room for {} more now", outlook.remaining),
        Passage::Always => {
            let from = subscriber.policy.always_from.map_or_else(String::new, |m| format!(" ({m})"));
            return format!("the limit is reached, but {} is large enough to pass always{from}", magnitude(event));
        }
        Passage::Withheld if subscriber.policy.request(event.magnitude).keep > 0 && outlook.remaining == 0 => {
            format!("the limit is reached or what is left is kept for large events; the next may pass at {next}")
        }
        Passage::Withheld => format!("the limit is reached; the next may pass at {next}"),
        Passage::Impossible => "it costs more than the limit ever allows at once".to_owned(),
    };
    if subscriber.mode == Mode::Shadow { format!("shadow mode: it would have been withheld, since {refusal}") } else { refusal }
}

fn magnitude(event: &Event) -> String {
    event.magnitude.map_or_else(|| "an unknown magnitude".to_owned(), |m| format!("M {m}"))
}

impl Outcome {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Outcome; 6] =
        [Outcome::Alerted, Outcome::Digested, Outcome::Pending, Outcome::Waiting, Outcome::Withheld, Outcome::Undecided];

    /// Its name in the ledger.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Alerted => "alerted",
            Outcome::Withheld => "withheld",
            Outcome::Pending => "pending",
            Outcome::Waiting => "waiting",
            Outcome::Digested => "digested",
            Outcome::Undecided => "undecided",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Outcome, String> {
        Outcome::ALL.into_iter().find(|outcome| outcome.name() == text).ok_or_else(|| format!("unknown outcome '{text}'"))
    }
}
