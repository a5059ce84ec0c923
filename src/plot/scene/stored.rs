//! What a stored subscriber would have got, as a row of the scene, by the daemon's own decisions and in its own words.

use super::super::level::LevelLine;
use super::{BusiestWindow, Fate, Mark, Row, Stretch};
use crate::event::Event;
use crate::limiter::Limiter;
use crate::plan::{self, Judgement, Outcome};
use crate::replay::{StoredReplay, StoredStep, replay_stored_each};
use crate::subscriber::{Mode, Subscriber};
use crate::time::{Span, Timestamp};

impl Row {
    /// What a subscriber whose limiter starts full would have got of the events, as a row and in numbers.
    #[must_use]
    pub fn replay_stored(subscriber: &Subscriber, stretch: &Stretch<'_>) -> (Row, StoredReplay) {
        let limit = subscriber.policy.limit;
        let mut line = limit.bucket().map(|bucket| LevelLine::new(bucket, stretch.from));
        let mut decisions: Vec<Mark> = Vec::new();
        let result = replay_stored_each(subscriber, stretch.events, &mut |step| match step {
            StoredStep::Decided { event, judgement, taken, limiter } => {
                if let Some(line) = &mut line {
                    line.decided(event.origin_at, taken, limiter);
                }
                decisions.push(decided(subscriber, event, &judgement, limiter));
            }
            StoredStep::Released { events, digest, at, departs_at, taken, limiter } => {
                if let Some(line) = &mut line {
                    line.decided(at, taken, limiter);
                }
                for number in events {
                    released(&mut decisions[*number], digest.then_some(events.len()), departs_at);
                }
            }
        });
        let busiest = result.busiest_from.map(|from| BusiestWindow::new(from, limit, result.busiest_window));
        let promise = subscriber.policy.promise();
        let bounded = subscriber.policy.always_from.is_none() && subscriber.mode == Mode::Enforce;
        let row = Row {
            name: format!("{}: {}", subscriber.name, super::named(limit)),
            limit,
            promise: promise.to_string(),
            most_in_any_window: bounded.then_some(promise.most_in_any_window),
            decisions,
            busiest,
            level: line.map_or_else(Vec::new, |line| line.finish(stretch.to)),
        };
        (row, result)
    }
}

/// The mark of a decision. Until it is told of, what is withheld stays so.
fn decided(subscriber: &Subscriber, event: &Event, judgement: &Judgement, limiter: &Limiter) -> Mark {
    let now = event.origin_at;
    let departs_at = judgement.answer.departs_at(now);
    let outlook = limiter.outlook(now, subscriber.policy.request(event.magnitude));
    let alerted = judgement.outcome == Outcome::Alerted;
    let fate = match alerted {
        true if departs_at.since(now) > Span::ZERO => Fate::Delayed,
        true => Fate::Alerted,
        false => Fate::Withheld,
    };
    Mark {
        at: now,
        magnitude: event.magnitude,
        title: event.title(),
        id: event.id.to_string(),
        fate,
        departs_at,
        why: format!("{}: {}", fate.name(), plan::reason(subscriber, event, &judgement.answer, &outlook, now)),
    }
}

/// A message told of what waited: a digest of so many, or one of its own.
fn released(mark: &mut Mark, digest_of: Option<usize>, departs_at: Timestamp) {
    mark.fate = if digest_of.is_some() { Fate::Digested } else { Fate::Delayed };
    mark.departs_at = departs_at;
    let refused = mark.why.split_once(": ").map_or(mark.why.as_str(), |(_, reason)| reason);
    mark.why = match digest_of {
        Some(count) => format!("in a digest of {count} at {departs_at}: {refused}"),
        None => format!("delayed until {departs_at}: {refused}"),
    };
}
