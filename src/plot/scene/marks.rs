//! The marks of the events: each by itself where there are few, one a column and colour where there are many.

use std::cmp::Reverse;
use std::collections::HashSet;

use svg::node::element::Group;

use super::super::axis::Scale;
use super::super::canvas::{LEFT, RIGHT, path, px, tooltip};
use super::super::frame::Frame;
use super::super::time_axis::TimeScale;
use super::Mark;
use super::draw::Detail;
use crate::event::Magnitude;
use crate::time::Timestamp;

/// So many events have a mark each; more are gathered in columns.
pub const MAX_SINGLE_MARKS: usize = 400;
/// How many columns there are, and the width of each in pixels.
const COLUMNS: usize = 550;
const COLUMN: f64 = (RIGHT - LEFT) / COLUMNS as f64;
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

/// The marks of a row.
pub(super) fn draw(decisions: &[Mark], frame: &Frame, time: &TimeScale, heights: &Scale, detail: Detail) -> Group {
    let inside: Vec<&Mark> = decisions.iter().filter(|mark| (time.from..=time.to).contains(&mark.at)).collect();
    let single = inside.len() <= MAX_SINGLE_MARKS;
    let mut bars = if single { singly(&inside, time) } else { in_columns(&inside, time) };
    // The taller first, so that none hides a shorter one at the same place.
    bars.sort_by_key(|bar| Reverse(bar.mark.magnitude));
    let top = |magnitude: Option<Magnitude>| magnitude.map_or(frame.bottom - STUB, |m| heights.at(m.value()));
    let stroke = |bar: &Bar| format!("M{} {}V{}", px(bar.x), px(frame.bottom), px(top(bar.mark.magnitude)));
    if single || detail == Detail::Report {
        let marks = Group::new().set("class", if single { "marks" } else { "marks columns" });
        return bars.iter().fold(marks, |all, bar| all.add(path(class(bar), stroke(bar)).add(tooltip(&told(bar)))));
    }
    // Neighbours of one colour become one path. Two bars of a column are of different colour: the taller lies below.
    let mut layers = [const { String::new() }; 4];
    let mut seen = HashSet::new();
    for bar in &bars {
        let below = seen.insert(px(bar.x));
        layers[usize::from(!below) * 2 + usize::from(!bar.mark.passed)] += &stroke(bar);
    }
    let classes = ["passed", "refused", "passed", "refused"];
    let marks = Group::new().set("class", "marks columns");
    classes.into_iter().zip(layers).filter(|(_, d)| !d.is_empty()).fold(marks, |all, (class, d)| all.add(path(class, d)))
}

fn class(bar: &Bar) -> &'static str {
    if bar.mark.passed { "passed" } else { "refused" }
}

fn singly<'m>(marks: &[&'m Mark], time: &TimeScale) -> Vec<Bar<'m>> {
    marks.iter().map(|mark| Bar { x: time.at(mark.at), mark, count: 1, first: mark.at, last: mark.at }).collect()
}

/// One bar for the passed and one for the refused of each column.
fn in_columns<'m>(marks: &[&'m Mark], time: &TimeScale) -> Vec<Bar<'m>> {
    let mut bars = Vec::new();
    for column in marks.chunk_by(|a, b| time.column(a.at, COLUMNS) == time.column(b.at, COLUMNS)) {
        let x = LEFT + (time.column(column[0].at, COLUMNS) as f64 + 0.5) * COLUMN;
        for passed in [true, false] {
            let mut alike = column.iter().copied().filter(|mark| mark.passed == passed);
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
    let verdict = if bar.mark.passed { "passed" } else { "refused" };
    format!("{} {verdict} from {} to {}\nthe largest: {title}\n{at} {id}\n{why}", bar.count, bar.first, bar.last)
}
