//! The circuit breaker: whether a destination that keeps failing is attempted now. Chance and the time come in as arguments.
//!
//! ```text
//!          TRIP_AFTER failures in a row              an attempt begins
//!  closed ──────────────────────────────▶ open ──────────────────────────▶ half-open
//!    ▲                                     ▲   once its wait is over            │ │
//!    │                                     └────────── failed: a longer wait ───┘ │
//!    └─────────────────────────────── succeeded, whenever ────────────────────────┘
//! ```

use crate::backoff;
use crate::time::{Span, Timestamp};

/// So many failures in a row open it.
pub const TRIP_AFTER: u32 = 5;
/// The first probe comes within this, each further one within twice as much, up to [`PROBE_MAX`].
pub const PROBE_BASE: Span = Span::from_seconds(30);
/// The shortest wait before a probe.
pub const PROBE_MIN: Span = Span::from_seconds(5);
/// The longest wait before a probe, also where the destination asks for more: it may be back earlier.
pub const PROBE_MAX: Span = Span::from_seconds(900);

/// When a breaker opens, and how long it waits before each probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// So many failures in a row open it.
    pub trip_after: u32,
    /// The first probe comes within this, each further one within twice as much.
    pub base: Span,
    /// The shortest wait before a probe.
    pub min: Span,
    /// The longest.
    pub max: Span,
}

impl Patience {
    /// With a destination of deliveries, which what waits for it can do without for a while.
    pub const DESTINATION: Patience = Patience { trip_after: TRIP_AFTER, base: PROBE_BASE, min: PROBE_MIN, max: PROBE_MAX };
}

/// The breaker of one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    patience: Patience,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    /// Nothing is attempted from `since` to `probe_at`, after so many openings in a row.
    Open {
        since: Timestamp,
        probe_at: Timestamp,
        trips: u32,
    },
    /// One attempt is under way.
    HalfOpen {
        trips: u32,
    },
}

/// What may be attempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    All,
    /// A single attempt, as a probe.
    One,
    /// Nothing before this instant; `None` while a probe is under way.
    Nothing {
        until: Option<Timestamp>,
    },
}

/// What an attempt changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing more is attempted before `probe_at`.
    Opened { probe_at: Timestamp },
    /// A probe failed: nothing is attempted before `probe_at` still.
    StillOpen { probe_at: Timestamp },
    /// All is attempted again.
    Closed,
}

impl Default for Breaker {
    fn default() -> Breaker {
        Breaker::new(Patience::DESTINATION)
    }
}

impl Breaker {
    /// A closed one.
    #[must_use]
    pub const fn new(patience: Patience) -> Breaker {
        Breaker { patience, state: State::Closed { failures: 0 } }
    }

    /// What may be attempted at `now`. A clock that was set back to before it opened holds nothing up.
    #[must_use]
    pub fn allows(&self, now: Timestamp) -> Allowed {
        match self.state {
            State::Closed { .. } => Allowed::All,
            State::Open { since, probe_at, .. } if since <= now && now < probe_at => Allowed::Nothing { until: Some(probe_at) },
            State::Open { .. } => Allowed::One,
            State::HalfOpen { .. } => Allowed::Nothing { until: None },
        }
    }

    /// An attempt that it allowed begins.
    pub fn begun(&mut self) {
        if let State::Open { trips, .. } = self.state {
            self.state = State::HalfOpen { trips };
        }
    }

    /// The destination answered, whatever it said of this message.
    pub fn succeeded(&mut self) -> Option<Change> {
        let was_closed = matches!(self.state, State::Closed { .. });
        self.state = State::Closed { failures: 0 };
        (!was_closed).then_some(Change::Closed)
    }

    /// The destination failed at `now`. `retry_after` is what it asked for, `random` one draw from all 64-bit numbers. What
    /// was under way when it opened changes nothing more.
    pub fn failed(&mut self, now: Timestamp, retry_after: Option<Span>, random: u64) -> Option<Change> {
        let trips = match self.state {
            State::Closed { failures } if failures + 1 < self.patience.trip_after => {
                self.state = State::Closed { failures: failures + 1 };
                return None;
            }
            State::Open { .. } => return None,
            State::Closed { .. } => 1,
            State::HalfOpen { trips } => trips.saturating_add(1),
        };
        let Patience { base, min, max, .. } = self.patience;
        let wait = backoff::at_least(backoff::delay(trips, base, max, random), retry_after);
        let probe_at = now.plus(wait.max(min).min(max));
        self.state = State::Open { since: now, probe_at, trips };
        Some(if trips == 1 { Change::Opened { probe_at } } else { Change::StillOpen { probe_at } })
    }

    /// An attempt ended without telling anything of the destination: another may probe.
    pub fn told_nothing(&mut self, now: Timestamp) {
        if let State::HalfOpen { trips } = self.state {
            self.state = State::Open { since: now, probe_at: now, trips };
        }
    }

    /// Whether it is closed and has nothing to remember.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        *self == Breaker::new(self.patience)
    }

    /// Whether it holds anything up.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        "2025-07-30".parse::<Timestamp>().expect("a date").plus(Span::from_seconds(seconds))
    }

    fn failing(times: u32) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..times {
            breaker.failed(at(0), None, u64::MAX);
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_one_answer_in_between_does_not() {
        let mut breaker = failing(TRIP_AFTER - 1);
        assert_eq!(breaker.allows(at(0)), Allowed::All);
        assert_eq!(breaker.succeeded(), None);
        assert!(breaker.is_untouched());
        for _ in 1..TRIP_AFTER {
            assert_eq!(breaker.failed(at(1), None, u64::MAX), None);
        }
        assert_eq!(breaker.failed(at(1), None, u64::MAX), Some(Change::Opened { probe_at: at(31) }));
        assert_eq!(breaker.allows(at(30)), Allowed::Nothing { until: Some(at(31)) });
        assert_eq!(breaker.allows(at(31)), Allowed::One);
    }

    #[test]
    fn one_probe_at_a_time_decides() {
        let mut breaker = failing(TRIP_AFTER);
        assert_eq!(breaker.failed(at(1), None, u64::MAX), None, "what was under way when it opened changes nothing");
        assert_eq!(breaker.allows(at(30)), Allowed::One);
        breaker.begun();
        assert_eq!(breaker.allows(at(30)), Allowed::Nothing { until: None });
        assert_eq!(breaker.failed(at(40), None, u64::MAX), Some(Change::StillOpen { probe_at: at(100) }));
        assert_eq!(breaker.allows(at(99)), Allowed::Nothing { until: Some(at(100)) }, "a wait twice as long");
        breaker.begun();
        breaker.told_nothing(at(100));
        assert_eq!(breaker.allows(at(100)), Allowed::One, "another probe, without a wait");
        breaker.begun();
        assert_eq!(breaker.succeeded(), Some(Change::Closed));
        assert!(breaker.is_untouched());
    }

    #[test]
    fn the_wait_grows_up_to_the_longest_and_is_never_shorter_than_the_shortest() {
        for (random, waits) in [(u64::MAX, [30, 60, 120, 240, 480, 900, 900]), (0, [5; 7])] {
            let mut breaker = failing(TRIP_AFTER - 1);
            for wait in waits {
                breaker.failed(at(0), None, random);
                assert_eq!(breaker.allows(at(0)), Allowed::Nothing { until: Some(at(wait)) }, "{random}");
                breaker.begun();
            }
        }
        let asked = |seconds| {
            let mut breaker = failing(TRIP_AFTER - 1);
            breaker.failed(at(0), Some(Span::from_seconds(seconds)), 0);
            breaker.allows(at(0))
        };
        assert_eq!(asked(60), Allowed::Nothing { until: Some(at(60)) }, "what it asks for");
        assert_eq!(asked(86_400), Allowed::Nothing { until: Some(at(900)) }, "within bounds");
    }

    /// What can happen to a breaker.
    #[derive(Clone, Copy, Debug)]
    enum Happening {
        Begun,
        Succeeded,
        Failed,
        ToldNothing,
        Passes(u64),
        StepsBack,
    }

    #[test]
    fn whatever_happens_it_never_stays_shut() {
        use Happening::{Begun, Failed, Passes, StepsBack, Succeeded, ToldNothing};
        let all = [Begun, Succeeded, Failed, ToldNothing, Passes(1), Passes(30), StepsBack];
        // Every sequence of six happenings after each number of failures.
        for before in 0..=TRIP_AFTER {
            for sequence in 0..all.len().pow(6) {
                let (mut breaker, mut now, mut rest, mut under_way) = (failing(before), at(1_000), sequence, 0_u32);
                for _ in 0..6 {
                    let happening = all[rest % all.len()];
                    rest /= all.len();
                    let closed = breaker.is_closed();
                    match happening {
                        Begun if !matches!(breaker.allows(now), Allowed::Nothing { .. }) => {
                            breaker.begun();
                            under_way += 1;
                        }
                        Succeeded if under_way > 0 => {
                            under_way -= 1;
                            assert_eq!(breaker.succeeded().is_some(), !closed, "told once for each change");
                            assert!(breaker.is_untouched());
                        }
                        Failed if under_way > 0 => {
                            under_way -= 1;
                            let change = breaker.failed(now, None, u64::MAX);
                            let opened = matches!(change, Some(Change::Opened { .. }));
                            assert_eq!(opened, closed && !breaker.is_closed(), "told once for each change");
                        }
                        ToldNothing if under_way > 0 => {
                            under_way -= 1;
                            breaker.told_nothing(now);
                        }
                        Passes(seconds) => now = now.plus(Span::from_seconds(seconds)),
                        StepsBack => now = now.minus(Span::from_seconds(500)),
                        _ => {}
                    }
                    match breaker.allows(now) {
                        Allowed::Nothing { until: None } => assert!(under_way > 0, "somebody will tell: {sequence}"),
                        Allowed::Nothing { until: Some(until) } => {
                            assert!(until > now && until.since(now) <= PROBE_MAX, "a bounded wait: {sequence}");
                            assert_eq!(breaker.allows(until), Allowed::One);
                        }
                        Allowed::One => assert!(!breaker.is_closed()),
                        Allowed::All => assert!(breaker.is_closed()),
                    }
                }
            }
        }
    }
}
