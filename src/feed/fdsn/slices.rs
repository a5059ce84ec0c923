//! How a span is cut into slices of time that the service can answer: oldest first, sized by what was counted, halved where
//! one is too large, wider again where the Earth is quiet. Neighbours share the second between them.

/// A slice is planned to hold this part of what the service gives at once, so that an uneven year rarely exceeds it.
const PLANNED_PART: u64 = 2;

/// What is still to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slices {
    /// The second from which nothing is known yet.
    next: i64,
    /// The last second, inclusive.
    end: i64,
    /// Seconds from the first of a slice to its last, at least one.
    width: u64,
    limit: u64,
}

impl Slices {
    /// From `next` to `end`, both inclusive, where `count` events are expected and `limit` come at once.
    pub fn new(next: i64, end: i64, count: u64, limit: u64) -> Slices {
        let span = end.saturating_sub(next).max(1).unsigned_abs();
        let target = (limit / PLANNED_PART).max(1);
        // As many slices as there are targets in the count, of equal width.
        let width = span.div_ceil(count.div_ceil(target).max(1)).max(1);
        Slices { next, end, width, limit }
    }

    /// The first and the last second of the next slice, both inclusive; `None` when all is done.
    pub fn current(&self) -> Option<(i64, i64)> {
        (self.next < self.end).then(|| (self.next, self.next.saturating_add_unsigned(self.width).min(self.end)))
    }

    /// The current slice is done and held so many events.
    pub fn done(&mut self, events: u64) {
        if let Some((_, last)) = self.current() {
            self.next = last;
        }
        if events < self.limit / PLANNED_PART / 2 {
            self.width = self.width.saturating_mul(2);
        }
    }

    /// The current slice is too large: tries half of it. `false` if it is as short as can be.
    pub fn halve(&mut self) -> bool {
        let Some((first, last)) = self.current() else { return false };
        let held = last.abs_diff(first);
        self.width = held.div_ceil(2);
        held > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_the_span_and_share_their_seams() {
        for (span, count) in [(1, 0), (1, 100), (2, 3), (10, 7), (1_000, 0), (1_000, 200), (347_155_200, 18_738)] {
            let mut slices = Slices::new(-5, -5 + span, count, 20);
            let (mut next, mut asked) = (-5, 0);
            while let Some((first, last)) = slices.current() {
                assert_eq!(first, next, "each begins where the one before ended");
                assert!(last > first && last <= -5 + span);
                (next, asked) = (last, asked + 1);
                slices.done(asked % 20);
            }
            assert_eq!(next, -5 + span);
        }
    }

    #[test]
    fn a_slice_is_planned_by_what_was_counted_and_halved_to_a_second() {
        let mut slices = Slices::new(0, 1_000, 100, 20);
        assert_eq!(slices.current(), Some((0, 100)), "ten events in ten slices");
        slices.done(9);
        assert_eq!(slices.current(), Some((100, 200)));
        slices.done(4);
        assert_eq!(slices.current(), Some((200, 400)), "few events: wider");
        let mut tries = 0;
        while slices.halve() {
            tries += 1;
        }
        assert_eq!((tries, slices.current()), (8, Some((200, 201))), "200 s in halves down to one");
        let mut all = Slices::new(0, 1_000, 5, 20_000);
        assert_eq!(all.current(), Some((0, 1_000)));
        all.done(5);
        assert!(!all.halve() && all.current().is_none());
    }
}
