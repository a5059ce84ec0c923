//! The daemon's own heartbeat: each stage leaves a mark at every turn, and a sign of life goes out at a mark when all of them
//! have left theirs in time. There is no timer beside them that could go on beating when a stage hangs.

use crate::time::Span;

/// The longest that a poll may take with all that belongs to it: what an outage swallowed, what is gone from the feed.
pub const MAX_POLL: Span = Span::from_seconds(540);

/// One of the four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Ingest,
    Dispatch,
    Deliver,
    Notify,
}

impl Stage {
    pub const ALL: [Stage; 4] = [Stage::Ingest, Stage::Dispatch, Stage::Deliver, Stage::Notify];
    /// Those that run where nobody is told of the service.
    pub const WITHOUT_NOTICES: [Stage; 3] = [Stage::Ingest, Stage::Dispatch, Stage::Deliver];

    /// The longest from one mark to the next of a stage that does not hang.
    ///
    /// A poll is given up after [`MAX_POLL`]. Noticing does many short transactions at a turn. The other two do one between
    /// marks, which waits 10 s at most for another process's lock, and for the transactions of the other stages.
    const fn bound(self) -> Span {
        match self {
            Stage::Ingest | Stage::Notify => Span::from_seconds(600),
            Stage::Dispatch | Stage::Deliver => Span::from_seconds(60),
        }
    }
}

/// The marks. Instants are counted from any fixed one, by a clock that nobody sets.
#[derive(Debug)]
pub(super) struct Pulse {
    /// Those that run.
    stages: &'static [Stage],
    last: [Option<Span>; 4],
    /// A sign of life is wanted within this.
    within: Option<Span>,
    sent: Option<Span>,
}

impl Pulse {
    /// Of these stages, before any mark.
    pub fn new(stages: &'static [Stage], within: Option<Span>) -> Pulse {
        Pulse { stages, last: [None; 4], within, sent: None }
    }

    /// A stage is at a turn: whether a sign of life is to be given.
    pub fn mark(&mut self, stage: Stage, at: Span) -> bool {
        self.last[stage as usize] = Some(at);
        let Some(within) = self.within else { return false };
        let recently = |mark: Span, bound: Span| at.ticks().saturating_sub(mark.ticks()) <= bound.ticks();
        // No more of them than are of use.
        let is_due = self.sent.is_none_or(|sent| !recently(sent, Span::from_ticks(within.ticks() / 4)));
        let all_live = self.stages.iter().all(|stage| self.last(*stage).is_some_and(|mark| recently(mark, stage.bound())));
        let beats = is_due && all_live;
        if beats {
            self.sent = Some(at);
        }
        beats
    }

    /// When the stage was last at a turn.
    pub fn last(&self, stage: Stage) -> Option<Span> {
        self.last[stage as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Span = Span::from_seconds(120);

    fn at(seconds: u64) -> Span {
        Span::from_seconds(seconds)
    }

    /// A pulse that has beaten at 0 s.
    fn beating() -> Pulse {
        let mut pulse = Pulse::new(&Stage::ALL, Some(WITHIN));
        assert!(!pulse.mark(Stage::Ingest, at(0)));
        assert!(!pulse.mark(Stage::Dispatch, at(0)));
        assert!(!pulse.mark(Stage::Deliver, at(0)), "not before all of them have begun");
        assert!(pulse.mark(Stage::Notify, at(0)));
        pulse
    }

    #[test]
    fn it_beats_while_all_are_at_their_turns_however_little_there_is_to_do() {
        let mut pulse = beating();
        let beats: Vec<u64> = (1..=24)
            .map(|turn| turn * 5)
            .filter(|seconds| Stage::ALL.map(|stage| pulse.mark(stage, at(*seconds))).contains(&true))
            .collect();
        assert_eq!(beats, [35, 70, 105], "often enough, and no more");
    }

    #[test]
    fn one_that_hangs_silences_it_whatever_the_others_do() {
        for hanging in Stage::ALL {
            let mut pulse = beating();
            let others = || Stage::ALL.into_iter().filter(|stage| *stage != hanging);
            let last = (1..=600)
                .map(|turn| turn * 5)
                .filter(|seconds| others().map(|stage| pulse.mark(stage, at(*seconds))).filter(|beat| *beat).count() > 0)
                .last();
            assert!(last.is_some_and(|last| at(last) <= hanging.bound()), "{hanging:?}: {last:?}");
            // What was only slow goes on.
            assert!(pulse.mark(hanging, at(3_005)), "{hanging:?}");
        }
    }

    #[test]
    fn a_poll_of_nine_minutes_is_slow_and_no_more() {
        let mut pulse = beating();
        let mut beats = 0;
        pulse.mark(Stage::Notify, at(0));
        for seconds in (5..=MAX_POLL.ticks() / 1_000_000).step_by(5) {
            beats += u64::from(pulse.mark(Stage::Dispatch, at(seconds)));
            beats += u64::from(pulse.mark(Stage::Deliver, at(seconds)));
        }
        assert_eq!(beats, 540 / 35);
    }

    #[test]
    fn nobody_is_told_who_does_not_ask() {
        let mut pulse = Pulse::new(&Stage::ALL, None);
        assert!(!Stage::ALL.map(|stage| pulse.mark(stage, at(0))).contains(&true));
        assert_eq!(Stage::ALL.map(|stage| pulse.last(stage)), [Some(at(0)); 4]);
        let mut three = Pulse::new(&Stage::WITHOUT_NOTICES, Some(WITHIN));
        assert_eq!(Stage::WITHOUT_NOTICES.map(|stage| three.mark(stage, at(0))), [false, false, true]);
    }
}
