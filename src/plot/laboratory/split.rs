//! One limit over several servers: the share served when each has its share, and what passes a shared counter that is read and
//! written in separate steps.

use super::{SERVED, named, percent, put};
use crate::plot::{Chart, ChartGroup, Charts, Point, Series};
use crate::simulate::split::{Split, SplitRow, Unsynchronised, UnsynchronisedRow};
use crate::simulate::variants::Sharing;

const SERVERS: &str = "servers";

/// The picture of what was found.
#[must_use]
pub fn split(setup: &Split, rows: &[SplitRow], shared: &Unsynchronised, shared_rows: &[UnsynchronisedRow]) -> Charts {
    Charts {
        title: "One limit over several servers".to_owned(),
        subtitle: format!(
            "{} at {} % load, {} runs of {} with seed {}; bars are standard errors.",
            setup.rate, setup.load_percent, setup.runs, setup.length, setup.seed
        ),
        groups: vec![
            ChartGroup { heading: "Each server holds its share of the limit".to_owned(), charts: served(setup, rows) },
            ChartGroup {
                heading: format!(
                    "All servers share one {} of {}: {} rushes of four times the limit within a second",
                    shared.limit.algorithm(),
                    shared.limit.rate(),
                    shared.rushes
                ),
                charts: vec![passed(shared, shared_rows)],
            },
        ],
    }
}

/// A panel a shape.
fn served(setup: &Split, rows: &[SplitRow]) -> Vec<Chart> {
    let chart = |shape| {
        let mut series: Vec<Series> = Vec::new();
        let mut exact: Vec<Point> = Vec::new();
        for row in rows.iter().filter(|row| row.shape == shape) {
            let servers = f64::from(row.servers);
            put(&mut series, &named(row.limit), percent(servers, row.served, String::new()));
            exact.extend(row.exact.map(|share| Point { x: servers, y: share * 100.0, ..Point::default() }));
        }
        if !exact.is_empty() {
            series.push(Series { name: "sliding-log by Erlang's B".to_owned(), formula: true, points: exact });
        }
        in_order(&mut series);
        Chart {
            name: format!("{shape}: {}", shape.description()),
            x: SERVERS.to_owned(),
            y: SERVED.to_owned(),
            y_range: None,
            joined: true,
            series,
        }
    };
    setup.shapes.iter().copied().map(chart).collect()
}

fn passed(shared: &Unsynchronised, rows: &[UnsynchronisedRow]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    // What is right comes first.
    let kinds = [Sharing::Atomic, Sharing::Separate].into_iter();
    for row in kinds.flat_map(|kind| rows.iter().filter(move |row| row.sharing == kind)) {
        let name = match row.sharing {
            Sharing::Separate => format!("read and written {} apart", row.gap),
            Sharing::Atomic if Some(&row.gap) == shared.gaps.first() => "in one atomic step".to_owned(),
            // In one step the gap changes nothing.
            Sharing::Atomic => continue,
        };
        let (y, stderr) = (row.busiest_window.mean, row.busiest_window.stderr);
        put(&mut series, &name, Point { x: f64::from(row.servers), y, stderr, note: format!("{} at worst", row.worst_window) });
    }
    in_order(&mut series);
    let y = format!("most in any {} (requests)", shared.limit.rate().window().in_words());
    Chart { name: String::new(), x: SERVERS.to_owned(), y, y_range: None, joined: true, series }
}

fn in_order(series: &mut [Series]) {
    for series in series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
}
