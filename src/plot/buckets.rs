//! The smallest lossless bucket at work: what is left in it over the whole catalogue, and around the critical run, which
//! needs all of it.

use svg::node::element::Group;

use super::axis::{Scale, number};
use super::canvas::{self, LEFT, RIGHT, line, path, px, text};
use super::frame::{Frame, TIME_AXIS_HEIGHT, bracket};
use super::html;
use super::level::{self, LevelLine, clipped};
use super::time_axis::TimeScale;
use crate::analysis::Run;
use crate::event::Magnitude;
use crate::limiter::{Limiter, Request, TokenBucket, Verdict};
use crate::rate::Rate;
use crate::time::{Span, Timestamp};

/// The smallest lossless buckets of some rates.
#[derive(Clone, Copy, Debug)]
pub struct Buckets<'e> {
    pub title: &'e str,
    /// All events, oldest first.
    pub events: &'e [(Timestamp, Option<Magnitude>)],
    pub panels: &'e [BucketPanel],
}

/// One rate and its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketPanel {
    pub rate: Rate,
    /// The smallest bucket that loses nothing, at least 1.
    pub bucket: u32,
    /// Events that need all of it.
    pub critical_run: Run,
}

/// The rate, and the bracket below it.
const HEAD: f64 = 50.0;
/// The level over the whole catalogue.
const WHOLE: f64 = 76.0;
/// The level and the events around the critical run.
const AROUND: f64 = 130.0;
const EVENTS: f64 = 34.0;
const PANEL_GAP: f64 = 26.0;
/// As many events as the part around a critical run shows; from more each is not to be told from its neighbours.
const MAX_EVENTS_AROUND: usize = 4_000;

impl Buckets<'_> {
    /// The picture as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let (content, height) = self.drawn();
        canvas::document(self.title, height, content)
    }

    /// The picture as a figure for a page with [`figures_style`](crate::plot::figures_style).
    #[must_use]
    pub fn to_figures(&self) -> String {
        let (content, height) = self.drawn();
        html::figure(self.title, height, content)
    }

    fn drawn(&self) -> (Group, f64) {
        let (legend, height) = canvas::legend(
            LEFT,
            60.0,
            vec![
                (Group::new().add(line("level", (-11.0, 0.0), (11.0, 0.0))), "tokens left".to_owned()),
                (Group::new().add(path("bracket", "M-9 5V-1H9V5")), "critical run: needs the whole bucket".to_owned()),
                (Group::new().add(line("passed", (0.0, 6.0), (0.0, -6.0))), "event".to_owned()),
            ],
        );
        let mut content = Group::new().add(text("title", LEFT, 34.0, self.title)).add(legend);
        let mut y = 60.0 + height + 4.0;
        for panel in self.panels {
            let (drawn, height) = self.panel(panel, y);
            content = content.add(drawn);
            y += height;
        }
        (content, y - PANEL_GAP + 8.0)
    }

    fn panel(&self, panel: &BucketPanel, top: f64) -> (Group, f64) {
        let BucketPanel { rate, bucket, critical_run: run } = *panel;
        let (Some((first, _)), Some((last, _))) = (self.events.first(), self.events.last()) else {
            return (Group::new(), 0.0);
        };
        let whole = self.level(panel, *first, *last);
        let head = format!("{rate}: a bucket of {} loses nothing", number(f64::from(bucket), 1.0));
        let frame = Frame { left: LEFT, top: top + HEAD, right: RIGHT, bottom: top + HEAD + WHOLE };
        let time = TimeScale::new(*first, *last, LEFT, RIGHT);
        let scale = Scale::linear(0.0, f64::from(bucket), frame.upward());
        let (start, end) = (time.at(run.first), time.at(run.last));
        let drawn = Group::new()
            .add(text("head", LEFT, top + 14.0, &head))
            .add(frame.time_grid(&time))
            .add(frame.bucket_axis(&scale, bucket, 0, "tokens left"))
            .add(level::draw(&whole, &frame, &time, &scale))
            .add(bracket((LEFT, RIGHT), start, end, frame.top - 11.0, "critical run"))
            .add(frame.time_axis(&time));
        let around_top = frame.bottom + TIME_AXIS_HEIGHT + 26.0;
        let (around, height) = self.around(panel, &whole, around_top);
        (drawn.add(around), around_top + height - top + PANEL_GAP)
    }

    /// What is left from the first event to the last.
    fn level(&self, panel: &BucketPanel, from: Timestamp, to: Timestamp) -> Vec<(Timestamp, f64)> {
        let mut limiter = Limiter::TokenBucket(TokenBucket::new(panel.rate, panel.bucket));
        let mut line = LevelLine::new(panel.bucket, from);
        for (at, _) in self.events {
            let admitted = limiter.admit(*at, Request::ONE) == Verdict::Admitted;
            line.decided(*at, u32::from(admitted), &limiter);
        }
        line.finish(to)
    }

    /// The critical run and half its length, or one window, to both sides.
    fn around(&self, panel: &BucketPanel, whole: &[(Timestamp, f64)], top: f64) -> (Group, f64) {
        let run = panel.critical_run;
        let margin = Span::from_ticks(run.duration().ticks() / 2).max(panel.rate.window());
        let time = TimeScale::new(run.first.minus(margin), run.last.plus(margin), LEFT, RIGHT);
        let frame = Frame { left: LEFT, top, right: RIGHT, bottom: top + AROUND };
        let scale = Scale::linear(0.0, f64::from(panel.bucket), frame.upward());
        let events = Frame { top: frame.bottom + 6.0, bottom: frame.bottom + 6.0 + EVENTS, ..frame };
        let count = number(run.events as f64, 1.0);
        let label = format!("{count} events from {} to {}", run.first, run.last);
        let drawn = Group::new()
            .add(frame.time_grid(&time))
            .add(events.time_grid(&time))
            .add(frame.bucket_axis(&scale, panel.bucket, 5, "tokens left"))
            .add(level::draw(&clipped(whole, time.from, time.to), &frame, &time, &scale))
            .add(line("axis", (LEFT, frame.bottom), (RIGHT, frame.bottom)))
            .add(bracket((LEFT, RIGHT), time.at(run.first), time.at(run.last), frame.top - 11.0, &label))
            .add(self.event_marks(&events, &time))
            .add(events.time_axis(&time));
        (drawn, AROUND + 6.0 + EVENTS + TIME_AXIS_HEIGHT)
    }

    /// A mark for every event in the span, its height by magnitude where magnitudes are known.
    fn event_marks(&self, frame: &Frame, time: &TimeScale) -> Group {
        let start = self.events.partition_point(|(at, _)| *at < time.from);
        let end = self.events.partition_point(|(at, _)| *at <= time.to);
        let shown = &self.events[start..end.min(start + MAX_EVENTS_AROUND)];
        let magnitudes = || shown.iter().filter_map(|(_, magnitude)| *magnitude).map(Magnitude::value);
        let (least, greatest) = (magnitudes().fold(f64::INFINITY, f64::min), magnitudes().fold(f64::NEG_INFINITY, f64::max));
        let heights = Scale::linear(least - 0.6, greatest, frame.upward());
        let middle = f64::midpoint(frame.top, frame.bottom);
        let d = shown.iter().fold(String::new(), |d, (at, magnitude)| {
            let top = magnitude.map_or(middle, |magnitude| heights.at(magnitude.value()));
            d + &format!("M{} {}V{}", px(time.at(*at)), px(frame.bottom), px(top))
        });
        Group::new().add(path("passed thin", d))
    }
}
