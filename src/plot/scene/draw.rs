//! How a scene is laid out: the rows below each other, one time axis at the bottom.

use svg::node::element::Group;

use super::super::axis::{Scale, number};
use super::super::canvas::{Paper, line, panel_head, paragraph, path};
use super::super::frame::{Frame, TIME_AXIS_HEIGHT, bracket};
use super::super::level;
use super::super::sheet::{Block, Detail, Panel, Sheet, Switches};
use super::super::time_axis::TimeScale;
use super::{Fate, Row, Scene, marks};
use crate::event::Magnitude;

/// The row's name.
const HEAD: f64 = 22.0;
/// The room for the bracket and its count.
const BRACKET: f64 = 30.0;
const MARKS: f64 = 84.0;
const LEVEL: f64 = 52.0;
/// Between the marks and the level.
const GAP: f64 = 16.0;
/// Between two rows.
const ROW_GAP: f64 = 22.0;

impl Scene {
    /// The scene as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.sheet(Detail::Picture).to_svg()
    }

    /// The scene as a page with tooltips and a box for each row that switches it off.
    #[must_use]
    pub fn to_html(&self) -> String {
        self.sheet(Detail::Report).to_html()
    }

    /// The scene as figures for a page with [`figures_style`](crate::plot::figures_style) and a title of its own.
    #[must_use]
    pub fn to_figures(&self) -> String {
        self.sheet(Detail::Report).to_figures()
    }

    /// The same where marks that stand for many events tell nothing, see [`Row::replay_without_words`].
    #[must_use]
    pub fn to_plain_figures(&self) -> String {
        self.sheet(Detail::Picture).to_figures()
    }

    /// The same for a narrow page.
    #[must_use]
    pub fn to_narrow_figures(&self) -> String {
        self.sheet_on(Paper::NARROW, Detail::Picture).to_figures()
    }

    fn sheet(&self, detail: Detail) -> Sheet {
        self.sheet_on(Paper::WIDE, detail)
    }

    fn sheet_on(&self, paper: Paper, detail: Detail) -> Sheet {
        let panel = |(index, row): (usize, &Row)| {
            let (content, height) = row_at(self, paper, row, detail);
            let label = format!("{}: {}. {}", row.name, row.counts(), row.promise);
            Panel { class: format!("panel-{index}"), label, content, height }
        };
        let panels: Vec<Panel> = self.rows.iter().enumerate().map(panel).collect();
        let boxes = panels.iter().zip(&self.rows).map(|(panel, row)| (panel.class.clone(), row.name.clone())).collect();
        let axis = paper.frame(1.0, 1.0).time_axis(&self.time(paper));
        let foot = Some((axis, TIME_AXIS_HEIGHT + 6.0));
        Sheet {
            title: self.title.clone(),
            subtitle: self.subtitle.clone(),
            blocks: vec![Block { paper, heading: String::new(), legend: self.legend(), columns: 1, panels, foot }],
            switches: vec![Switches { heading: "Shown".to_owned(), boxes }],
        }
    }

    fn time(&self, paper: Paper) -> TimeScale {
        TimeScale::new(self.from, self.to, paper.left, paper.right)
    }

    /// From below the smallest magnitude, so that its mark has a height, to the next whole one above the largest; `None` where
    /// no magnitude is known.
    fn heights(&self, frame: &Frame) -> Option<Scale> {
        let magnitudes =
            || self.rows.iter().flat_map(|row| &row.decisions).filter_map(|mark| mark.magnitude).map(Magnitude::value);
        let (least, greatest) = (magnitudes().fold(f64::INFINITY, f64::min), magnitudes().fold(f64::NEG_INFINITY, f64::max));
        let from = (least * 2.0).floor() / 2.0 - 0.9;
        (least <= greatest).then(|| Scale::linear(from, greatest.ceil().max(from + 1.0), frame.upward()))
    }

    /// A sample of each fate that there is, in their order, and of what else is drawn.
    fn legend(&self) -> Vec<(Group, String)> {
        let sample = |class: &str| Group::new().add(line(class, (0.0, 6.0), (0.0, -7.0)));
        let marks = || self.rows.iter().flat_map(|row| &row.decisions);
        let there = Fate::ALL.into_iter().filter(|fate| marks().any(|mark| mark.fate == *fate));
        let mut entries: Vec<_> = there.map(|fate| (sample(fate.class()), fate.name().to_owned())).collect();
        if marks().any(|mark| mark.magnitude.is_some()) {
            let taller = Group::new().add(path("axis", "M-4 6V1M0 6V-3M4 6V-7"));
            entries.push((taller, "height: magnitude".to_owned()));
        }
        entries.push((Group::new().add(path("bracket", "M-9 5V-1H9V5")), "most within one window".to_owned()));
        if self.rows.iter().any(|row| !row.level.is_empty()) {
            entries.push(level::legend());
        }
        entries
    }
}

/// One row, and the height it takes.
fn row_at(scene: &Scene, paper: Paper, row: &Row, detail: Detail) -> (Group, f64) {
    let time = scene.time(paper);
    let (head, more) = panel_head(paper, 14.0, &row.name, &row.counts());
    let (promise, promise_height) = paragraph(
        "small muted",
        (paper.left, HEAD + more + 10.0),
        paper.right - paper.left,
        &format!("Promise: {}", row.promise),
    );
    let top = HEAD + more + promise_height + BRACKET;
    let marks = paper.frame(top, top + MARKS);
    let heights = scene.heights(&marks);
    let axis = heights.map_or_else(Group::new, |heights| marks.left_axis(&heights, 4, "magnitude"));
    let mut drawn = Group::new()
        .add(head)
        .add(promise)
        .add(marks.time_grid(&time))
        .add(axis)
        .add(line("axis", (marks.left, marks.bottom), (marks.right, marks.bottom)))
        .add(marks::draw(&row.decisions, &marks, &time, heights.as_ref(), detail));
    if let Some(busiest) = row.busiest {
        let window = row.limit.rate().window();
        let promised =
            row.most_in_any_window.map_or_else(String::new, |most| format!(", promised at most {}", number(most as f64, 1.0)));
        let label = format!("{} within {window}{promised}", number(busiest.count as f64, 1.0));
        drawn = drawn.add(bracket(marks.across(), time.at(busiest.from), time.at(busiest.to), marks.top - 11.0, &label));
    }
    let Some(bucket) = row.limit.bucket().filter(|_| !row.level.is_empty()) else {
        return (drawn, marks.bottom + ROW_GAP);
    };
    let level = Frame { top: marks.bottom + GAP, bottom: marks.bottom + GAP + LEVEL, ..marks };
    let scale = Scale::linear(0.0, f64::from(bucket), level.upward());
    drawn = drawn
        .add(level.time_grid(&time))
        .add(level.bucket_axis(&scale, bucket, 0, level::name(row.limit.algorithm())))
        .add(level::draw(&row.level, &level, &time, &scale))
        .add(level::capacity(&level, &scale, bucket))
        .add(line("axis", (level.left, level.bottom), (level.right, level.bottom)));
    (drawn, level.bottom + ROW_GAP)
}
