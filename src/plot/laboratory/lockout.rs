//! Counting what was refused: the share served against the pressure of all tries, where the lock sets in.

use super::{SERVED, percent, put};
use crate::plot::{Chart, ChartGroup, Charts, Series};
use crate::simulate::lockout::{Lockout, LockoutRow};
use crate::simulate::variants::Recording;

/// The picture of what was found: a panel for each limiter and what it records, a line for each load.
#[must_use]
pub fn lockout(setup: &Lockout, found: &[LockoutRow]) -> Charts {
    let mut charts: Vec<Chart> = Vec::new();
    for row in found {
        let recording = match row.recording {
            Recording::Admitted => "recording only what it admitted",
            Recording::AdmittedAndRefused => "recording refused requests too",
        };
        let name = format!("{} {recording}", row.limit.algorithm());
        if charts.last().is_none_or(|chart| chart.name != name) {
            let x = "tries x rate (limits), the first try counted".to_owned();
            charts.push(Chart {
                name,
                x,
                y: SERVED.to_owned(),
                y_range: Some((0.0, 100.0)),
                joined: true,
                series: Vec::<Series>::new(),
            });
        }
        let note = format!("load {} %, m = {}", row.load_percent, row.tries);
        if let Some(chart) = charts.last_mut() {
            let series = format!("{} a window ({} % of the limit)", requests(setup, row.load_percent), row.load_percent);
            put(&mut chart.series, &series, percent(row.pressure(), row.served, note));
        }
    }
    for series in charts.iter_mut().flat_map(|chart| &mut chart.series) {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Charts {
        title: "Counting what was refused locks a client out that tries again".to_owned(),
        subtitle: format!(
            "{}, one spike of {} requests after five windows, refused requests tried again once a second up to m times; {} runs of {} \
             with seed {}; bars are standard errors. The product's limiters never count a refused request.",
            setup.rate, setup.spike, setup.runs, setup.length, setup.seed
        ),
        groups: vec![ChartGroup { heading: String::new(), charts }],
    }
}

/// What the client asks for in a window, on average.
fn requests(setup: &Lockout, load_percent: u32) -> String {
    let hundredths = u64::from(setup.rate.limit()) * u64::from(load_percent);
    if hundredths.is_multiple_of(100) { (hundredths / 100).to_string() } else { format!("{:.2}", hundredths as f64 / 100.0) }
}
