//! Honest traffic: for each shape the share served against the load, and the busiest window against the share served.

use super::{SERVED, named, percent, put};
use crate::limiter::Algorithm;
use crate::plot::{Chart, ChartGroup, Charts, Point, Series};
use crate::simulate::clients::{Clients, ClientsResult, ClientsRow, Role};
use crate::simulate::traffic::Shape;

/// The picture of what was found.
#[must_use]
pub fn clients(setup: &Clients, found: &ClientsResult) -> Charts {
    let shapes = Shape::ALL.into_iter().map(|shape| (shape, found.rows.iter().filter(|row| row.shape == shape).collect()));
    let charts = shapes.filter(|(_, rows): &(Shape, Vec<_>)| !rows.is_empty());
    let charts = charts.flat_map(|(shape, rows)| [served(shape, &rows), busiest(setup, shape, &rows)]).collect();
    let leaky = found.rows.iter().any(|row| is_told_by_another(row, &found.rows.iter().collect::<Vec<_>>()));
    let leaky = if leaky { " A leaky bucket serves exactly what a token bucket of its size serves." } else { "" };
    Charts {
        title: "Honest traffic: what each limiter serves of the same requests, and its busiest window".to_owned(),
        subtitle: format!(
            "{}, {} runs of {} with seed {}; bars are standard errors.{leaky}",
            setup.rate, setup.runs, setup.length, setup.seed
        ),
        groups: vec![ChartGroup { heading: String::new(), charts }],
    }
}

fn name(row: &ClientsRow) -> String {
    if row.role == Role::BestSafe { "best safe bucket".to_owned() } else { named(row.limit) }
}

/// Whether this is a leaky bucket, and the token bucket that admits the same is there as well.
fn is_told_by_another(row: &ClientsRow, rows: &[&ClientsRow]) -> bool {
    let token = |other: &&&ClientsRow| {
        other.limit.algorithm() == Algorithm::TokenBucket
            && other.role == Role::Chosen
            && other.limit.bucket() == row.limit.bucket()
    };
    row.limit.algorithm() == Algorithm::LeakyBucket && rows.iter().any(|other| token(&other))
}

fn note(row: &ClientsRow) -> String {
    let safe = if row.role == Role::BestSafe { format!(": {}, {}", named(row.limit), row.limit.rate()) } else { String::new() };
    format!(
        "load {} %, busiest window {:.1} on average, {} at worst{safe}",
        row.load_percent, row.busiest_window.mean, row.worst_window
    )
}

fn served(shape: Shape, rows: &[&ClientsRow]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|row| !is_told_by_another(row, rows)) {
        put(&mut series, &name(row), percent(f64::from(row.load_percent), row.served, note(row)));
    }
    for series in &mut series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Chart {
        name: format!("{shape}: {}", shape.description()),
        x: "load (% of the limit)".to_owned(),
        y: SERVED.to_owned(),
        y_range: None,
        joined: true,
        series,
    }
}

fn busiest(setup: &Clients, shape: Shape, rows: &[&ClientsRow]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for row in rows {
        let point = Point {
            x: row.served.mean * 100.0,
            y: row.busiest_window.mean,
            stderr: row.busiest_window.stderr,
            note: format!("load {} %, {} at worst", row.load_percent, row.worst_window),
        };
        put(&mut series, &name(row), point);
    }
    Chart {
        name: format!("{shape}: busiest window"),
        x: SERVED.to_owned(),
        y: format!("most in any {} (requests)", setup.rate.window().in_words()),
        y_range: None,
        joined: false,
        series,
    }
}
