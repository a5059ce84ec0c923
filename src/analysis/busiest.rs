//! The most events in any half-open stretch of a given length.

use std::collections::VecDeque;

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
    /// The last `most` times, the latest to pass at the back.
    recent: VecDeque<Timestamp>,
}

impl Busiest {
    /// Nothing counted yet.
    #[must_use]
    pub const fn new(window: Span) -> Busiest {
        Busiest { window, most: 0, recent: VecDeque::new() }
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
        match side {
            Side::After => times.iter().for_each(|at| self.push(*at)),
            Side::Before => times.iter().rev().for_each(|at| self.push(*at)),
        }
    }

    #[inline]
    fn push(&mut self, at: Timestamp) {
        if self.recent.len() < self.most {
            // Fewer have passed than were ever within a window: only at the very start.
            self.recent.push_back(at);
            return;
        }
        let grows = self.recent.front().is_none_or(|oldest| at.ticks().abs_diff(oldest.ticks()) < self.window.ticks());
        if grows {
            self.most += 1;
        } else {
            self.recent.pop_front();
        }
        self.recent.push_back(at);
    }
}
