//! The smallest lossless bucket at every rate between two: the rate–bucket curve, exactly, by its corners.
//!
//! A run of events that takes `d` from its first to its last, `m` events later, needs the level `m + 1 - rate * d`: a line
//! in the rate. The curve is the greatest of these lines, so it is convex and falls. Its corners are found as those of any
//! such curve that can be evaluated (Eisner and Severance, 1976): where the lines of two rates meet, either the curve has
//! its corner, or a third line is above both there and divides the search.

use super::{ExactRate, Run, Summary};
use crate::rate::Rate;
use crate::time::{Span, Timestamp};

/// A point of the curve: an end of it, or a corner.
#[derive(Clone, Debug, PartialEq)]
pub struct Corner {
    pub rate: ExactRate,
    /// The smallest bucket that loses nothing at this rate.
    pub bucket: u64,
    /// The bucket before it is rounded up. Between two points the level is on the straight line between theirs.
    pub level: f64,
    /// The events that need it, here and at every rate up to the next point.
    pub critical_run: Run,
}

/// The curve for ascending times between two rates, given in either order: the lower end, the corners by rising rate,
/// the upper end. Empty without events.
#[must_use]
pub fn curve(times: &[Timestamp], one: Rate, other: Rate) -> Vec<Corner> {
    let (Some(one), Some(other)) = (Point::of(one.into(), times), Point::of(other.into(), times)) else {
        return Vec::new();
    };
    let (low, high) = if other.is_slower_than(&one) { (other, one) } else { (one, other) };
    let mut corners = vec![low.corner()];
    // Stretches of the curve that are still to be searched, the one of the lowest rates on top.
    let mut stretches = vec![(low.clone(), high.clone())];
    while let Some((left, right)) = stretches.pop() {
        let Some(meeting) = left.meeting(&right) else { continue };
        let Some(middle) = Point::of(meeting, times) else { continue };
        if middle.is_above(&left) {
            stretches.push((middle.clone(), right));
            stretches.push((left, middle));
        } else if !low.is_slower_than(&middle) {
            corners[0].critical_run = right.run();
        } else if middle.is_slower_than(&high) {
            corners.push(Corner { critical_run: right.run(), ..middle.corner() });
        }
    }
    if low.is_slower_than(&high) {
        corners.push(high.corner());
    }
    corners
}

/// The curve at one rate.
#[derive(Clone)]
struct Point {
    rate: ExactRate,
    summary: Summary,
}

impl Point {
    fn of(rate: ExactRate, times: &[Timestamp]) -> Option<Point> {
        Some(Point { rate, summary: Summary::of(rate, times)? })
    }

    fn run(&self) -> Run {
        self.summary.critical_run()
    }

    /// `m` and `d`: the line of the critical run.
    fn line(&self) -> (u64, u64) {
        (self.run().events - 1, self.run().duration().ticks())
    }

    /// The rate at which the lines of two points meet; `None` if they are the same. This is the point at the lower rate,
    /// so its line is the steeper one.
    fn meeting(&self, right: &Point) -> Option<ExactRate> {
        let ((events, ticks), (fewer, shorter)) = (self.line(), right.line());
        let window = Span::from_ticks(ticks.checked_sub(shorter)?);
        ExactRate::new(events.checked_sub(fewer)?, window)
    }

    /// Whether the curve is higher here than the line of another point.
    fn is_above(&self, other: &Point) -> bool {
        let (events, ticks) = other.line();
        let (best, unit) = self.summary.best();
        let (limit, window) = (i128::from(self.rate.limit()), i128::from(self.rate.window().ticks()));
        // The summary's unit is the window in lowest terms.
        best * (window / unit) > i128::from(events) * window - limit * i128::from(ticks)
    }

    fn is_slower_than(&self, other: &Point) -> bool {
        let product = |limit: u64, window: Span| u128::from(limit) * u128::from(window.ticks());
        product(self.rate.limit(), other.rate.window()) < product(other.rate.limit(), self.rate.window())
    }

    fn corner(&self) -> Corner {
        Corner { rate: self.rate, bucket: self.summary.bucket(), level: self.summary.level(), critical_run: self.run() }
    }
}
