//! The area that data are drawn in, and the axes around it.

use svg::node::element::Group;

use super::axis::{Scale, number};
use super::canvas::{RIGHT, WIDTH, line, path, pieces, px, text, upright, width_of};
use super::time_axis::TimeScale;

/// The area of the data, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// A label of time has so many pixels, the next one begins behind them.
const TIME_LABEL: f64 = 85.0;
/// Behind the data there is a margin.
const MARGIN: f64 = WIDTH - RIGHT;
/// The height of a time axis below its frame.
pub(super) const TIME_AXIS_HEIGHT: f64 = 40.0;

impl Frame {
    pub fn across(&self) -> (f64, f64) {
        (self.left, self.right)
    }

    /// From the bottom to the top, as values grow.
    pub fn upward(&self) -> (f64, f64) {
        (self.bottom, self.top)
    }

    /// The axis at the left with lines across, and its name with the unit.
    pub fn left_axis(&self, scale: &Scale, most: u32, name: &str) -> Group {
        self.left_axis_at(scale, scale.ticks(most), name)
    }

    /// The axis at the left of counts: whole numbers only.
    pub fn count_axis(&self, scale: &Scale, most: u32, name: &str) -> Group {
        let whole = scale.ticks(most).into_iter().filter(|(value, _)| value.fract().abs() < 1e-9);
        self.left_axis_at(scale, whole.map(|(value, _)| (value, number(value, 1.0))).collect(), name)
    }

    /// The axis at the left of a bucket: 0, its size, and between them at most so many round numbers.
    pub fn bucket_axis(&self, scale: &Scale, bucket: u32, between: u32, name: &str) -> Group {
        const ROOM: f64 = 14.0;
        let brim = (f64::from(bucket), number(f64::from(bucket), 1.0));
        let is_apart = |(value, _): &(f64, String)| {
            between > 0 && (scale.at(*value) - self.top).abs() > ROOM && value.fract() == 0.0 && *value > 0.0
        };
        let ticks = scale.ticks(between.max(1)).into_iter().filter(is_apart).chain([(0.0, "0".to_owned()), brim]);
        self.left_axis_at(scale, ticks.collect(), name)
    }

    fn left_axis_at(&self, scale: &Scale, ticks: Vec<(f64, String)>, name: &str) -> Group {
        let mut axis = Group::new();
        for (value, label) in ticks {
            let y = scale.at(value);
            axis = axis.add(line("grid", (self.left, y), (self.right, y)));
            axis = axis.add(text("small muted end", self.left - 7.0, y + 4.0, &label));
        }
        axis.add(line("axis", (self.left, self.top), (self.left, self.bottom))).add(upright(
            "small",
            self.left - 44.0,
            f64::midpoint(self.top, self.bottom),
            name,
        ))
    }

    /// The axis at the bottom with lines upwards, and its name with the unit.
    pub fn bottom_axis(&self, scale: &Scale, most: u32, name: &str) -> Group {
        let mut axis = Group::new();
        for (value, label) in scale.ticks(most) {
            let x = scale.at(value);
            axis = axis.add(line("grid", (x, self.top), (x, self.bottom)));
            axis = axis.add(text("small muted middle", x, self.bottom + 17.0, &label));
        }
        let middle = f64::midpoint(self.left, self.right);
        axis.add(line("axis", (self.left, self.bottom), (self.right, self.bottom))).add(text(
            "small middle",
            middle,
            self.bottom + 38.0,
            name,
        ))
    }

    /// As many labels of time have room beside each other.
    fn time_ticks(&self) -> usize {
        pieces(self.left, self.right, TIME_LABEL)
    }

    /// Lines upwards at the ticks of time.
    pub fn time_grid(&self, scale: &TimeScale) -> Group {
        let (top, bottom) = (self.top, self.bottom);
        let ticks = scale.ticks(self.time_ticks()).into_iter();
        ticks.fold(Group::new(), |grid, tick| {
            let x = scale.at(tick.at);
            grid.add(line("grid", (x, top), (x, bottom)))
        })
    }

    /// The labels of time below the frame, within [`TIME_AXIS_HEIGHT`].
    pub fn time_axis(&self, scale: &TimeScale) -> Group {
        let mut axis = Group::new().add(line("axis", (self.left, self.bottom), (self.right, self.bottom)));
        for tick in scale.ticks(self.time_ticks()) {
            let x = scale.at(tick.at);
            axis = axis.add(line("axis", (x, self.bottom), (x, self.bottom + 5.0)));
            axis = axis.add(text("small middle", x, self.bottom + 19.0, &tick.label));
            if let Some(below) = tick.below.filter(|below| !below.is_empty()) {
                let last = self.right + MARGIN - width_of(&below) / 2.0;
                axis = axis.add(text("small muted middle", x.min(last), self.bottom + 34.0, &below));
            }
        }
        axis.add(text("small muted end", self.left - 32.0, self.bottom + 19.0, "UTC"))
    }
}

/// A bracket over `from` to `to` with a text above it. Both stay inside `across`: where the bracket is cut off it has no
/// end.
pub(super) fn bracket(across: (f64, f64), from: f64, to: f64, y: f64, label: &str) -> Group {
    const NARROWEST: f64 = 6.0;
    const END: f64 = 6.0;
    let middle = f64::midpoint(from, to);
    let half = (to - from).max(NARROWEST) / 2.0;
    let end = |at: f64| if (across.0 - NARROWEST..=across.1 + NARROWEST).contains(&at) { END } else { 0.0 };
    let inside = |at: f64| if end(at) > 0.0 { at } else { at.clamp(across.0, across.1) };
    let (from, to) = (middle - half, middle + half);
    let (left, right) = (inside(from), inside(to));
    let shape = format!("M{} {}V{}H{}V{}", px(left), px(y + end(from)), px(y), px(right), px(y + end(to)));
    let room = (width_of(label) / 2.0).min((across.1 - across.0) / 2.0);
    let centre = f64::midpoint(left, right).clamp(across.0 + room, across.1 - room);
    Group::new().add(path("bracket", shape)).add(text("small middle count halo", centre, y - 5.0, label))
}
