//! What becomes of a later version of an event for a subscriber who was told of an earlier one: updates and withdrawals.

use std::fmt;
use std::str::FromStr;

use super::{Answer, Message, Outcome, explain, judge, quiet_for, reason};
use crate::alert::{Content, First, Update};
use crate::event::Event;
use crate::identity::Change;
use crate::limiter::Limiter;
use crate::subscriber::Subscriber;
use crate::time::Timestamp;

/// What a subscriber knows of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The event as it was last told.
    pub event: Event,
    /// The message that first told of it.
    pub of: First,
}

/// What the ledger says of one version and one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpdateOutcome {
    /// A message stands in the outbox; its delivery tells the rest.
    Sent,
    /// The limiter refused it, or quiet hours hold it; it waits for its turn.
    Waiting,
    /// A newer version, or the end of what was worth telling, took its place while it waited.
    Superseded,
    /// The limiter refused it and the ledger alone tells of it.
    Withheld,
    /// The limiter's state could not be read, so nothing was decided.
    Undecided,
}

/// The decision on one update for one subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdatePlan {
    pub outcome: UpdateOutcome,
    /// Why, in one sentence.
    pub reason: String,
    /// Whether the limiter refused it, whatever became of it.
    pub refused: bool,
    /// What to send and when, if it passes.
    pub message: Option<Message>,
    /// When to ask again, if it waits.
    pub retry_at: Option<Timestamp>,
}

/// Decides on telling a subscriber of `changes` to what it was told. An update asks the limiter like an alert does.
pub fn update(
    subscriber: &Subscriber,
    limiter: &mut Limiter,
    told: &Told,
    event: &Event,
    changes: &[Change],
    now: Timestamp,
) -> UpdatePlan {
    let judgement = judge(subscriber, limiter, event.magnitude, now);
    let mut outlook = limiter.outlook(now, subscriber.policy.request(event.magnitude));
    if let Answer::Quiet { until } = judgement.answer {
        outlook.retry_at = Some(until);
    }
    let (outcome, retry_at) = match judgement.outcome {
        Outcome::Alerted => (UpdateOutcome::Sent, None),
        Outcome::Pending | Outcome::Waiting | Outcome::Held if outlook.retry_at.is_some() => {
            (UpdateOutcome::Waiting, outlook.retry_at)
        }
        _ => (UpdateOutcome::Withheld, outlook.retry_at),
    };
    let why = reason(subscriber, event, &judgement.answer, &outlook, now);
    let message = (outcome == UpdateOutcome::Sent).then(|| {
        let content = Update { event: event.clone(), before: told.event.clone(), changes: changes.to_vec(), of: told.of.clone() };
        Message {
            content: Content::Update(Box::new(content)),
            explanation: explain(subscriber, limiter, format!("you were told of this event before; {why}"), now),
            due_at: judgement.answer.departs_at(now),
        }
    });
    let what = changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    UpdatePlan { outcome, reason: format!("{what} changed; {why}"), refused: judgement.answer.refused(), message, retry_at }
}

/// Tells a subscriber that the service withdrew an event, free of charge, since a false alarm that stands costs more. Quiet
/// hours that hold such events hold it, too.
#[must_use]
pub fn withdrawal(subscriber: &Subscriber, limiter: &Limiter, told: &Told, event: &Event, now: Timestamp) -> UpdatePlan {
    let why = "the service withdrew the event, which costs nothing".to_owned();
    let content = Content::Withdrawal { event: Box::new(event.clone()), of: told.of.clone() };
    let explanation = explain(subscriber, limiter, format!("you were told of this event before; {why}"), now);
    let due_at = quiet_for(subscriber, event.magnitude).and_then(|quiet| quiet.until(now)).unwrap_or(now);
    UpdatePlan {
        outcome: UpdateOutcome::Sent,
        reason: why,
        refused: false,
        message: Some(Message { content, explanation, due_at }),
        retry_at: None,
    }
}

impl UpdateOutcome {
    /// All of them, in the order in which they are counted.
    pub const ALL: [UpdateOutcome; 5] = [
        UpdateOutcome::Sent,
        UpdateOutcome::Waiting,
        UpdateOutcome::Superseded,
        UpdateOutcome::Withheld,
        UpdateOutcome::Undecided,
    ];

    /// Its name in the ledger.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            UpdateOutcome::Sent => "sent",
            UpdateOutcome::Waiting => "waiting",
            UpdateOutcome::Superseded => "superseded",
            UpdateOutcome::Withheld => "withheld",
            UpdateOutcome::Undecided => "undecided",
        }
    }
}

impl fmt::Display for UpdateOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for UpdateOutcome {
    type Err = String;

    fn from_str(text: &str) -> Result<UpdateOutcome, String> {
        let found = UpdateOutcome::ALL.into_iter().find(|outcome| outcome.name() == text);
        found.ok_or_else(|| format!("unknown outcome '{text}'"))
    }
}
