//! The shapes of honest traffic, and when their requests come.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{Stream, tick};
use crate::rate::Rate;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// The highest load: a hundred times the limit.
pub const MAX_LOAD_PERCENT: u32 = 10_000;

/// How honest clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Poisson.
    Steady,
    /// Groups of 5 on average over 1 s.
    SmallBursts,
    /// Groups of 20 on average over 1 s.
    PageLoads,
    /// Groups of 50 on average over 2 s.
    BigBursts,
    /// Poisson while on; on for 10 s and off for 40 s on average.
    OnOff,
}

/// A name that is no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a shape of traffic: expected steady, small-bursts, page-loads, big-bursts or on-off")]
pub struct UnknownShape(String);

const ON_S: f64 = 10.0;
const OFF_S: f64 = 40.0;

impl Shape {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Shape; 5] = [Shape::Steady, Shape::SmallBursts, Shape::PageLoads, Shape::BigBursts, Shape::OnOff];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Shape::Steady => "steady",
            Shape::SmallBursts => "small-bursts",
            Shape::PageLoads => "page-loads",
            Shape::BigBursts => "big-bursts",
            Shape::OnOff => "on-off",
        }
    }

    /// What it is, for people.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Shape::Steady => "Poisson",
            Shape::SmallBursts => "groups of 5 on average, within 1 s",
            Shape::PageLoads => "groups of 20 on average, within 1 s",
            Shape::BigBursts => "groups of 50 on average, within 2 s",
            Shape::OnOff => "Poisson for 10 s, silent for 40 s, on average",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Shape {
    type Err = UnknownShape;

    fn from_str(text: &str) -> Result<Shape, UnknownShape> {
        Shape::ALL.into_iter().find(|shape| shape.name() == text).ok_or_else(|| UnknownShape(text.to_owned()))
    }
}

/// How much is asked for, on average: a share of the rate's limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    pub shape: Shape,
    pub load_percent: u32,
    pub rate: Rate,
    /// Requests come from 0, inclusive, to this, exclusive.
    pub length: Span,
}

impl Demand {
    /// Requests to be expected in a run.
    #[must_use]
    pub fn expected(&self) -> f64 {
        self.length.ticks() as f64 / self.mean_gap()
    }

    /// Ticks from one request to the next, on average.
    fn mean_gap(&self) -> f64 {
        self.rate.window().ticks() as f64 * 100.0 / (f64::from(self.rate.limit()) * f64::from(self.load_percent))
    }

    /// The requests of one run, in order.
    #[must_use]
    pub fn requests(&self, stream: &mut Stream) -> Vec<Timestamp> {
        match self.shape {
            Shape::Steady => self.poisson(stream),
            Shape::SmallBursts => self.groups(5.0, 1, stream),
            Shape::PageLoads => self.groups(20.0, 1, stream),
            Shape::BigBursts => self.groups(50.0, 2, stream),
            Shape::OnOff => self.on_off(stream),
        }
    }

    fn poisson(&self, stream: &mut Stream) -> Vec<Timestamp> {
        let mut times = Vec::new();
        poisson_between(0, self.length.ticks(), self.mean_gap(), stream, &mut times);
        times
    }

    /// Groups begin at Poisson times; their requests are spread evenly over so many seconds.
    fn groups(&self, mean_size: f64, spread_s: u64, stream: &mut Stream) -> Vec<Timestamp> {
        let spread = spread_s * TICKS_PER_SECOND.unsigned_abs();
        let end = self.length.ticks();
        let mut times = Vec::new();
        let mut begins = stream.exponential(self.mean_gap() * mean_size);
        while begins < end {
            for _ in 0..stream.group(mean_size) {
                let at = begins + stream.below(spread);
                if at < end {
                    times.push(tick(at));
                }
            }
            begins = begins.saturating_add(stream.exponential(self.mean_gap() * mean_size));
        }
        times.sort_unstable();
        times
    }

    /// Poisson during the on periods, so much faster that the average is the load.
    fn on_off(&self, stream: &mut Stream) -> Vec<Timestamp> {
        let (on, off) = (ON_S * TICKS_PER_SECOND as f64, OFF_S * TICKS_PER_SECOND as f64);
        let gap = self.mean_gap() * on / (on + off);
        let end = self.length.ticks();
        let mut times = Vec::new();
        let mut begins = 0_u64;
        while begins < end {
            let ends = begins.saturating_add(stream.pareto(on)).min(end);
            poisson_between(begins, ends, gap, stream, &mut times);
            begins = ends.saturating_add(stream.pareto(off));
        }
        times
    }
}

fn poisson_between(begins: u64, ends: u64, mean_gap: f64, stream: &mut Stream, times: &mut Vec<Timestamp>) {
    let mut at = begins.saturating_add(stream.exponential(mean_gap));
    while at < ends {
        times.push(tick(at));
        at = at.saturating_add(stream.exponential(mean_gap));
    }
}
