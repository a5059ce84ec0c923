//! The replay of a stored subscriber: interest, reserve, always-from, excess and mode exactly as the daemon would apply
//! them, by the daemon's own calls. The clock goes from origin to origin and from one wake-up to the next.

use std::collections::BTreeMap;

use super::busiest_window;
use crate::event::Event;
use crate::limiter::Limiter;
use crate::plan::{self, Answer, Outcome, Turn, Withheld};
use crate::subscriber::Subscriber;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// Ticks of one UTC day.
const DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// How many of the days on which most was withheld are told.
const WORST_DAYS: usize = 3;

/// What one subscriber would have got.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredReplay<'e> {
    /// Events that match its interest.
    pub offered: u64,
    /// Of them, those that the limiter admitted, and those that it refused, whatever became of them.
    pub admitted: u64,
    pub refused: u64,
    /// Held for quiet hours, where the limiter was not asked at first, whatever became of them.
    pub held: u64,
    /// Refused or held, and sent all the same: large enough, or in shadow mode.
    pub passed_anyway: u64,
    /// Sent one by one after waiting, in their turn or out of the queue, and how long at most.
    pub delayed: u64,
    pub longest_wait: Span,
    /// Messages that told of several, and of how many.
    pub digests: u64,
    pub digested: u64,
    /// Told by the ledger alone.
    pub withheld: u64,
    /// The most messages in any half-open stretch of the rate's window, counted as they leave.
    pub busiest_window: u64,
    /// The largest that the limiter refused, the first among equals.
    pub largest_refused: Option<&'e Event>,
    /// The longest time between two messages: from, to.
    pub longest_silence: Option<(Timestamp, Timestamp)>,
    /// The UTC days on which the limiter refused most, with how many, most first.
    pub worst_days: Vec<(Timestamp, u64)>,
}

/// Replays `events`, in order of origin, for one subscriber whose limiter starts full.
#[must_use]
pub fn replay_stored<'e>(subscriber: &Subscriber, events: &'e [Event]) -> StoredReplay<'e> {
    let mut course = Course::new(subscriber);
    for event in events {
        if subscriber.interest.matches(event) {
            course.wake_until(Some(event.origin_at));
            course.decide(event);
        }
    }
    course.wake_until(None);
    course.finish()
}

struct Course<'s, 'e> {
    subscriber: &'s Subscriber,
    limiter: Limiter,
    withheld: Vec<Withheld>,
    wake_at: Option<Timestamp>,
    /// When each message leaves.
    sent_at: Vec<Timestamp>,
    refused_on: BTreeMap<i64, u64>,
    result: StoredReplay<'e>,
}

impl<'s, 'e> Course<'s, 'e> {
    fn new(subscriber: &'s Subscriber) -> Course<'s, 'e> {
        let result = StoredReplay {
            offered: 0,
            admitted: 0,
            refused: 0,
            held: 0,
            passed_anyway: 0,
            delayed: 0,
            longest_wait: Span::ZERO,
            digests: 0,
            digested: 0,
            withheld: 0,
            busiest_window: 0,
            largest_refused: None,
            longest_silence: None,
            worst_days: Vec::new(),
        };
        Course {
            subscriber,
            limiter: Limiter::new(subscriber.policy.limit),
            withheld: Vec::new(),
            wake_at: None,
            sent_at: Vec::new(),
            refused_on: BTreeMap::new(),
            result,
        }
    }

    fn decide(&mut self, event: &'e Event) {
        let now = event.origin_at;
        let judgement = plan::judge(self.subscriber, &mut self.limiter, event.magnitude, now);
        let result = &mut self.result;
        result.offered += 1;
        match judgement.answer {
            Answer::Quiet { .. } => result.held += 1,
            Answer::Limiter(ruling) if ruling.refused() => {
                result.refused += 1;
                *self.refused_on.entry(now.ticks().div_euclid(DAY)).or_default() += 1;
                if result.largest_refused.is_none_or(|largest| event.magnitude > largest.magnitude) {
                    result.largest_refused = Some(event);
                }
            }
            Answer::Limiter(_) => result.admitted += 1,
        }
        let quiet = matches!(judgement.answer, Answer::Quiet { .. });
        match judgement.outcome {
            Outcome::Alerted => {
                result.passed_anyway += u64::from(quiet || judgement.answer.refused());
                self.send(now, judgement.answer.departs_at(now));
            }
            Outcome::Pending | Outcome::Waiting | Outcome::Held => {
                self.withheld.push(Withheld { magnitude: event.magnitude, at: now, quiet });
                // As the store does: at the earliest that anything asks for.
                self.wake_at = self.wake_at.into_iter().chain(judgement.wake_at).min();
            }
            _ => result.withheld += 1,
        }
    }

    /// Tells of what is withheld whenever the limiter allows it, before `end` or, without one, as long as it takes.
    fn wake_until(&mut self, end: Option<Timestamp>) {
        while let Some(now) = self.wake_at.filter(|at| end.is_none_or(|end| *at < end)) {
            self.wake_at = match plan::turn(self.subscriber, &mut self.limiter, &self.withheld, now) {
                Turn::Digest { told, departs_at } => {
                    self.result.digests += 1;
                    self.result.digested += told.len() as u64;
                    self.sent_at.push(departs_at);
                    remove(&mut self.withheld, &told);
                    Some(now)
                }
                Turn::Alone { at, answer } => {
                    let waited = self.withheld.remove(at);
                    self.send(waited.at, answer.departs_at(now));
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

    /// A message about one event that came at `came_at` leaves.
    fn send(&mut self, came_at: Timestamp, departs_at: Timestamp) {
        let wait = departs_at.since(came_at);
        if wait > Span::ZERO {
            self.result.delayed += 1;
            self.result.longest_wait = self.result.longest_wait.max(wait);
        }
        self.sent_at.push(departs_at);
    }

    fn finish(mut self) -> StoredReplay<'e> {
        self.result.withheld += self.withheld.len() as u64;
        self.sent_at.sort_unstable();
        let ticks: Vec<i128> = self.sent_at.iter().map(|at| at.ticks().into()).collect();
        let window = self.subscriber.policy.limit.rate().window().ticks();
        self.result.busiest_window = busiest_window(&ticks, window.into());
        let silences = self.sent_at.windows(2).map(|pair| (pair[0], pair[1]));
        self.result.longest_silence = silences.max_by_key(|(from, to)| to.since(*from));
        let mut days: Vec<(i64, u64)> = self.refused_on.into_iter().collect();
        days.sort_by_key(|(day, count)| (std::cmp::Reverse(*count), *day));
        let start = |day: i64| Timestamp::saturating_from_ticks(i128::from(day) * i128::from(DAY));
        self.result.worst_days = days.into_iter().take(WORST_DAYS).map(|(day, count)| (start(day), count)).collect();
        self.result
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
