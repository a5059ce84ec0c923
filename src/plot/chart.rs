//! Charts of the laboratory: series of points with error bars, joined (share served against load) or not (the busiest
//! window against share served), several panels with one legend.

use svg::node::element::Group;

use super::axis::Scale;
use super::canvas::{LEFT, Paper, line, path, polyline, series_class, series_line, series_mark, text, tooltip};
use super::frame::Frame;
use super::sheet::{self, Block, Panel, Sheet, Switches};

/// Charts under one title.
#[derive(Clone, Debug, PartialEq)]
pub struct Charts {
    pub title: String,
    /// A line or two below the title.
    pub subtitle: String,
    pub groups: Vec<ChartGroup>,
}

/// Charts of the same series, two beside each other if there are several. Series of one name look the same in all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartGroup {
    /// May be empty.
    pub heading: String,
    pub charts: Vec<Chart>,
}

/// Series over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    pub name: String,
    /// What the axis at the bottom shows, with its unit: `load (% of the limit)`. Logarithmic if it spans much.
    pub x: String,
    /// The same of the axis at the left.
    pub y: String,
    /// What the axis at the left shows at least; without, no more than the points need.
    pub y_range: Option<(f64, f64)>,
    /// Whether the points of a series are joined, in their order.
    pub joined: bool,
    pub series: Vec<Series>,
}

/// A named series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub name: String,
    /// Computed by a formula: a broken line without marks.
    pub formula: bool,
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

/// The height of the data, where a chart stands alone and where two stand beside each other.
const ALONE: f64 = 400.0;
const BESIDE: f64 = 230.0;
/// The chart's name, what is left of its room where it has none, and the axis below with its name.
const HEAD: f64 = 34.0;
const NAMELESS_HEAD: f64 = 10.0;
const FOOT: f64 = 66.0;
/// Between the data and the right edge.
const MARGIN_RIGHT: f64 = 24.0;
/// Half the width of the ends of an error bar.
const SERIF: f64 = 3.5;
/// The share of the range that stays free at each end of an axis.
const MARGIN: f64 = 0.05;
/// From so many points on, a joined series has none of its points marked.
const MAX_MARKED: usize = 30;

impl Charts {
    /// The charts as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.sheet().to_svg()
    }

    /// The charts as a page with boxes that switch series and charts off.
    #[must_use]
    pub fn to_html(&self) -> String {
        self.sheet().to_html()
    }

    /// The charts as figures for a page with [`figures_style`](crate::plot::figures_style) and a title of its own.
    #[must_use]
    pub fn to_figures(&self) -> String {
        self.sheet().to_figures()
    }

    fn sheet(&self) -> Sheet {
        let blocks = self.groups.iter().enumerate().map(|(number, group)| group.block(number)).collect();
        let switches = self.groups.iter().enumerate().flat_map(|(number, group)| group.switches(number)).collect();
        Sheet { title: self.title.clone(), subtitle: self.subtitle.clone(), blocks, switches }
    }
}

impl ChartGroup {
    /// The series of all charts, each name once.
    fn series(&self) -> Vec<&Series> {
        let mut all: Vec<&Series> = Vec::new();
        for series in self.charts.iter().flat_map(|chart| &chart.series) {
            if all.iter().all(|other| other.name != series.name) {
                all.push(series);
            }
        }
        all
    }

    fn columns(&self) -> usize {
        self.charts.len().clamp(1, 2)
    }

    fn block(&self, number: usize) -> Block {
        let all = self.series();
        let joined = self.charts.iter().any(|chart| chart.joined);
        let entry = |(index, series): (usize, &&Series)| {
            let stroke = if joined { polyline([(-11.0, 0.0), (11.0, 0.0)]) } else { String::new() };
            let sample = Group::new().add(path(&line_class(index, series), stroke));
            (if series.formula { sample } else { sample.add(series_mark(index, 0.0, 0.0)) }, series.name.clone())
        };
        let panel = |(index, chart): (usize, &Chart)| {
            let place = |name: &str| all.iter().position(|series| series.name == name).unwrap_or_default();
            let (content, height) = chart.draw(self.columns(), number, &place);
            let label = format!("{}: {} against {}", chart.name, chart.y, chart.x);
            Panel { class: panel_class(number, index), label, content, height }
        };
        Block {
            paper: Paper::WIDE,
            heading: self.heading.clone(),
            legend: all.iter().enumerate().map(entry).collect(),
            columns: self.columns(),
            panels: self.charts.iter().enumerate().map(panel).collect(),
            foot: None,
        }
    }

    fn switches(&self, number: usize) -> Vec<Switches> {
        let heading = |what: &str| if self.heading.is_empty() { what.to_owned() } else { format!("{what}: {}", self.heading) };
        let series =
            self.series().into_iter().enumerate().map(|(index, series)| (series_switch(number, index), series.name.clone()));
        let charts = self.charts.iter().enumerate().map(|(index, chart)| (panel_class(number, index), chart.name.clone()));
        let mut all = vec![Switches { heading: heading("Lines"), boxes: series.collect() }];
        if self.charts.len() > 1 {
            all.push(Switches { heading: heading("Pictures"), boxes: charts.collect() });
        }
        all
    }
}

fn panel_class(group: usize, chart: usize) -> String {
    format!("panel-{group}-{chart}")
}

fn series_switch(group: usize, series: usize) -> String {
    format!("series-{group}-{series}")
}

fn line_class(index: usize, series: &Series) -> String {
    if series.formula { "formula line".to_owned() } else { series_line(index) }
}

impl Chart {
    /// The chart at the upper left corner, one of so many columns, and the height it takes.
    fn draw(&self, columns: usize, group: usize, place: &dyn Fn(&str) -> usize) -> (Group, f64) {
        let height = if columns > 1 { BESIDE } else { ALONE };
        let right = sheet::width(columns) - MARGIN_RIGHT;
        let top = if self.name.is_empty() { NAMELESS_HEAD } else { HEAD };
        let frame = Frame { left: LEFT, top, right, bottom: top + height };
        let points = || self.series.iter().flat_map(|series| &series.points).filter(|point| point.is_drawn());
        let x = around(points().map(|point| (point.x, point.x)), frame.across(), true);
        let bars = points().map(|point| (point.y - point.stderr, point.y + point.stderr)).chain(self.y_range);
        let y = around(bars, frame.upward(), false);
        let ticks = if columns > 1 { 6 } else { 12 };
        let mut content = Group::new()
            .add(text("head", frame.left, 18.0, &self.name))
            .add(frame.left_axis(&y, 8, &self.y))
            .add(frame.bottom_axis(&x, ticks, &self.x));
        for series in &self.series {
            let index = place(&series.name);
            let drawn = self.draw_series(index, series, (&x, &y));
            content = content.add(drawn.set("class", format!("marks points {}", series_switch(group, index))));
        }
        (content, frame.bottom + FOOT)
    }

    fn draw_series(&self, index: usize, series: &Series, (x, y): (&Scale, &Scale)) -> Group {
        let drawn: Vec<&Point> = series.points.iter().filter(|point| point.is_drawn()).collect();
        let mut group = Group::new();
        if self.joined {
            let along = drawn.iter().map(|point| (x.at(point.x), y.at(point.y)));
            group = group.add(path(&line_class(index, series), polyline(along)));
        }
        if series.formula {
            return group;
        }
        let dense = self.joined && drawn.len() > MAX_MARKED;
        for point in drawn {
            let (px, py) = (x.at(point.x), y.at(point.y));
            let (low, high) = (y.at(point.y - point.stderr), y.at(point.y + point.stderr));
            // A bar that the mark would hide says nothing.
            if low - high > SERIF {
                let bar =
                    [((px, low), (px, high)), ((px - SERIF, low), (px + SERIF, low)), ((px - SERIF, high), (px + SERIF, high))];
                let class = format!("{} line thin", series_class(index));
                group = bar.into_iter().fold(group, |group, (from, to)| group.add(line(&class, from, to)));
            }
            let mark =
                if dense { path(&series_class(index), super::canvas::disc(px, py, 1.6)) } else { series_mark(index, px, py) };
            group = group.add(mark.add(tooltip(&self.told(series, point))));
        }
        group
    }

    /// What is said of a point.
    fn told(&self, series: &Series, point: &Point) -> String {
        let error = if point.stderr > 0.0 { format!(" ± {}", short(point.stderr)) } else { String::new() };
        let note = if point.note.is_empty() { String::new() } else { format!("\n{}", point.note) };
        format!("{}\n{}: {}{error}\n{}: {}{note}", series.name, self.y, short(point.y), self.x, short(point.x))
    }
}

impl Point {
    fn is_drawn(&self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.stderr.is_finite()
    }
}

/// A scale over all of the ranges with a margin on both sides, logarithmic where it may be and they span much.
fn around(ranges: impl Iterator<Item = (f64, f64)>, pixels: (f64, f64), may_be_logarithmic: bool) -> Scale {
    let (least, greatest) =
        ranges.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), (low, high)| (least.min(low), greatest.max(high)));
    if least > greatest {
        return Scale::linear(0.0, 1.0, pixels);
    }
    let logarithmic = Scale::fitting(least / (1.0 + 2.0 * MARGIN), greatest * (1.0 + 2.0 * MARGIN), pixels);
    if may_be_logarithmic && logarithmic.is_logarithmic() {
        return logarithmic;
    }
    let margin = (greatest - least) * MARGIN;
    Scale::linear(least - margin, greatest + margin, pixels)
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
