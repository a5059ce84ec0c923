//! The most events in any half-open stretch of a given length.

use crate::catalogue::Side;
use crate::time::{Span, Timestamp};

/// Counts the most events in any stretch `[t, t + window)`, as the events pass in either direction.
///
/// The answer is at least `m + 1` exactly when some event is less than a window away from the `m`-th before it. So only
/// the last `m` times are kept: memory grows with the answer, 8 bytes each, not with the number of events.
#[derive(Clone, Debug)]
pub struct Busiest {
    window: Span,
    most: usize,
    /// The last times to pass, the latest at the end: all of them while they are fewer than `most`, else at least `most`.
    recent: Vec<Timestamp>,
}

impl Busiest {
    /// Nothing counted yet.
    #[must_use]
    pub const fn new(window: Span) -> Busiest {
        Busiest { window, most: 0, recent: Vec::new() }
    }

    /// The length of the stretch.
    #[must_use]
    pub const fn window(&self) -> Span {
        self.window
    }

    /// The most events so far.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most as u64
    }

    /// Takes the next times, which are ascending and lie on that side of all before them.
    pub fn extend(&mut self, times: &[Timestamp], side: Side) {
        let new = self.recent.len();
        match side {
            Side::After => self.recent.extend(times),
            Side::Before => self.recent.extend(times.iter().rev()),
        }
        for index in new..self.recent.len() {
            let earlier = index.checked_sub(self.most).map(|earlier| self.recent[earlier]);
            if earlier.is_some_and(|earlier| self.recent[index].ticks().abs_diff(earlier.ticks()) < self.window.ticks()) {
                self.most += 1;
            }
        }
        self.recent.drain(..self.recent.len().saturating_sub(self.most));
    }
}
