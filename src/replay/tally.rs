//! The tally of one subscriber: what it would have got, counted decision by decision and message by message.

use super::busiest_stretch;
use super::losses::{RefusedOn, longest_silence};
use crate::event::Event;
use crate::plan::{Answer, Outcome};
use crate::time::{Span, Timestamp};

/// What one subscriber would have got.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredReplay {
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
    /// When the first such stretch begins, with the first message in it.
    pub busiest_from: Option<Timestamp>,
    /// The largest that the limiter refused, the first among equals.
    pub largest_refused: Option<Event>,
    /// The longest time between two messages: from, to.
    pub longest_silence: Option<(Timestamp, Timestamp)>,
    /// The UTC days on which the limiter refused most, with how many, most first.
    pub worst_days: Vec<(Timestamp, u64)>,
}

/// Counts while it goes on.
#[derive(Debug, Default)]
pub struct Tally {
    /// When each message leaves.
    sent_at: Vec<Timestamp>,
    refused_on: RefusedOn,
    result: StoredReplay,
}

impl Tally {
    /// An event that matches was decided at `now`; if it is alerted, its message leaves as the answer says.
    pub fn decided(&mut self, event: &Event, answer: Answer, outcome: Outcome, now: Timestamp) {
        let result = &mut self.result;
        result.offered += 1;
        match answer {
            Answer::Quiet { .. } => result.held += 1,
            Answer::Limiter(ruling) if ruling.refused() => {
                result.refused += 1;
                self.refused_on.count(now);
                if result.largest_refused.as_ref().is_none_or(|largest| event.magnitude > largest.magnitude) {
                    result.largest_refused = Some(event.clone());
                }
            }
            Answer::Limiter(_) => result.admitted += 1,
        }
        match outcome {
            Outcome::Alerted => {
                let asked_and_admitted = matches!(answer, Answer::Limiter(ruling) if !ruling.refused());
                result.passed_anyway += u64::from(!asked_and_admitted);
                self.sent(now, answer.departs_at(now));
            }
            Outcome::Withheld => result.withheld += 1,
            _ => {}
        }
    }

    /// A message about one event that came at `came_at` leaves.
    pub fn sent(&mut self, came_at: Timestamp, departs_at: Timestamp) {
        let wait = departs_at.since(came_at);
        if wait > Span::ZERO {
            self.result.delayed += 1;
            self.result.longest_wait = self.result.longest_wait.max(wait);
        }
        self.sent_at.push(departs_at);
    }

    /// A digest of so many leaves.
    pub fn digest(&mut self, told: usize, departs_at: Timestamp) {
        self.result.digests += 1;
        self.result.digested += told as u64;
        self.sent_at.push(departs_at);
    }

    /// The result, where so many were never told, and the rate has this window.
    #[must_use]
    pub fn finish(mut self, left: u64, window: Span) -> StoredReplay {
        self.result.withheld += left;
        self.sent_at.sort_unstable();
        let ticks: Vec<i128> = self.sent_at.iter().map(|at| at.ticks().into()).collect();
        if let Some((first, count)) = busiest_stretch(&ticks, window.ticks().into()) {
            (self.result.busiest_window, self.result.busiest_from) = (count, Some(self.sent_at[first]));
        }
        self.result.longest_silence = longest_silence(&self.sent_at);
        self.result.worst_days = self.refused_on.worst();
        self.result
    }
}
