//! The smallest lossless bucket of each of several rates, from a catalogue, in one pass.

use super::outline::Outline;
use super::{Busiest, Run, Summary};
use crate::catalogue::{CatalogueError, InOrder, Progress, Query, Reading, Side, Source, read_in_order};
use crate::rate::Rate;
use crate::time::Timestamp;

/// From so many rates on, an outline of the events costs less than it saves.
const MIN_RATES_TO_OUTLINE: usize = 6;

/// What the events of a catalogue need.
#[derive(Clone, Debug, PartialEq)]
pub struct MinBucket {
    /// How many events matched.
    pub events: u64,
    /// The earliest and the latest of them.
    pub ends: Option<(Timestamp, Timestamp)>,
    /// One result a rate, in the order asked for.
    pub results: Vec<RateResult>,
}

/// What they need at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateResult {
    pub rate: Rate,
    /// The smallest bucket that loses nothing; 0 without events.
    pub bucket: u64,
    /// The bucket before it is rounded up.
    pub level: f64,
    /// The most events in any half-open stretch of the rate's window.
    pub busiest_window: u64,
    /// Events that need all of the bucket.
    pub critical_run: Option<Run>,
}

/// Finds for each rate the smallest bucket that loses none of the events that match. The inputs are one catalogue, in any
/// order; `threads` is how many parse a large file.
///
/// # Errors
/// As [`read_in_order`].
pub fn min_bucket(
    sources: &mut [Source],
    query: &Query,
    rates: &[Rate],
    threads: usize,
    progress: Progress<'_>,
) -> Result<(MinBucket, Reading), CatalogueError> {
    let mut pass = Pass::new(rates);
    let reading = read_in_order(sources, query, threads, progress, &mut pass)?;
    Ok((pass.finish(), reading))
}

/// The same for times in ascending order.
#[must_use]
pub fn needs(times: &[Timestamp], rates: &[Rate]) -> MinBucket {
    let mut pass = Pass::new(rates);
    pass.piece(times, Side::After);
    pass.finish()
}

/// All that is kept while the events pass.
struct Pass {
    events: u64,
    ends: Option<(Timestamp, Timestamp)>,
    summaries: Vec<(Rate, Option<Summary>)>,
    /// One for each distinct window.
    windows: Vec<Busiest>,
    /// Of the current piece, if there are rates enough to make up for drawing it.
    outline: Outline,
}

impl Pass {
    fn new(rates: &[Rate]) -> Pass {
        let mut windows: Vec<Busiest> = Vec::new();
        for rate in rates {
            if windows.iter().all(|busiest| busiest.window() != rate.window()) {
                windows.push(Busiest::new(rate.window()));
            }
        }
        let summaries = rates.iter().map(|rate| (*rate, None)).collect();
        Pass { events: 0, ends: None, summaries, windows, outline: Outline::default() }
    }

    fn finish(self) -> MinBucket {
        let busiest = |rate: Rate| self.windows.iter().find(|busiest| busiest.window() == rate.window());
        let results = self.summaries.iter().map(|(rate, summary)| RateResult {
            rate: *rate,
            bucket: summary.as_ref().map_or(0, Summary::bucket),
            level: summary.as_ref().map_or(0.0, Summary::level),
            busiest_window: busiest(*rate).map_or(0, Busiest::most),
            critical_run: summary.as_ref().map(Summary::critical_run),
        });
        MinBucket { events: self.events, ends: self.ends, results: results.collect() }
    }
}

impl InOrder for Pass {
    fn piece(&mut self, times: &[Timestamp], side: Side) {
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return };
        self.events += times.len() as u64;
        self.ends = Some(match (self.ends, side) {
            (None, _) => (*first, *last),
            (Some((earliest, _)), Side::After) => (earliest, *last),
            (Some((_, latest)), Side::Before) => (*first, latest),
        });
        let outlined = self.summaries.len() >= MIN_RATES_TO_OUTLINE;
        if outlined {
            self.outline.draw(times);
        }
        for (rate, so_far) in &mut self.summaries {
            let piece = if outlined {
                Summary::of_outlined((*rate).into(), times, &self.outline, so_far.as_ref())
            } else {
                Summary::of((*rate).into(), times)
            };
            let Some(piece) = piece else { continue };
            *so_far = Some(match (so_far.take(), side) {
                (None, _) => piece,
                (Some(before), Side::After) => before.merge(&piece),
                (Some(after), Side::Before) => piece.merge(&after),
            });
        }
        for busiest in &mut self.windows {
            busiest.extend(times, side);
        }
    }

    fn restart(&mut self) {
        (self.events, self.ends) = (0, None);
        self.summaries.iter_mut().for_each(|(_, summary)| *summary = None);
        self.windows.iter_mut().for_each(|busiest| *busiest = Busiest::new(busiest.window()));
    }
}
