//! The replay of a stored subscriber: interest, reserve, always-from, excess, quiet hours and mode exactly as the daemon
//! would apply them, by the daemon's own calls. The clock goes from origin to origin and from one wake-up to the next.

use super::tally::{StoredReplay, Tally};
use crate::event::{Event, Magnitude};
use crate::limiter::Limiter;
use crate::plan::{self, Answer, Judgement, Outcome, Turn, Withheld};
use crate::subscriber::Subscriber;
use crate::time::Timestamp;

/// What happened on the way, in order of time. Events are numbered from 0 in the order in which they were decided.
#[derive(Clone, Copy, Debug)]
pub enum StoredStep<'e, 'c> {
    /// An event that matches the interest was decided, which took so many admissions of the limiter, now as it is after.
    Decided { event: &'e Event, judgement: Judgement, taken: u32, limiter: &'c Limiter },
    /// At `at` a message was released about events that had waited: one alone, or a digest of all of them.
    Released { events: &'c [usize], digest: bool, at: Timestamp, departs_at: Timestamp, taken: u32, limiter: &'c Limiter },
}

/// Replays `events`, in order of origin, for one subscriber whose limiter starts full.
#[must_use]
pub fn replay_stored(subscriber: &Subscriber, events: &[Event]) -> StoredReplay {
    replay_stored_each(subscriber, events, &mut |_| {})
}

/// As [`replay_stored`], and shows every step.
pub fn replay_stored_each<'e>(
    subscriber: &Subscriber,
    events: &'e [Event],
    visit: &mut dyn FnMut(StoredStep<'e, '_>),
) -> StoredReplay {
    let (limiter, tally) = (Limiter::new(subscriber.policy.limit), Tally::default());
    let (withheld, numbers) = (Vec::new(), Vec::new());
    let mut course = Course { subscriber, visit, limiter, withheld, numbers, decided: 0, wake_at: None, tally };
    for event in events {
        if subscriber.interest.matches(event) {
            course.wake_until(Some(event.origin_at));
            course.decide(event);
        }
    }
    course.wake_until(None);
    course.tally.finish(course.withheld.len() as u64, subscriber.policy.limit.rate().window())
}

struct Course<'s, 'e> {
    subscriber: &'s Subscriber,
    visit: &'s mut dyn FnMut(StoredStep<'e, '_>),
    limiter: Limiter,
    withheld: Vec<Withheld>,
    /// The numbers of the withheld.
    numbers: Vec<usize>,
    /// How many were decided.
    decided: usize,
    wake_at: Option<Timestamp>,
    tally: Tally,
}

impl<'e> Course<'_, 'e> {
    fn decide(&mut self, event: &'e Event) {
        let now = event.origin_at;
        let judgement = plan::judge(self.subscriber, &mut self.limiter, event.magnitude, now);
        self.tally.decided(event, judgement.answer, judgement.outcome, now);
        let taken = taken(self.subscriber, &judgement.answer, event.magnitude);
        (self.visit)(StoredStep::Decided { event, judgement, taken, limiter: &self.limiter });
        if matches!(judgement.outcome, Outcome::Pending | Outcome::Waiting | Outcome::Held) {
            let quiet = matches!(judgement.answer, Answer::Quiet { .. });
            self.withheld.push(Withheld { magnitude: event.magnitude, at: now, quiet });
            self.numbers.push(self.decided);
            // As the store does: at the earliest that anything asks for.
            self.wake_at = self.wake_at.into_iter().chain(judgement.wake_at).min();
        }
        self.decided += 1;
    }

    /// Tells of what is withheld whenever the limiter allows it, before `end` or, without one, as long as it takes.
    fn wake_until(&mut self, end: Option<Timestamp>) {
        while let Some(now) = self.wake_at.filter(|at| end.is_none_or(|end| *at < end)) {
            self.wake_at = match plan::turn(self.subscriber, &mut self.limiter, &self.withheld, now) {
                Turn::Digest { told, departs_at } => {
                    self.tally.digest(told.len(), departs_at);
                    remove(&mut self.withheld, &told);
                    let (events, taken) = (remove(&mut self.numbers, &told), self.subscriber.policy.request(None).cost);
                    let limiter = &self.limiter;
                    (self.visit)(StoredStep::Released { events: &events, digest: true, at: now, departs_at, taken, limiter });
                    Some(now)
                }
                Turn::Alone { at, answer } => {
                    let (waited, events) = (self.withheld.remove(at), [self.numbers.remove(at)]);
                    let taken = taken(self.subscriber, &answer, waited.magnitude);
                    let (departs_at, limiter) = (answer.departs_at(now), &self.limiter);
                    (self.visit)(StoredStep::Released { events: &events, digest: false, at: now, departs_at, taken, limiter });
                    self.tally.sent(waited.at, departs_at);
                    Some(now)
                }
                // At the end of all time there is no later.
                Turn::Later(at) => (at > now).then_some(at),
                Turn::Never => None,
            };
            if self.withheld.is_empty() {
                self.wake_at = None;
            }
        }
    }
}

/// How many admissions an event took of the limiter.
fn taken(subscriber: &Subscriber, answer: &Answer, magnitude: Option<Magnitude>) -> u32 {
    match answer {
        Answer::Limiter(ruling) if !ruling.refused() => subscriber.policy.request(magnitude).cost,
        _ => 0,
    }
}

/// Removes those at the given ascending places, and gives them.
fn remove<T: Clone>(from: &mut Vec<T>, places: &[usize]) -> Vec<T> {
    let mut places = places.iter().peekable();
    let (mut at, mut removed) = (0, Vec::new());
    from.retain(|each| {
        let gone = places.next_if(|next| **next == at).is_some();
        at += 1;
        if gone {
            removed.push(each.clone());
        }
        !gone
    });
    removed
}
