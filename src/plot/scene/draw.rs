//! How a scene is laid out: title and legend, the rows below each other, one time axis at the bottom.

use svg::node::element::Group;

use super::super::axis::{Scale, number};
use super::super::canvas::{self, LEFT, RIGHT, line, path, rectangle, text};
use super::super::frame::{Frame, TIME_AXIS_HEIGHT, bracket};
use super::super::level;
use super::super::time_axis::TimeScale;
use super::{Row, Scene, level_name, marks};
use crate::event::Magnitude;

/// How much a picture tells besides what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Detail {
    /// Columns that stand for many events have no tooltips, so that the file stays small.
    Picture,
    /// Every mark has one.
    Report,
}

/// The row's name and promise.
const HEAD: f64 = 40.0;
/// The room for the bracket and its count.
const BRACKET: f64 = 30.0;
const MARKS: f64 = 84.0;
const LEVEL: f64 = 52.0;
/// Between the marks and the level.
const GAP: f64 = 12.0;
/// Between two rows.
const ROW_GAP: f64 = 22.0;

impl Scene {
    /// The scene as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let (legend, legend_height) = legend_at(self, 82.0);
        let title = text("title", LEFT, 34.0, &self.title);
        let mut content = Group::new().add(title).add(text("muted", LEFT, 56.0, &self.subtitle)).add(legend);
        let mut y = 82.0 + legend_height;
        for row in &self.rows {
            let (drawn, height) = row_at(self, row, y, Detail::Picture);
            content = content.add(drawn);
            y += height;
        }
        let (axis, height) = axis_at(self, y - ROW_GAP);
        canvas::document(&format!("{}. {}", self.title, self.subtitle), y - ROW_GAP + height, content.add(axis))
    }

    fn time(&self) -> TimeScale {
        TimeScale::new(self.from, self.to, LEFT, RIGHT)
    }

    /// From below the smallest magnitude, so that its mark has a height, to the next whole one above the largest.
    fn heights(&self, frame: &Frame) -> Scale {
        let magnitudes =
            || self.rows.iter().flat_map(|row| &row.decisions).filter_map(|mark| mark.magnitude).map(Magnitude::value);
        let (least, greatest) = (magnitudes().fold(f64::INFINITY, f64::min), magnitudes().fold(f64::NEG_INFINITY, f64::max));
        if least > greatest {
            return Scale::linear(0.0, 10.0, frame.upward());
        }
        let from = (least * 2.0).floor() / 2.0 - 0.9;
        Scale::linear(from, greatest.ceil().max(from + 1.0), frame.upward())
    }
}

/// The legend, its first line at `y`, and the height it takes.
pub(in super::super) fn legend_at(scene: &Scene, y: f64) -> (Group, f64) {
    let sample = |class: &str| Group::new().add(line(class, (0.0, 6.0), (0.0, -7.0)));
    let mut entries = vec![
        (sample("passed"), "passed".to_owned()),
        (sample("refused"), "refused (height: magnitude)".to_owned()),
        (Group::new().add(path("bracket", "M-9 5V-1H9V5")), "most within one window".to_owned()),
    ];
    if scene.rows.iter().any(|row| !row.level.is_empty()) {
        let level = Group::new().add(rectangle("under", -11.0, -2.0, 22.0, 8.0)).add(line("level", (-11.0, -2.0), (11.0, -2.0)));
        entries.push((level, "left in the bucket".to_owned()));
    }
    let (legend, height) = canvas::legend(LEFT, y, entries);
    (legend, height + 4.0)
}

/// One limiter, from `top` downwards, and the height it takes.
pub(in super::super) fn row_at(scene: &Scene, row: &Row, top: f64, detail: Detail) -> (Group, f64) {
    let time = scene.time();
    let marks = Frame { left: LEFT, top: top + HEAD + BRACKET, right: RIGHT, bottom: top + HEAD + BRACKET + MARKS };
    let heights = scene.heights(&marks);
    let (offered, passed) = (row.decisions.len(), row.passed());
    let count = |n: usize| number(n as f64, 1.0);
    let counts = format!("{} of {} passed, {} refused", count(passed), count(offered), count(offered - passed));
    let mut drawn = Group::new()
        .add(text("head", LEFT, top + 14.0, &row.name))
        .add(text("head end", RIGHT, top + 14.0, &counts))
        .add(text("small muted", LEFT, top + 32.0, &format!("Promise: {}", row.promise)))
        .add(marks.time_grid(&time))
        .add(marks.left_axis(&heights, 4, "magnitude"))
        .add(line("axis", (LEFT, marks.bottom), (RIGHT, marks.bottom)))
        .add(marks::draw(&row.decisions, &marks, &time, &heights, detail));
    if let Some(busiest) = row.busiest {
        let window = row.limit.rate().window();
        let label = format!("{} within {window}, promised at most {}", busiest.count, row.limit.promise().most_in_any_window);
        drawn = drawn.add(bracket((LEFT, RIGHT), time.at(busiest.from), time.at(busiest.to), marks.top - 11.0, &label));
    }
    let Some(bucket) = row.limit.bucket().filter(|_| !row.level.is_empty()) else {
        return (drawn, marks.bottom - top + ROW_GAP);
    };
    let level = Frame { top: marks.bottom + GAP, bottom: marks.bottom + GAP + LEVEL, ..marks };
    let scale = Scale::linear(0.0, f64::from(bucket), level.upward());
    drawn = drawn
        .add(level.time_grid(&time))
        .add(level.bucket_axis(&scale, bucket, 0, level_name(row.limit.algorithm())))
        .add(level::draw(&row.level, &level, &time, &scale))
        .add(line("axis", (LEFT, level.bottom), (RIGHT, level.bottom)));
    (drawn, level.bottom - top + ROW_GAP)
}

/// The time axis at `top`, and the height it takes.
pub(in super::super) fn axis_at(scene: &Scene, top: f64) -> (Group, f64) {
    let frame = Frame { left: LEFT, top, right: RIGHT, bottom: top };
    (frame.time_axis(&scene.time()), TIME_AXIS_HEIGHT + 6.0)
}
