//! The plan: what becomes of one event for one subscriber, and of what was withheld when the limiter allows again.
//!
//! Pure: it changes the limiter it is given and answers with what to write; the store commits both together or neither.

mod later;

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::alert::{Content, Digest, Explanation, LATE_AFTER, MAX_DIGEST_EVENTS};
use crate::event::{Event, Magnitude};
use crate::limiter::{Limiter, Outlook, Passage, Request, Ruling, Verdict};
use crate::quiet::{QuietHours, Zone};
use crate::subscriber::{Excess, Mode, Subscriber};
use crate::time::{Span, Timestamp};

pub use later::{Told, UpdateOutcome, UpdatePlan, update, withdrawal};

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
    /// It came in quiet hours, or would have left in them; when they are over it asks the limiter, which was not asked yet.
    Held,
    /// The limiter's state could not be read, so nothing was decided.
    Undecided,
}

/// The decision on one event for one subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub outcome: Outcome,
    /// Why, in one sentence.
    pub reason: String,
    /// Who answered, and what, whatever became of it.
    pub answer: Answer,
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
    /// Whether it was to be confirmed, and was not in time.
    pub unconfirmed: bool,
    /// Whether quiet hours hold it, which the limiter was not asked about.
    pub quiet: bool,
}

/// What was withheld, without its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Withheld {
    pub magnitude: Option<Magnitude>,
    pub at: Timestamp,
    /// Whether quiet hours hold it, which the limiter was not asked about.
    pub quiet: bool,
}

/// The decision on one event for one subscriber, without words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub answer: Answer,
    pub outcome: Outcome,
    /// When to ask again on behalf of what is withheld now.
    pub wake_at: Option<Timestamp>,
}

/// Who answered for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The limiter, as the policy asked it.
    Limiter(Ruling),
    /// Quiet hours: the limiter was not asked, and is to be at their end.
    Quiet { until: Timestamp },
}

/// Whose turn it is among what is withheld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// One message about all of these, given by their places in the list.
    Digest { told: Vec<usize>, departs_at: Timestamp },
    /// The one at this place, alone.
    Alone { at: usize, answer: Answer },
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
    if let Some(until) = quiet_until(subscriber, limiter, magnitude, subscriber.policy.request(magnitude), now) {
        let (outcome, wake_at) = match subscriber.mode {
            Mode::Shadow => (Outcome::Alerted, None),
            Mode::Enforce => (Outcome::Held, Some(until)),
        };
        return Judgement { answer: Answer::Quiet { until }, outcome, wake_at };
    }
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
    Judgement { answer: Answer::Limiter(ruling), outcome, wake_at }
}

/// Until when quiet hours hold a message about events up to this magnitude; `None` if it may ask the limiter now.
///
/// What a leaky bucket would let leave only in quiet hours is held as well: once in the queue it leaves in its turn, and
/// queues that were emptied at the end of quiet hours would break the promise that departures are evenly spaced.
fn quiet_until(
    subscriber: &Subscriber,
    limiter: &Limiter,
    magnitude: Option<Magnitude>,
    request: Request,
    now: Timestamp,
) -> Option<Timestamp> {
    let quiet = quiet_for(subscriber, magnitude)?;
    let leaves_in_quiet = || {
        let until = quiet.until(limiter.departure(now))?;
        // Where the queue is full nothing leaves, and the limiter says what becomes of it.
        (limiter.outlook(now, request).retry_at == Some(now)).then_some(until)
    };
    quiet.until(now).or_else(leaves_in_quiet)
}

/// The quiet hours that hold events of this magnitude, if any do.
fn quiet_for(subscriber: &Subscriber, magnitude: Option<Magnitude>) -> Option<&QuietHours> {
    subscriber.quiet.as_ref().filter(|quiet| quiet.hold(magnitude) && !subscriber.policy.passes_always(magnitude))
}

/// Decides on an event that matches the subscriber's interest, and says why.
///
/// `unconfirmed`: it was to be confirmed and was not in time, which the message says.
pub fn decide(subscriber: &Subscriber, limiter: &mut Limiter, event: &Arc<Event>, unconfirmed: bool, now: Timestamp) -> Plan {
    let Judgement { answer, outcome, wake_at } = judge(subscriber, limiter, event.magnitude, now);
    let mut outlook = limiter.outlook(now, subscriber.policy.request(event.magnitude));
    if let Answer::Quiet { until } = answer {
        outlook.retry_at = Some(until);
    }
    let mut reason = reason(subscriber, event, &answer, &outlook, now);
    if unconfirmed {
        reason.push_str("; unconfirmed: only one network's automatic solution says so, and the time to confirm it ran out");
    }
    let message = (outcome == Outcome::Alerted).then(|| {
        alone(Arc::clone(event), unconfirmed, explain(subscriber, limiter, reason.clone(), now), answer.departs_at(now), now)
    });
    Plan { outcome, reason, answer, outlook, message, wake_at }
}

/// Whose turn it is among what is withheld, if the limiter allows one message now: a digest costs one admission, a delayed
/// event its own. The limiter records what it admits. In quiet hours only what is too large for them has a turn.
///
/// `withheld` is in any order. Ask again until it is [`Turn::Later`] or nothing is left.
pub fn turn(subscriber: &Subscriber, limiter: &mut Limiter, withheld: &[Withheld], now: Timestamp) -> Turn {
    let quiet = subscriber.quiet.as_ref().filter(|_| subscriber.mode == Mode::Enforce);
    let quiet_until = quiet.and_then(|quiet| quiet.until(now));
    let may_ask = |&at: &usize| quiet_until.is_none() || quiet_for(subscriber, withheld[at].magnitude).is_none();
    let asking: Vec<usize> = (0..withheld.len()).filter(may_ask).collect();
    let turn = turn_among(subscriber, limiter, withheld, asking, now);
    match quiet_until {
        Some(until) if turn == Turn::Never && !withheld.is_empty() => Turn::Later(until),
        _ => turn,
    }
}

/// Whose turn it is among those at the places of `asking`.
fn turn_among(subscriber: &Subscriber, limiter: &mut Limiter, withheld: &[Withheld], asking: Vec<usize>, now: Timestamp) -> Turn {
    let waited_too_long = |&at: &usize| now.since(waits_since(subscriber, &withheld[at])) > MAX_WAIT;
    let told: Vec<usize> = match subscriber.excess {
        Excess::Delay if !asking.iter().any(waited_too_long) => {
            return turn_of_largest(subscriber, limiter, withheld, &asking, now);
        }
        Excess::Delay => asking.into_iter().filter(waited_too_long).collect(),
        Excess::Digest | Excess::Drop => asking,
    };
    let Some(largest) = told.iter().map(|&at| withheld[at].magnitude).max() else { return Turn::Never };
    let request = subscriber.policy.request(None);
    if let Some(until) = quiet_until(subscriber, limiter, largest, request, now).filter(|_| subscriber.mode == Mode::Enforce) {
        return Turn::Later(until);
    }
    let decision = limiter.decide(now, request);
    match decision.verdict {
        Verdict::Admitted => Turn::Digest { told, departs_at: decision.departs_at },
        _ => decision.outlook.retry_at.map_or(Turn::Never, Turn::Later),
    }
}

/// Since when it has waited for a turn: what quiet hours held, since they were over.
fn waits_since(subscriber: &Subscriber, withheld: &Withheld) -> Timestamp {
    let quiet = subscriber.quiet.as_ref().filter(|_| withheld.quiet);
    quiet.map_or(withheld.at, |quiet| quiet.next_end(withheld.at))
}

/// The turn of the largest that waits, the oldest among equals.
fn turn_of_largest(
    subscriber: &Subscriber,
    limiter: &mut Limiter,
    withheld: &[Withheld],
    asking: &[usize],
    now: Timestamp,
) -> Turn {
    let rank = |at: &usize| (withheld[*at].magnitude, Reverse(withheld[*at].at));
    let Some(largest) = asking.iter().copied().max_by_key(rank) else { return Turn::Never };
    let judgement = judge(subscriber, limiter, withheld[largest].magnitude, now);
    match judgement.outcome {
        Outcome::Alerted => Turn::Alone { at: largest, answer: judgement.answer },
        _ => judgement.wake_at.map_or(Turn::Never, Turn::Later),
    }
}

/// Tells of what was withheld, if the limiter allows one message now, as [`turn`] says.
pub fn release(subscriber: &Subscriber, limiter: &mut Limiter, held: &[Held], now: Timestamp) -> Release {
    let withheld: Vec<Withheld> =
        held.iter().map(|held| Withheld { magnitude: held.event.magnitude, at: held.withheld_at, quiet: held.quiet }).collect();
    match turn(subscriber, limiter, &withheld, now) {
        Turn::Never => Release::Never,
        Turn::Later(at) => Release::Later(at),
        Turn::Digest { told, departs_at } => {
            let digest = digest(held, &told);
            let reason = format!("told in a digest of {}", digest.count);
            let explanation = explain(subscriber, limiter, why_digest(held, &told), now);
            let message = Message { content: Content::Digest(digest), explanation, due_at: departs_at };
            Release::Now { message: Box::new(message), outcome: Outcome::Digested, reason, held: told }
        }
        Turn::Alone { at, answer } => {
            let Held { event, withheld_at, quiet, unconfirmed } = &held[at];
            let waited = if *quiet { "held for quiet hours" } else { "waited its turn" };
            let outlook = limiter.outlook(now, subscriber.policy.request(event.magnitude));
            let reason = format!("{waited} since {withheld_at}; {}", reason(subscriber, event, &answer, &outlook, now));
            let message = alone(
                Arc::new(event.clone()),
                *unconfirmed,
                explain(subscriber, limiter, reason.clone(), now),
                answer.departs_at(now),
                now,
            );
            Release::Now { message: Box::new(message), outcome: Outcome::Alerted, reason, held: vec![at] }
        }
    }
}

/// The message about one event.
fn alone(event: Arc<Event>, unconfirmed: bool, explanation: Explanation, due_at: Timestamp, now: Timestamp) -> Message {
    let late = now.since(event.origin_at) > LATE_AFTER;
    Message { content: Content::Event { event, late, unconfirmed }, explanation, due_at }
}

fn why_digest(held: &[Held], told: &[usize]) -> String {
    let quiet = told.iter().filter(|&&at| held[at].quiet).count();
    let why = match told.len() - quiet {
        0 => "quiet hours are over, so here is what they held",
        _ if quiet == 0 => "the limit allows a message again, so here is what it withheld",
        _ => "quiet hours are over and the limit allows a message, so here is what they withheld",
    };
    why.to_owned()
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

/// What a message says of the limit, as the limiter stands now, and of quiet hours: the next comes when both let it.
#[must_use]
pub fn explain(subscriber: &Subscriber, limiter: &Limiter, reason: String, now: Timestamp) -> Explanation {
    let (policy, request) = (&subscriber.policy, subscriber.policy.request(None));
    let mut explanation = explain_limit(limiter, request, policy.promise().to_string(), reason, now);
    if subscriber.mode == Mode::Enforce {
        let next = explanation.retry_at.max(now);
        explanation.retry_at = quiet_until(subscriber, limiter, None, request, next).unwrap_or(explanation.retry_at);
    }
    explanation
}

/// The end of a message under this limiter, which promises `promise` and is asked for `request` each time.
#[must_use]
pub fn explain_limit(limiter: &Limiter, request: Request, promise: String, reason: String, now: Timestamp) -> Explanation {
    let (limit, outlook) = (limiter.limit(), limiter.outlook(now, request));
    Explanation {
        reason,
        promise,
        rate: limit.rate(),
        burst: limit.burst().into(),
        remaining: outlook.remaining,
        retry_at: outlook.retry_at.unwrap_or(outlook.reset_at),
        reset_at: outlook.reset_at,
    }
}

/// Why an event passed or not, in one sentence without a full stop. `outlook` is the limiter's after the decision, for a
/// request like this.
#[must_use]
pub fn reason(subscriber: &Subscriber, event: &Event, answer: &Answer, outlook: &Outlook, now: Timestamp) -> String {
    let shadow = subscriber.mode == Mode::Shadow;
    let ruling = match answer {
        Answer::Limiter(ruling) => ruling,
        Answer::Quiet { until } => {
            let zone = subscriber.quiet.as_ref().map_or_else(Zone::default, |quiet| quiet.zone.clone());
            let held = format!("held for quiet hours until {} {zone} ({until})", zone.clock_at(*until));
            return if shadow { format!("shadow mode: it would have been {held}") } else { held };
        }
    };
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
    if shadow { format!("shadow mode: it would have been withheld, since {refusal}") } else { refusal }
}

fn magnitude(event: &Event) -> String {
    event.magnitude.map_or_else(|| "an unknown magnitude".to_owned(), |m| format!("M {m}"))
}

impl Answer {
    /// Whether the limiter refused it, whatever becomes of it.
    #[must_use]
    pub fn refused(&self) -> bool {
        matches!(self, Answer::Limiter(ruling) if ruling.refused())
    }

    /// When a message leaves that is sent on this answer at `now`.
    #[must_use]
    pub fn departs_at(&self, now: Timestamp) -> Timestamp {
        match self {
            Answer::Limiter(ruling) => ruling.departs_at,
            Answer::Quiet { .. } => now,
        }
    }
}

impl Outcome {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Outcome; 7] = [
        Outcome::Alerted,
        Outcome::Digested,
        Outcome::Pending,
        Outcome::Waiting,
        Outcome::Held,
        Outcome::Withheld,
        Outcome::Undecided,
    ];

    /// Its name in the ledger.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Alerted => "alerted",
            Outcome::Withheld => "withheld",
            Outcome::Pending => "pending",
            Outcome::Waiting => "waiting",
            Outcome::Digested => "digested",
            Outcome::Held => "held",
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
