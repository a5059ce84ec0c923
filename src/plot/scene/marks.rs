//! The marks of the events: each by itself where there are few, one a column and colour where there are many.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use svg::node::element::Group;

use super::super::axis::Scale;
use super::super::canvas::{path, pieces, px, tooltip};
use super::super::frame::Frame;
use super::super::sheet::Detail;
use super::super::time_axis::TimeScale;
use super::{Fate, Mark};
use crate::event::Magnitude;
use crate::time::Timestamp;

/// So many events have a mark each; more are gathered in columns.
pub const MAX_SINGLE_MARKS: usize = 400;
/// The width of a column, in pixels.
const COLUMN: f64 = 2.0;
/// The height of the mark of an event without magnitude, in pixels.
const STUB: f64 = 3.0;

/// A vertical bar.
struct Bar<'m> {
    x: f64,
    /// The largest of those it stands for.
    mark: &'m Mark,
    /// How many it stands for, and when the first and the last of them were.
    count: usize,
    first: Timestamp,
    last: Timestamp,
}

/// The marks of a row; without `heights` no magnitude is known, and all are equally high.
pub(super) fn draw(decisions: &[Mark], frame: &Frame, time: &TimeScale, heights: Option<&Scale>, detail: Detail) -> Group {
    let inside: Vec<&Mark> = decisions.iter().filter(|mark| (time.from..=time.to).contains(&mark.at)).collect();
    let single = inside.len() <= MAX_SINGLE_MARKS;
    let mut bars = if single { singly(&inside, time) } else { in_columns(&inside, time) };
    // The taller first, so that none hides a shorter one at the same place.
    bars.sort_by_key(|bar| Reverse(bar.mark.magnitude));
    let top = |magnitude: Option<Magnitude>| match (heights, magnitude) {
        (Some(heights), Some(magnitude)) => heights.at(magnitude.value()),
        (Some(_), None) => frame.bottom - STUB,
        (None, _) => f64::midpoint(frame.top, frame.bottom),
    };
    let stroke = |bar: &Bar| format!("M{} {}V{}", px(bar.x), px(frame.bottom), px(top(bar.mark.magnitude)));
    let marks = Group::new().set("class", if single { "marks bars" } else { "marks bars columns" });
    if single || detail == Detail::Report {
        return bars.iter().fold(marks, |all, bar| all.add(path(bar.mark.fate.class(), stroke(bar)).add(tooltip(&told(bar)))));
    }
    // Neighbours of one colour become one path. The bars of a column are of different colours: the taller lie below.
    let mut layers: BTreeMap<(usize, &str), String> = BTreeMap::new();
    let mut depths: HashMap<String, usize> = HashMap::new();
    for bar in &bars {
        let depth = depths.entry(px(bar.x)).or_default();
        *layers.entry((*depth, bar.mark.fate.class())).or_default() += &stroke(bar);
        *depth += 1;
    }
    layers.into_iter().fold(marks, |marks, ((_, class), d)| marks.add(path(class, d)))
}

fn singly<'m>(marks: &[&'m Mark], time: &TimeScale) -> Vec<Bar<'m>> {
    marks.iter().map(|mark| Bar { x: time.at(mark.at), mark, count: 1, first: mark.at, last: mark.at }).collect()
}

/// One bar for each fate in each column.
fn in_columns<'m>(marks: &[&'m Mark], time: &TimeScale) -> Vec<Bar<'m>> {
    let mut bars = Vec::new();
    let columns = pieces(time.left, time.right, COLUMN);
    for column in marks.chunk_by(|a, b| time.column(a.at, columns) == time.column(b.at, columns)) {
        let x = time.left + (time.column(column[0].at, columns) as f64 + 0.5) * COLUMN;
        for fate in Fate::ALL {
            let mut alike = column.iter().copied().filter(|mark| mark.fate == fate);
            let Some(first) = alike.next() else { continue };
            let mut bar = Bar { x, mark: first, count: 1, first: first.at, last: first.at };
            for mark in alike {
                (bar.count, bar.last) = (bar.count + 1, mark.at);
                if mark.magnitude > bar.mark.magnitude {
                    bar.mark = mark;
                }
            }
            bars.push(bar);
        }
    }
    bars
}

/// What is said of a bar: the event, or how many it stands for and the largest of them.
fn told(bar: &Bar) -> String {
    let Mark { at, title, id, why, .. } = bar.mark;
    if bar.count == 1 {
        return format!("{title}\n{at} {id}\n{why}");
    }
    let fate = bar.mark.fate.name();
    format!("{} {fate} from {} to {}\nthe largest: {title}\n{at} {id}\n{why}", bar.count, bar.first, bar.last)
}
