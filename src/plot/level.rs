//! What is left in a bucket over time, as the exact line of straight pieces, and how it is drawn.

use svg::node::element::Group;

use super::axis::{Scale, number};
use super::canvas::{line, path, polyline, px, rectangle, text};
use super::frame::Frame;
use super::time_axis::TimeScale;
use crate::limiter::{Algorithm, Limiter, Request};
use crate::time::Timestamp;

/// Collects the corners of the line while a limiter with a bucket decides.
pub(super) struct LevelLine {
    points: Vec<(Timestamp, f64)>,
    brim: f64,
    full_at: Timestamp,
}

impl LevelLine {
    /// A bucket of `bucket` that is full at `from`.
    pub fn new(bucket: u32, from: Timestamp) -> LevelLine {
        let brim = f64::from(bucket);
        LevelLine { points: vec![(from, brim)], brim, full_at: from }
    }

    /// Takes the limiter as it is after a decision by which so many tokens were taken, at an instant that is none earlier than
    /// those before.
    pub fn decided(&mut self, at: Timestamp, taken: u32, limiter: &Limiter) {
        let Some(after) = limiter.level(at) else { return };
        if self.full_at < at {
            self.points.push((self.full_at, self.brim));
        }
        self.points.push((at, after + f64::from(taken)));
        if taken > 0 {
            self.points.push((at, after));
        }
        self.full_at = limiter.outlook(at, Request::ONE).reset_at;
    }

    /// The whole line, until `to`; what was decided later is not shown.
    pub fn finish(mut self, to: Timestamp) -> Vec<(Timestamp, f64)> {
        if let (Some((from, _)), Some((last, _))) = (self.points.first(), self.points.last())
            && *last > to
        {
            return clipped(&self.points, *from, to);
        }
        if self.full_at <= to {
            self.points.push((self.full_at, self.brim));
        }
        let full = (self.full_at.max(to), self.brim);
        let end = self.points.last().map_or(self.brim, |last| level_between(*last, full, to));
        self.points.push((to, end));
        self.points
    }
}

/// The level at an instant between two corners.
fn level_between((from, low): (Timestamp, f64), (to, high): (Timestamp, f64), at: Timestamp) -> f64 {
    if to <= from { high } else { low + (high - low) * at.since(from).ticks() as f64 / to.since(from).ticks() as f64 }
}

/// The part of a line between two instants, both inclusive.
pub(super) fn clipped(line: &[(Timestamp, f64)], from: Timestamp, to: Timestamp) -> Vec<(Timestamp, f64)> {
    let start = line.partition_point(|(at, _)| *at < from);
    let end = line.partition_point(|(at, _)| *at <= to);
    let cut = |index: usize, at: Timestamp| {
        let (before, after) = (line.get(index.checked_sub(1)?)?, line.get(index)?);
        Some((at, level_between(*before, *after, at)))
    };
    let (first, last) = (cut(start, from), cut(end, to));
    first.into_iter().chain(line[start.min(end)..end].iter().copied()).chain(last).collect()
}

/// What is left in the bucket of an algorithm: a short word, because the axis is.
pub(super) fn name(algorithm: Algorithm) -> &'static str {
    if algorithm == Algorithm::LeakyBucket { "places" } else { "tokens" }
}

/// What stands for it in a legend: the line below its capacity.
pub(super) fn legend() -> (Group, String) {
    let sample = Group::new()
        .add(line("capacity", (-11.0, -7.0), (11.0, -7.0)))
        .add(rectangle("under", -11.0, -1.0, 22.0, 7.0))
        .add(line("level", (-11.0, -1.0), (11.0, -1.0)));
    (sample, "left in the bucket, and its capacity".to_owned())
}

/// The most that a bucket holds, as a line across with its number above the right end.
pub(super) fn capacity(frame: &Frame, scale: &Scale, bucket: u32) -> Group {
    let y = scale.at(f64::from(bucket));
    let label = format!("capacity {}", number(f64::from(bucket), 1.0));
    Group::new().add(line("capacity", (frame.left, y), (frame.right, y))).add(text(
        "small end capacity-count halo",
        frame.right,
        y - 2.5,
        &label,
    ))
}

/// The line and the area under it. Of each pixel column only what shows is drawn: the first, the least, the greatest and
/// the last point in it.
pub(super) fn draw(line: &[(Timestamp, f64)], frame: &Frame, time: &TimeScale, scale: &Scale) -> Group {
    let points: Vec<(f64, f64)> = line.iter().map(|(at, level)| (time.at(*at), scale.at(*level))).collect();
    let shown = reduced(&points);
    let (Some(first), Some(last)) = (shown.first(), shown.last()) else { return Group::new() };
    let outline = polyline(shown.iter().copied());
    let area = format!("{outline}V{}H{}Z", px(frame.bottom), px(first.0));
    // A line of one point has no area.
    let area = if first == last { String::new() } else { area };
    Group::new().add(path("under", area)).add(path("level", outline))
}

/// Keeps of the points that share a whole pixel the first, the lowest, the highest and the last, in their order.
fn reduced(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    for column in points.chunk_by(|a, b| (a.0.floor() - b.0.floor()).abs() < 0.5) {
        let by_height = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends = [column.first(), column.last()];
        let extremes = [column.iter().min_by(by_height), column.iter().max_by(by_height)];
        let wanted = |point: &&(f64, f64)| ends.iter().chain(&extremes).flatten().any(|kept| std::ptr::eq(*kept, *point));
        kept.extend(column.iter().filter(wanted).copied());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::{Limit, Verdict};

    fn at(second: u64) -> Timestamp {
        Timestamp::from_ticks(0).expect("the epoch").plus(crate::time::Span::from_seconds(second))
    }

    /// Two tokens, one back a minute: asked at 60 s, 61 s and 62 s; shown until so many seconds.
    fn line_until(end: u64) -> Vec<(Timestamp, f64)> {
        let limit = Limit::new(Algorithm::TokenBucket, "1/m".parse().expect("a rate"), Some(2)).expect("a limit");
        let mut limiter = Limiter::new(limit);
        let mut line = LevelLine::new(2, at(0));
        for second in [60, 61, 62] {
            let admitted = limiter.admit(at(second), Request::ONE) == Verdict::Admitted;
            line.decided(at(second), u32::from(admitted), &limiter);
        }
        line.finish(at(end))
    }

    fn line() -> Vec<(Timestamp, f64)> {
        line_until(300)
    }

    #[test]
    fn the_line_falls_with_each_admission_and_rises_to_the_brim() {
        let hundredths = |level: f64| format!("{level:.2}");
        let corners: Vec<_> = line().into_iter().map(|(at, level)| (at.seconds(), hundredths(level))).collect();
        let expected = [
            (0, "2.00"),
            (0, "2.00"),
            (60, "2.00"),
            (60, "1.00"),
            (61, "1.02"),
            (61, "0.02"),
            (62, "0.03"),
            (180, "2.00"),
            (300, "2.00"),
        ];
        assert_eq!(corners, expected.map(|(second, level)| (second, level.to_owned())));
    }

    #[test]
    fn what_is_decided_after_the_end_is_not_shown() {
        let corners: Vec<_> = line_until(61).into_iter().map(|(at, level)| (at.seconds(), (level * 100.0).round())).collect();
        assert_eq!(corners, [(0, 200.0), (0, 200.0), (60, 200.0), (60, 100.0), (61, 102.0), (61, 2.0), (61, 2.0)]);
        assert_eq!(line_until(30).last(), Some(&(at(30), 2.0)));
    }

    #[test]
    fn a_part_of_the_line_begins_and_ends_on_it() {
        let part = clipped(&line(), at(121), at(240));
        let corners: Vec<_> = part.iter().map(|(at, level)| (at.seconds(), (level * 100.0).round())).collect();
        assert_eq!(corners, [(121, 102.0), (180, 200.0), (240, 200.0)]);
        assert_eq!(clipped(&line(), at(400), at(500)), []);
    }

    #[test]
    fn a_column_keeps_its_extremes() {
        let points = [(1.0, 5.0), (1.1, 9.0), (1.2, 6.0), (1.3, 1.0), (1.4, 4.0), (2.0, 3.0)];
        assert_eq!(reduced(&points), [(1.0, 5.0), (1.1, 9.0), (1.3, 1.0), (1.4, 4.0), (2.0, 3.0)]);
    }
}
