//! What any rate needs to know of a piece of a stream, so that many rates need not each look at every event.
//!
//! For every rate `a_k = k*w - n*t_k` is linear in the point `(k, t_k)`, so its extremes lie on the convex hull of the
//! points: on average three or four of 32. And no run within a group gains more than its shortest gap allows.

use crate::time::Timestamp;

/// How many events are outlined together.
const GROUP: usize = 32;

/// The groups of a piece, and the corners of their hulls.
#[derive(Default)]
pub(super) struct Outline {
    groups: Vec<Group>,
    /// Indices of events: for each group its candidates for the least `a`, then those for the greatest.
    corners: Vec<u32>,
}

struct Group {
    start: usize,
    end: usize,
    /// The shortest time between two neighbours, in ticks; 0 for a single event.
    shortest_gap: i64,
    /// Where among the corners the candidates of either kind end.
    least_end: usize,
    greatest_end: usize,
}

/// A group as one rate sees it.
pub(super) struct Sight<'a> {
    pub start: usize,
    pub end: usize,
    pub shortest_gap: i64,
    /// The events among which the least `a` is, for any rate.
    pub least_among: &'a [u32],
    /// The events among which the greatest `a` is, for any rate.
    pub greatest_among: &'a [u32],
}

impl Outline {
    /// Outlines ascending times, in place of what was outlined before.
    pub(super) fn draw(&mut self, times: &[Timestamp]) {
        self.groups.clear();
        self.corners.clear();
        for (number, group) in times.chunks(GROUP).enumerate() {
            let start = number * GROUP;
            let gaps = group.windows(2).map(|pair| pair[1].ticks() - pair[0].ticks());
            let shortest_gap = gaps.min().unwrap_or(0);
            self.draw_side(start, group, |turn| turn >= 0);
            let least_end = self.corners.len();
            self.draw_side(start, group, |turn| turn <= 0);
            let greatest_end = self.corners.len();
            self.groups.push(Group { start, end: start + group.len(), shortest_gap, least_end, greatest_end });
        }
    }

    /// One side of the hull, from left to right: a corner that the next point makes `superfluous` by its turn is dropped.
    fn draw_side(&mut self, start: usize, group: &[Timestamp], superfluous: impl Fn(i128) -> bool) {
        let from = self.corners.len();
        let point = |index: u32| (i128::from(index), i128::from(group[index as usize - start].ticks()));
        for index in (start..).map(|index| u32::try_from(index).unwrap_or(u32::MAX)).take(group.len()) {
            while let [.., one, two] = self.corners[from..] {
                let ((k1, t1), (k2, t2), (k3, t3)) = (point(one), point(two), point(index));
                if !superfluous((k2 - k1) * (t3 - t1) - (k3 - k1) * (t2 - t1)) {
                    break;
                }
                self.corners.pop();
            }
            self.corners.push(index);
        }
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = Sight<'_>> {
        let mut from = 0;
        self.groups.iter().map(move |group| {
            let least_among = &self.corners[from..group.least_end];
            let greatest_among = &self.corners[group.least_end..group.greatest_end];
            from = group.greatest_end;
            Sight { start: group.start, end: group.end, shortest_gap: group.shortest_gap, least_among, greatest_among }
        })
    }
}
