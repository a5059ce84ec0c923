//! The worst stretch: how much passes in a window, by the phase at which the flood begins.

use super::named;
use crate::plot::{Chart, ChartGroup, Charts, Point, Series};
use crate::rate::Rate;
use crate::simulate::attack::AttackRow;
use crate::time::Span;

/// The most points of a line; of more phases each point tells the worst of several.
const MAX_POINTS: usize = 120;

/// The picture of what was found. Limiters that let pass the same at every phase share a line.
#[must_use]
pub fn attack(rate: Rate, found: &[AttackRow]) -> Charts {
    let mut groups: Vec<(Vec<&AttackRow>, &AttackRow)> = Vec::new();
    for row in found {
        match groups.iter_mut().find(|(_, first)| first.by_phase == row.by_phase) {
            Some((alike, _)) => alike.push(row),
            None => groups.push((vec![row], row)),
        }
    }
    let series = groups.iter().map(|(alike, first)| Series {
        name: alike.iter().map(|row| named(row.limit)).collect::<Vec<_>>().join(", "),
        formula: false,
        points: points(first),
    });
    let phases = found.first().map_or(0, |row| row.by_phase.len());
    let thinned = if phases > MAX_POINTS { "; a point tells the worst of several phases" } else { "" };
    let chart = Chart {
        name: String::new(),
        x: "beginning of the flood (s after the window's)".to_owned(),
        y: format!("most in any {} (requests)", rate.window().in_words()),
        y_range: None,
        joined: true,
        series: series.collect(),
    };
    Charts {
        title: "The worst stretch: a client that waits quietly and then floods".to_owned(),
        subtitle: format!("{rate}, floods at {phases} phases of the window{thinned}. Exact, without chance."),
        groups: vec![ChartGroup { heading: String::new(), charts: vec![chart] }],
    }
}

fn points(row: &AttackRow) -> Vec<Point> {
    let together = row.by_phase.len().div_ceil(MAX_POINTS).max(1);
    let worst = |phases: &[(u64, u64)]| {
        let (phase, most) = phases.iter().max_by_key(|(_, most)| *most).copied().unwrap_or_default();
        let note = format!("promised at most {}", row.limit.promise().most_in_any_window);
        Point { x: Span::from_ticks(phase).as_seconds(), y: most as f64, stderr: 0.0, note }
    };
    row.by_phase.chunks(together).map(worst).collect()
}
