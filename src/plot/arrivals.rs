//! Requests over simulated time: how many came in each short stretch, passed or refused, what was left in the bucket, and
//! when the limiter's store was away.

use svg::node::element::Group;

use super::axis::{Scale, number};
use super::canvas::{Paper, line, panel_head, path, px, rectangle, tooltip};
use super::frame::Frame;
use super::level;
use super::sheet::{Block, Detail, Panel, Sheet, Switches};
use super::time_axis::TimeScale;
use crate::limiter::Limit;
use crate::time::{Span, Timestamp};

/// Panels of requests under one title.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    pub title: String,
    /// A line or two below the title.
    pub subtitle: String,
    pub groups: Vec<ArrivalsGroup>,
}

/// The same requests before several limiters.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalsGroup {
    pub heading: String,
    /// The axis of time goes from 0 to this.
    pub length: Span,
    /// Each bar counts the requests of so long a stretch, at least one tick; there are at most `MAX_BARS`.
    pub bar: Span,
    pub panels: Vec<ArrivalsPanel>,
}

/// One limiter.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalsPanel {
    pub name: String,
    /// What is told in numbers, at the right.
    pub counts: String,
    /// When each request came, in order, and whether it passed.
    pub requests: Vec<(Timestamp, bool)>,
    pub limit: Limit,
    /// The corners of the line of what was left in its bucket, in order of time; empty for limiters without.
    pub level: Vec<(Timestamp, f64)>,
    /// From when to when its store was away.
    pub away: Option<(Span, Span)>,
}

/// The most bars beside each other; requests beyond are not shown.
pub const MAX_BARS: usize = 400;
const HEAD: f64 = 28.0;
const BARS: f64 = 78.0;
const LEVEL: f64 = 44.0;
const GAP: f64 = 16.0;
const PANEL_GAP: f64 = 24.0;
const FOOT: f64 = 60.0;
const TICKS: u32 = 12;
/// Bars of so many pixels or more stand apart.
const WIDE: f64 = 5.0;

/// A stretch of time and its requests.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Bar {
    passed: u32,
    refused: u32,
}

impl Arrivals {
    /// The requests as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.sheet(Detail::Picture).to_svg()
    }

    /// The requests as a page with tooltips and boxes that switch panels off.
    #[must_use]
    pub fn to_html(&self) -> String {
        self.sheet(Detail::Report).to_html()
    }

    /// The requests as figures for a page with [`figures_style`](crate::plot::figures_style) and a title of its own.
    #[must_use]
    pub fn to_figures(&self) -> String {
        self.sheet(Detail::Report).to_figures()
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
        let blocks =
            self.groups.iter().enumerate().map(|(number, group)| Drawing { group, paper, detail }.block(number)).collect();
        let switches = self.groups.iter().enumerate().map(|(number, group)| group.switches(number)).collect();
        Sheet { title: self.title.clone(), subtitle: self.subtitle.clone(), blocks, switches }
    }
}

fn panel_class(group: usize, panel: usize) -> String {
    format!("panel-{group}-{panel}")
}

impl ArrivalsGroup {
    fn switches(&self, number: usize) -> Switches {
        let boxes = self.panels.iter().enumerate().map(|(index, panel)| (panel_class(number, index), panel.name.clone()));
        Switches { heading: self.heading.clone(), boxes: boxes.collect() }
    }
}

/// A group on its way onto a paper.
#[derive(Clone, Copy)]
struct Drawing<'a> {
    group: &'a ArrivalsGroup,
    paper: Paper,
    detail: Detail,
}

impl Drawing<'_> {
    fn block(self, number: usize) -> Block {
        let most = self.group.panels.iter().flat_map(|panel| self.bars(panel)).map(|bar| bar.passed + bar.refused).max();
        let panel = |(index, panel): (usize, &ArrivalsPanel)| {
            let (content, height) = self.draw(panel, most.unwrap_or(0));
            let label = format!("{}: {}", panel.name, panel.counts);
            Panel { class: panel_class(number, index), label, content, height }
        };
        let panels = self.group.panels.iter().enumerate().map(panel).collect();
        let axis = self.paper.frame(1.0, 1.0).bottom_axis(&self.seconds(), self.ticks(), "time (s)");
        Block {
            paper: self.paper,
            heading: self.group.heading.clone(),
            legend: self.legend(),
            columns: 1,
            panels,
            foot: Some((axis, FOOT)),
        }
    }

    fn legend(&self) -> Vec<(Group, String)> {
        let boxed = |class: &str| Group::new().set("class", "marks").add(path(class, "M-8 -6H8V6H-8Z"));
        let each = format!(" (a bar counts {})", self.group.bar);
        let mut entries =
            vec![(boxed("fill passed"), "passed".to_owned()), (boxed("fill refused"), "refused".to_owned() + &each)];
        if self.group.panels.iter().any(|panel| !panel.level.is_empty()) {
            entries.push(level::legend());
        }
        if self.group.panels.iter().any(|panel| panel.away.is_some()) {
            entries.push((
                Group::new()
                    .add(rectangle("band", -11.0, -7.0, 22.0, 14.0))
                    .add(line("edge", (-11.0, -7.0), (-11.0, 7.0)))
                    .add(line("edge", (11.0, -7.0), (11.0, 7.0))),
                "the store is away".to_owned(),
            ));
        }
        entries
    }

    /// The most ticks of time.
    fn ticks(&self) -> u32 {
        if self.paper.is_narrow() { TICKS / 2 } else { TICKS }
    }

    /// The whole axis, in seconds.
    fn seconds(&self) -> Scale {
        Scale::linear(0.0, self.group.length.as_seconds(), (self.paper.left, self.paper.right))
    }

    /// The same for instants.
    fn time(&self) -> TimeScale {
        let from = Timestamp::saturating_from_ticks(0);
        TimeScale {
            from,
            to: from.plus(self.group.length.max(Span::from_ticks(1))),
            left: self.paper.left,
            right: self.paper.right,
        }
    }

    /// The counts of all stretches, in order.
    fn bars(&self, panel: &ArrivalsPanel) -> Vec<Bar> {
        let width = self.group.bar.ticks().max(1);
        let count = usize::try_from(self.group.length.ticks().div_ceil(width)).unwrap_or(MAX_BARS).min(MAX_BARS);
        let mut bars = vec![Bar::default(); count];
        for (at, passed) in &panel.requests {
            let index = u64::try_from(at.ticks()).ok().and_then(|ticks| usize::try_from(ticks / width).ok());
            if let Some(bar) = index.and_then(|index| bars.get_mut(index)) {
                *(if *passed { &mut bar.passed } else { &mut bar.refused }) += 1;
            }
        }
        bars
    }

    /// One panel at the upper left corner, and its height.
    fn draw(&self, panel: &ArrivalsPanel, most: u32) -> (Group, f64) {
        let (head, more) = panel_head(self.paper, 16.0, &panel.name, &panel.counts);
        let frame = self.paper.frame(HEAD + more, HEAD + more + BARS);
        let counts = Scale::from_zero([f64::from(most)], frame.upward());
        let mut drawn = Group::new()
            .add(head)
            .add(self.ground(panel, &frame))
            .add(frame.count_axis(&counts, 4, "requests"))
            .add(self.draw_bars(&self.bars(panel), &frame, &counts))
            .add(self.edges(panel, &frame))
            .add(line("axis", (frame.left, frame.bottom), (frame.right, frame.bottom)));
        let Some(bucket) = panel.limit.bucket().filter(|_| !panel.level.is_empty()) else {
            return (drawn, frame.bottom + PANEL_GAP);
        };
        let below = Frame { top: frame.bottom + GAP, bottom: frame.bottom + GAP + LEVEL, ..frame };
        let scale = Scale::linear(0.0, f64::from(bucket), below.upward());
        drawn = drawn
            .add(self.ground(panel, &below))
            .add(below.bucket_axis(&scale, bucket, 0, level::name(panel.limit.algorithm())))
            .add(level::draw(&panel.level, &below, &self.time(), &scale))
            .add(level::capacity(&below, &scale, bucket))
            .add(self.edges(panel, &below))
            .add(line("axis", (below.left, below.bottom), (below.right, below.bottom)));
        (drawn, below.bottom + PANEL_GAP)
    }

    /// The lines at the ticks of time, and the band while the store was away.
    fn ground(&self, panel: &ArrivalsPanel, frame: &Frame) -> Group {
        let time = self.seconds();
        let mut ground = Group::new();
        if let Some((from, to)) = panel.away {
            let (left, right) = (time.at(from.as_seconds()), time.at(to.as_seconds()));
            ground = ground.add(rectangle("band", left, frame.top, right - left, frame.bottom - frame.top));
        }
        let ticks = time.ticks(self.ticks()).into_iter().map(|(value, _)| time.at(value));
        ticks.fold(ground, |ground, x| ground.add(line("grid", (x, frame.top), (x, frame.bottom))))
    }

    /// Where the store goes away and comes back, over the bars, which cover the band.
    fn edges(&self, panel: &ArrivalsPanel, frame: &Frame) -> Group {
        let time = self.seconds();
        panel.away.into_iter().flat_map(<[Span; 2]>::from).fold(Group::new(), |edges, at| {
            let x = time.at(at.as_seconds());
            edges.add(line("edge", (x, frame.top), (x, frame.bottom)))
        })
    }

    /// What passed stands on the axis, what was refused on top of it. A picture joins neighbours that are alike.
    fn draw_bars(&self, bars: &[Bar], frame: &Frame, counts: &Scale) -> Group {
        let time = self.seconds();
        let width = self.group.bar.as_seconds();
        let gap = if time.at(width) - time.at(0.0) >= WIDE { 0.5 } else { 0.0 };
        let join = self.detail == Detail::Picture && gap == 0.0;
        let mut marks = Group::new().set("class", "marks");
        let (mut passed, mut refused) = (String::new(), String::new());
        let mut index = 0;
        for alike in bars.chunk_by(|a, b| join && a == b) {
            let (bar, from, to) = (alike[0], index as f64 * width, (index + alike.len()) as f64 * width);
            index += alike.len();
            let (left, right) = (time.at(from) + gap, time.at(to) - gap);
            let middle = counts.at(f64::from(bar.passed));
            let top = counts.at(f64::from(bar.passed + bar.refused));
            let boxed = |top: f64, bottom: f64| format!("M{} {}H{}V{}H{}z", px(left), px(bottom), px(right), px(top), px(left));
            let parts =
                [("fill passed", bar.passed, boxed(middle, frame.bottom)), ("fill refused", bar.refused, boxed(top, middle))];
            let there = parts.into_iter().filter(|(_, count, _)| *count > 0);
            if self.detail == Detail::Report {
                let told =
                    format!("{} passed, {} refused\nfrom {} s to {} s", bar.passed, bar.refused, seconds(from), seconds(to));
                marks = there.fold(marks, |marks, (class, _, d)| marks.add(path(class, d).add(tooltip(&told))));
            } else {
                there.for_each(|(class, _, d)| *(if class == "fill passed" { &mut passed } else { &mut refused }) += &d);
            }
        }
        let whole = [("fill passed", passed), ("fill refused", refused)].into_iter().filter(|(_, d)| !d.is_empty());
        whole.fold(marks, |marks, (class, d)| marks.add(path(class, d)))
    }
}

/// Seconds to a thousandth, as short as they are.
fn seconds(value: f64) -> String {
    let thousandths = number(value, 0.001);
    thousandths.trim_end_matches('0').trim_end_matches('.').to_owned()
}
