//! The rate–bucket curve: how large a bucket must be at each rate so that nothing is lost.

use svg::node::element::Group;

use super::axis::{Scale, number};
use super::canvas::{self, LEFT, RIGHT, disc, line, path, polyline, text, tooltip, width_of};
use super::frame::Frame;
use super::html;

/// The curve between two rates. It is convex and falls; between two corners it is straight.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub title: String,
    /// The window of all rates, to be put behind "per": `hour`, `90 minutes`.
    pub window: String,
    /// Where the critical run changes, and both ends, by ascending rate.
    pub corners: Vec<Corner>,
    /// The buckets of whole rates in between, by ascending rate.
    pub whole_rates: Vec<WholeRate>,
}

/// A corner of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corner {
    /// Events per window.
    pub rate: f64,
    /// The bucket before it is rounded up.
    pub level: f64,
    /// How many events the critical run from here on has, where that is known.
    pub critical_run: Option<u64>,
}

/// The smallest lossless bucket at a whole rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeRate {
    /// Events per window.
    pub rate: u64,
    pub bucket: u64,
}

const FRAME: Frame = Frame { left: LEFT, top: 92.0, right: RIGHT, bottom: 560.0 };
const HEIGHT: f64 = 620.0;

impl Curve {
    /// The curve as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        canvas::document(&self.title, HEIGHT, self.drawn())
    }

    /// The curve as a figure for a page with [`figures_style`](crate::plot::figures_style).
    #[must_use]
    pub fn to_figures(&self) -> String {
        html::figure(&self.title, HEIGHT, self.drawn())
    }

    fn drawn(&self) -> Group {
        let rates = || self.corners.iter().map(|c| c.rate).chain(self.whole_rates.iter().map(|p| p.rate as f64));
        let (from, to) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        let (from, to) = if from <= to { (from, to) } else { (0.0, 1.0) };
        let x = Scale::fitting(from, to, FRAME.across());
        let buckets = self.whole_rates.iter().map(|p| p.bucket as f64);
        let y = Scale::from_zero(self.corners.iter().map(|c| c.level).chain(buckets), FRAME.upward());
        let (legend, _) = canvas::legend(
            FRAME.left,
            62.0,
            vec![
                (Group::new().add(line("line s0", (-11.0, 0.0), (11.0, 0.0))), "level needed, exact".to_owned()),
                (
                    Group::new().add(path("line thin s0 hollow", disc(0.0, 0.0, 3.5))),
                    "corner, with its rate: the critical run changes".to_owned(),
                ),
                (Group::new().add(path("s1", disc(0.0, 0.0, 3.5))), "smallest bucket at a whole rate".to_owned()),
            ],
        );
        Group::new()
            .add(text("title", FRAME.left, 34.0, &self.title))
            .add(legend)
            .add(FRAME.left_axis(&y, 8, "bucket (tokens)"))
            .add(FRAME.bottom_axis(&x, 12, &format!("rate (events per {})", self.window)))
            .add(path("line s0", polyline(self.line(&x, &y))))
            .add(self.corner_marks(&x, &y))
            .add(self.bucket_marks(&x, &y))
    }

    /// What is straight on a linear axis is bent on a logarithmic one, and is drawn in small pieces there.
    fn line(&self, x: &Scale, y: &Scale) -> Vec<(f64, f64)> {
        let pieces: u32 = if x.is_logarithmic() { 16 } else { 1 };
        let mut points: Vec<_> = self.corners.first().map(|c| (x.at(c.rate), y.at(c.level))).into_iter().collect();
        for pair in self.corners.windows(2) {
            let between = |piece: u32| {
                let share = f64::from(piece) / f64::from(pieces);
                let mix = |a: f64, b: f64| a + (b - a) * share;
                (x.at(mix(pair[0].rate, pair[1].rate)), y.at(mix(pair[0].level, pair[1].level)))
            };
            points.extend((1..=pieces).map(between));
        }
        points
    }

    /// Corners with their rates written below the line, as far as there is room.
    fn corner_marks(&self, x: &Scale, y: &Scale) -> Group {
        let mut marks = Group::new();
        let mut free_from = FRAME.left;
        for corner in &self.corners {
            let (px, py) = (x.at(corner.rate), y.at(corner.level));
            let run = corner.critical_run.map_or_else(String::new, |events| format!("\ncritical run of {events} events"));
            let told = format!("{} per {}: level {}{run}", rounded(corner.rate), self.window, rounded(corner.level));
            marks = marks.add(path("line thin s0 hollow", disc(px, py, 3.5)).add(tooltip(&told)));
            let label = format!("{:.1}", corner.rate);
            if px - width_of(&label) >= free_from && py + 20.0 < FRAME.bottom {
                marks = marks.add(text("small muted end halo", px - 3.0, py + 15.0, &label));
                free_from = px;
            }
        }
        marks
    }

    /// Whole rates with their buckets written beside them, as far as there is room.
    fn bucket_marks(&self, x: &Scale, y: &Scale) -> Group {
        let mut marks = Group::new();
        let mut free_from = f64::NEG_INFINITY;
        for point in &self.whole_rates {
            let (px, py) = (x.at(point.rate as f64), y.at(point.bucket as f64));
            let told = format!("{} per {}: a bucket of {}", point.rate, self.window, point.bucket);
            marks = marks.add(path("s1", disc(px, py, 3.5)).add(tooltip(&told)));
            let label = number(point.bucket as f64, 1.0);
            let width = width_of(&label);
            if px - width / 2.0 >= free_from {
                marks = marks.add(text("small halo", px + 5.0, py - 7.0, &label));
                free_from = px + width / 2.0 + 6.0;
            }
        }
        marks
    }
}

fn rounded(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
