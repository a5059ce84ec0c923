//! The plan: what becomes of one event for one subscriber, and of what was withheld when the limiter allows again.
//!
//! Pure: it changes the limiter it is given and answers with what to write; the store commits both together or neither.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

use crate::alert::{Content, Digest, Explanation, LATE_AFTER, MAX_DIGEST_EVENTS};
use crate::event::{Event, Magnitude};
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

/// What was withheld, without its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withheld {
    pub magnitude: Option<Magnitude>,
    pub at: Timestamp,
}

/// The decision on one event for one subscriber, without words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub ruling: Ruling,
    pub outcome: Outcome,
    /// When to ask again on behalf of what is withheld now.
    pub wake_at: Option<Timestamp>,
}

/// Whose turn it is among what is withheld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// One message about all of these, given by their places in the list.
    Digest { told: Vec<usize>, departs_at: Timestamp },
    /// The one at this place, alone.
    Alone { at: usize, ruling: Ruling },
    /// Nobody's before this.
    Later(Timestamp),
    /// Nobody's ever, as things stand: the limiter cannot hold what it takes.
    Never,
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

/// Decides on an event of this magnitude that matches the subscriber's interest, without words: what a replay needs.
pub fn judge(subscriber: &Subscriber, limiter: &mut Limiter, magnitude: Option<Magnitude>, now: Timestamp) -> Judgement {
    let ruling = subscriber.policy.rule(limiter, magnitude, now);
    let outcome = match (subscriber.excess, ruling.passage) {
        _ if ruling.passes() || subscriber.mode == Mode::Shadow => Outcome::Alerted,
        (Excess::Digest, _) => Outcome::Pending,
        (Excess::Delay, Passage::Withheld) => Outcome::Waiting,
        _ => Outcome::Withheld,
    };
    let wake_for = match outcome {
        Outcome::Pending => Some(subscriber.policy.request(None)),
        Outcome::Waiting => Some(subscriber.policy.request(magnitude)),
        _ => None,
    };
    let wake_at = wake_for.and_then(|request| limiter.outlook(now, request).retry_at);
    Judgement { ruling, outcome, wake_at }
}

/// Decides on an event that matches the subscriber's interest, and says why.
pub fn decide(subscriber: &Subscriber, limiter: &mut Limiter, event: &Event, now: Timestamp) -> Plan {
    let Judgement { ruling, outcome, wake_at } = judge(subscriber, limiter, event.magnitude, now);
    let outlook = limiter.outlook(now, subscriber.policy.request(event.magnitude));
    let reason = reason(subscriber, event, &ruling, &outlook, now);
    let message = (outcome == Outcome::Alerted).then(|| {
        let late = now.since(event.origin_at) > LATE_AFTER;
        let content = Content::Event { event: Box::new(event.clone()), late };
        Message { content, explanation: explain(subscriber, limiter, reason.clone(), now), due_at: ruling.departs_at }
    });
    Plan { outcome, reason, refused: ruling.refused(), outlook, message, wake_at }
}

/// Whose turn it is among what is withheld, if the limiter allows one message now: a digest costs one admission, a delayed
/// event its own. The limiter records what it admits.
///
/// `withheld` is in any order. Ask again until it is [`Turn::Later`] or nothing is left.
pub fn turn(subscriber: &Subscriber, limiter: &mut Limiter, withheld: &[Withheld], now: Timestamp) -> Turn {
    let waited_too_long = |withheld: &Withheld| now.since(withheld.at) > MAX_WAIT;
    let told: Vec<usize> = match subscriber.excess {
        Excess::Delay if !withheld.iter().any(waited_too_long) => return turn_of_largest(subscriber, limiter, withheld, now),
        Excess::Delay => (0..withheld.len()).filter(|&at| waited_too_long(&withheld[at])).collect(),
        Excess::Digest | Excess::Drop => (0..withheld.len()).collect(),
    };
    let decision = limiter.decide(now, subscriber.policy.request(None));
    match decision.verdict {
        _ if told.is_empty() => Turn::Never,
        Verdict::Admitted => Turn::Digest { told, departs_at: decision.departs_at },
        _ => decision.outlook.retry_at.map_or(Turn::Never, Turn::Later),
    }
}

/// The turn of the largest that waits, the oldest among equals.
fn turn_of_largest(subscriber: &Subscriber, limiter: &mut Limiter, withheld: &[Withheld], now: Timestamp) -> Turn {
    let rank = |at: &usize| (withheld[*at].magnitude, Reverse(withheld[*at].at));
    let Some(largest) = (0..withheld.len()).max_by_key(rank) else { return Turn::Never };
    let judgement = judge(subscriber, limiter, withheld[largest].magnitude, now);
    match judgement.outcome {
        Outcome::Alerted => Turn::Alone { at: largest, ruling: judgement.ruling },
        _ => judgement.wake_at.map_or(Turn::Never, Turn::Later),
    }
}

/// Tells of what was withheld, if the limiter allows one message now, as [`turn`] says.
pub fn release(subscriber: &Subscriber, limiter: &mut Limiter, held: &[Held], now: Timestamp) -> Release {
    let withheld: Vec<Withheld> =
        held.iter().map(|held| Withheld { magnitude: held.event.magnitude, at: held.withheld_at }).collect();
    match turn(subscriber, limiter, &withheld, now) {
        Turn::Never => Release::Never,
        Turn::Later(at) => Release::Later(at),
        Turn::Digest { told, departs_at } => {
            let digest = digest(held, &told);
            let reason = format!("told in a digest of {}", digest.count);
            let why = "the limit allows a message again, so here is what it withheld".to_owned();
            let explanation = explain(subscriber, limiter, why, now);
            let message = Message { content: Content::Digest(digest), explanation, due_at: departs_at };
            Release::Now { message: Box::new(message), outcome: Outcome::Digested, reason, held: told }
        }
        Turn::Alone { at, ruling } => {
            let Held { event, withheld_at } = &held[at];
            let outlook = limiter.outlook(now, subscriber.policy.request(event.magnitude));
            let reason = format!("waited its turn since {withheld_at}; {}", reason(subscriber, event, &ruling, &outlook, now));
            let content = Content::Event { event: Box::new(event.clone()), late: now.since(event.origin_at) > LATE_AFTER };
            let explanation = explain(subscriber, limiter, reason.clone(), now);
            let message = Message { content, explanation, due_at: ruling.departs_at };
            Release::Now { message: Box::new(message), outcome: Outcome::Alerted, reason, held: vec![at] }
        }
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

/// Why an event passed or not, in one sentence without a full stop. `outlook` is the limiter's after the decision, for a
/// request like this.
#[must_use]
pub fn reason(subscriber: &Subscriber, event: &Event, ruling: &Ruling, outlook: &Outlook, now: Timestamp) -> String {
    let next = outlook.retry_at.map_or_else(|| "never".to_owned(), |at| at.to_string());
    let refusal = match ruling.passage {
        Passage::Limiter if ruling.departs_at > now => {
            return format!("within the limit, leaves in its turn at {}", ruling.departs_at);
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
