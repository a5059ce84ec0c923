//! The replay of a stored subscriber: interest, reserve, always-from, excess, quiet hours and mode exactly as the daemon
//! would apply them, by the daemon's own calls. The clock goes from origin to origin and from one wake-up to the next.

use super::tally::{StoredReplay, Tally};
use crate::event::Event;
use crate::limiter::Limiter;
use crate::plan::{self, Answer, Outcome, Turn, Withheld};
use crate::subscriber::Subscriber;
use crate::time::Timestamp;

/// Replays `events`, in order of origin, for one subscriber whose limiter starts full.
#[must_use]
pub fn replay_stored(subscriber: &Subscriber, events: &[Event]) -> StoredReplay {
    let limiter = Limiter::new(subscriber.policy.limit);
    let mut course = Course { subscriber, limiter, withheld: Vec::new(), wake_at: None, tally: Tally::default() };
    for event in events {
        if subscriber.interest.matches(event) {
            course.wake_until(Some(event.origin_at));
            course.decide(event);
        }
    }
    course.wake_until(None);
    course.tally.finish(course.withheld.len() as u64, subscriber.policy.limit.rate().window())
}

struct Course<'s> {
    subscriber: &'s Subscriber,
    limiter: Limiter,
    withheld: Vec<Withheld>,
    wake_at: Option<Timestamp>,
    tally: Tally,
}

impl Course<'_> {
    fn decide(&mut self, event: &Event) {
        let now = event.origin_at;
        let judgement = plan::judge(self.subscriber, &mut self.limiter, event.magnitude, now);
        self.tally.decided(event, judgement.answer, judgement.outcome, now);
        if matches!(judgement.outcome, Outcome::Pending | Outcome::Waiting | Outcome::Held) {
            let quiet = matches!(judgement.answer, Answer::Quiet { .. });
            self.withheld.push(Withheld { magnitude: event.magnitude, at: now, quiet });
            // As the store does: at the earliest that anything asks for.
            self.wake_at = self.wake_at.into_iter().chain(judgement.wake_at).min();
        }
    }

    /// Tells of what is withheld whenever the limiter allows it, before `end` or, without one, as long as it takes.
    fn wake_until(&mut self, end: Option<Timestamp>) {
        while let Some(now) = self.wake_at.filter(|at| end.is_none_or(|end| *at < end)) {
            self.wake_at = match plan::turn(self.subscriber, &mut self.limiter, &self.withheld, now) {
                Turn::Digest { told, departs_at } => {
                    self.tally.digest(told.len(), departs_at);
                    remove(&mut self.withheld, &told);
                    Some(now)
                }
                Turn::Alone { at, answer } => {
                    let waited = self.withheld.remove(at);
                    self.tally.sent(waited.at, answer.departs_at(now));
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

/// Removes those at the given ascending places.
fn remove(withheld: &mut Vec<Withheld>, told: &[usize]) {
    let mut told = told.iter().peekable();
    let mut at = 0;
    withheld.retain(|_| {
        let gone = told.next_if(|next| **next == at).is_some();
        at += 1;
        !gone
    });
}
