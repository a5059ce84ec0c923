//! Buckets over time, and the charts of the laboratory.

use throttler::analysis;
use throttler::catalogue::{Query, read_events};
use throttler::plot::{BucketPanel, Buckets, Chart, Point, Series};

use crate::support::{assert_is_golden, catalogue, rate};

#[test]
fn the_bucket_over_eleven_years_and_around_the_critical_run() {
    let rates = [rate("5/h"), rate("20/h")];
    let (found, _) = analysis::min_bucket(&mut catalogue(), &Query::default(), &rates, 1, &|_| {}).expect("the catalogue");
    let (events, _) = read_events(&mut catalogue(), &Query::default()).expect("the catalogue");
    let events: Vec<_> = events.iter().map(|event| (event.origin_at, event.magnitude)).collect();
    let panel = |result: &analysis::RateResult| BucketPanel {
        rate: result.rate,
        bucket: u32::try_from(result.bucket).expect("small"),
        critical_run: result.critical_run.expect("there are events"),
    };
    let panels: Vec<_> = found.results.iter().map(panel).collect();
    let title = "The smallest bucket that loses none of 18,738 events";
    assert_is_golden("buckets.svg", &Buckets { title, events: &events, panels: &panels[..1] }.to_svg());
    let both = Buckets { title, events: &events, panels: &panels }.to_svg();
    assert!(both.contains("5/h: a bucket of 74") && both.contains("20/h: a bucket of 26"));
    assert!(both.len() < 200_000, "{} bytes", both.len());
}

#[test]
fn one_event_is_a_run_of_itself() {
    let events = [("2025-07-30T00:00:00Z".parse().expect("a time"), None)];
    let critical_run = analysis::Run { events: 1, first: events[0].0, last: events[0].0 };
    let panel = BucketPanel { rate: rate("5/h"), bucket: 1, critical_run };
    let svg = Buckets { title: "One", events: &events, panels: &[panel] }.to_svg();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
}

fn chart() -> Chart {
    let series = |name: &str, served: [f64; 4]| Series {
        name: name.to_owned(),
        points: [30.0, 50.0, 80.0, 100.0]
            .into_iter()
            .zip(served)
            .map(|(x, y)| Point { x, y, stderr: (100.0 - y) / 40.0, note: "20 runs".to_owned() })
            .collect(),
    };
    Chart {
        title: "Page loads: share served against load, 100 per minute".to_owned(),
        x: "load (% of the limit)".to_owned(),
        y: "served (% of requests)".to_owned(),
        series: vec![
            series("fixed-window", [95.1, 88.4, 76.0, 68.1]),
            series("sliding-log", [91.0, 82.2, 71.2, 63.9]),
            series("sliding-counter", [90.1, 81.0, 69.5, 62.2]),
            series("token-bucket 50", [89.7, 82.9, 72.7, 65.8]),
            series("token-bucket 75", [93.6, 87.9, 77.5, 70.0]),
            series("leaky-bucket 50", [89.7, 82.9, 72.0, 65.1]),
        ],
    }
}

#[test]
fn one_line_a_limiter_with_error_bars() {
    assert_is_golden("lines.svg", &chart().lines());
}

#[test]
fn points_that_are_not_joined() {
    let mut chart = chart();
    chart.title = "Page loads: the busiest minute against the share served".to_owned();
    (chart.x, chart.y) = ("served (% of requests)".to_owned(), "busiest minute (requests admitted)".to_owned());
    for (index, series) in chart.series.iter_mut().enumerate() {
        for point in &mut series.points {
            (point.x, point.y, point.stderr) = (point.y, 100.0 + point.x / 4.0 + index as f64 * 12.0, 1.5);
        }
    }
    assert_is_golden("scatter.svg", &chart.scatter());
}

#[test]
fn what_is_no_number_is_not_drawn() {
    let mut chart = chart();
    chart.series[0].points[0].y = f64::NAN;
    chart.series[1].points[1].stderr = f64::INFINITY;
    let svg = chart.lines();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    chart.series.clear();
    assert!(chart.scatter().ends_with("</svg>\n"));
}
