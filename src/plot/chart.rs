//! Charts of the laboratory: series of points with error bars, joined (share served against load) or not (the busiest
//! window against share served).

use svg::node::element::Group;

use super::axis::Scale;
use super::canvas::{self, LEFT, RIGHT, line, path, polyline, series_class, series_mark, text, tooltip};
use super::frame::Frame;

/// Series over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub title: String,
    /// What the axis at the bottom shows, with its unit: `load (% of the limit)`.
    pub x: String,
    /// The same of the axis at the left.
    pub y: String,
    pub series: Vec<Series>,
}

/// A named series, in the order in which its points are joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
}

/// A point of a series. What is not a finite number is not drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    /// The standard error of `y`: the bar reaches so far to both sides.
    pub stderr: f64,
    /// What the point stands for, shown beside its numbers; may be empty.
    pub note: String,
}

const FRAME_HEIGHT: f64 = 430.0;
/// Half the width of the ends of an error bar.
const SERIF: f64 = 3.5;
/// The share of the range that stays free at each end of an axis.
const MARGIN: f64 = 0.05;

impl Chart {
    /// One line a series, with error bars.
    #[must_use]
    pub fn lines(&self) -> String {
        self.draw(true)
    }

    /// Points that are not joined.
    #[must_use]
    pub fn scatter(&self) -> String {
        self.draw(false)
    }

    fn draw(&self, joined: bool) -> String {
        let (legend, legend_height) = canvas::legend(LEFT, 62.0, self.legend(joined));
        let top = 62.0 + legend_height + 2.0;
        let frame = Frame { left: LEFT, top, right: RIGHT, bottom: top + FRAME_HEIGHT };
        let points = || self.series.iter().flat_map(|series| &series.points).filter(|point| point.is_drawn());
        let x = around(points().map(|point| (point.x, point.x)), frame.across());
        let y = around(points().map(|point| (point.y - point.stderr, point.y + point.stderr)), frame.upward());
        let mut content = Group::new()
            .add(text("title", frame.left, 34.0, &self.title))
            .add(legend)
            .add(frame.left_axis(&y, 8, &self.y))
            .add(frame.bottom_axis(&x, 10, &self.x));
        for (index, series) in self.series.iter().enumerate() {
            content = content.add(draw_series(index, series, (&x, &y), joined));
        }
        canvas::document(&self.title, frame.bottom + 56.0, content)
    }

    fn legend(&self, joined: bool) -> Vec<(Group, String)> {
        let entry = |(index, series): (usize, &Series)| {
            let colour = series_class(index);
            let stroke = if joined { polyline([(-11.0, 0.0), (11.0, 0.0)]) } else { String::new() };
            (Group::new().add(path(&format!("{colour} line"), stroke)).add(series_mark(index, 0.0, 0.0)), series.name.clone())
        };
        self.series.iter().enumerate().map(entry).collect()
    }
}

impl Point {
    fn is_drawn(&self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.stderr.is_finite()
    }
}

/// A scale over all of the ranges with a margin on both sides.
fn around(ranges: impl Iterator<Item = (f64, f64)>, pixels: (f64, f64)) -> Scale {
    let (least, greatest) =
        ranges.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), (low, high)| (least.min(low), greatest.max(high)));
    if least > greatest {
        return Scale::linear(0.0, 1.0, pixels);
    }
    let margin = (greatest - least) * MARGIN;
    Scale::linear(least - margin, greatest + margin, pixels)
}

fn draw_series(index: usize, series: &Series, (x, y): (&Scale, &Scale), joined: bool) -> Group {
    let colour = series_class(index);
    let drawn: Vec<&Point> = series.points.iter().filter(|point| point.is_drawn()).collect();
    let mut group = Group::new();
    if joined {
        let along = drawn.iter().map(|point| (x.at(point.x), y.at(point.y)));
        group = group.add(path(&format!("{colour} line"), polyline(along)));
    }
    for point in drawn {
        let (px, py) = (x.at(point.x), y.at(point.y));
        if point.stderr > 0.0 {
            let (low, high) = (y.at(point.y - point.stderr), y.at(point.y + point.stderr));
            let bar = [((px, low), (px, high)), ((px - SERIF, low), (px + SERIF, low)), ((px - SERIF, high), (px + SERIF, high))];
            group = bar.into_iter().fold(group, |group, (from, to)| group.add(line(&format!("{colour} line thin"), from, to)));
        }
        let error = if point.stderr > 0.0 { format!(" ± {}", short(point.stderr)) } else { String::new() };
        let note = if point.note.is_empty() { String::new() } else { format!("\n{}", point.note) };
        let told = format!("{}: {} at {}{error}{note}", series.name, short(point.y), short(point.x));
        group = group.add(series_mark(index, px, py).add(tooltip(&told)));
    }
    group
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
