//! Buckets over time, and the charts of the laboratory.

use throttler::analysis;
use throttler::catalogue::{Query, read_events};
use throttler::plot::{BucketPanel, Buckets, Chart, ChartGroup, Charts, Point, Series};

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

fn chart(name: &str) -> Chart {
    let series = |name: &str, served: [f64; 4]| Series {
        name: name.to_owned(),
        formula: false,
        points: [30.0, 50.0, 80.0, 100.0]
            .into_iter()
            .zip(served)
            .map(|(x, y)| Point { x, y, stderr: (100.0 - y) / 40.0, note: "20 runs".to_owned() })
            .collect(),
    };
    let mut formula = series("by a formula", [92.0, 83.0, 72.0, 64.5]);
    formula.formula = true;
    Chart {
        name: name.to_owned(),
        x: "load (% of the limit)".to_owned(),
        y: "served (% of requests)".to_owned(),
        y_range: None,
        joined: true,
        series: vec![
            series("fixed-window", [95.1, 88.4, 76.0, 68.1]),
            series("sliding-log", [91.0, 82.2, 71.2, 63.9]),
            formula,
            series("sliding-counter", [90.1, 81.0, 69.5, 62.2]),
            series("token-bucket 50", [89.7, 82.9, 72.7, 65.8]),
            series("token-bucket 75", [93.6, 87.9, 77.5, 70.0]),
        ],
    }
}

/// The same as points: the busiest window against the share served.
fn scatter() -> Chart {
    let mut chart = Chart { joined: false, ..chart("page-loads: busiest window") };
    (chart.x, chart.y) = ("served (% of requests)".to_owned(), "most in any minute (requests)".to_owned());
    chart.series.retain(|series| !series.formula);
    for (index, series) in chart.series.iter_mut().enumerate() {
        for point in &mut series.points {
            (point.x, point.y, point.stderr) = (point.y, 100.0 + point.x / 4.0 + index as f64 * 12.0, 1.5);
        }
    }
    chart
}

fn charts(charts: Vec<Chart>) -> Charts {
    Charts {
        title: "What is served of the same requests".to_owned(),
        subtitle: "100 per minute, made up".to_owned(),
        groups: vec![ChartGroup { heading: String::new(), charts }],
    }
}

#[test]
fn lines_and_points_beside_each_other() {
    let both = charts(vec![chart("page-loads"), scatter()]);
    assert_is_golden("charts.svg", &both.to_svg());
    let html = both.to_html();
    for switch in ["id=\"show-series-0-0\"", "id=\"show-panel-0-1\"", "body:has(#show-series-0-5:not(:checked)) .series-0-5"] {
        assert!(html.contains(switch), "{switch}");
    }
}

#[test]
fn a_chart_alone_has_the_whole_width() {
    let svg = charts(vec![chart("")]).to_svg();
    assert!(svg.contains("h1100"), "its axis reaches the right edge");
    assert!(!charts(vec![chart("")]).to_html().contains("show-panel"), "there is nothing to choose");
}

/// What spans decades at the left must not be lost, and what is no number is not drawn.
#[test]
fn axes_fit_what_is_there() {
    let mut wide = chart("wide");
    for (point, x) in wide.series[0].points.iter_mut().zip([0.2, 1.0, 5.0, 50.0]) {
        point.x = x;
    }
    wide.series.truncate(1);
    let svg = charts(vec![wide]).to_svg();
    assert!([">0.2<", ">1<", ">10<"].iter().all(|label| svg.replace('\n', "").contains(label)), "{svg}");

    let mut broken = chart("broken");
    broken.series[0].points[0].y = f64::NAN;
    broken.series[1].points[1].stderr = f64::INFINITY;
    let svg = charts(vec![broken.clone()]).to_svg();
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    broken.series.clear();
    assert!(charts(vec![broken]).to_svg().ends_with("</svg>\n"));
    assert!(charts(Vec::new()).to_html().ends_with("</html>\n"));
}

/// More series than colours: those that begin again are broken lines.
#[test]
fn series_stay_apart() {
    let mut many = chart("many");
    many.series = (0..10).map(|number| Series { name: format!("bucket {number}"), ..many.series[0].clone() }).collect();
    let svg = charts(vec![many]).to_svg();
    assert!(svg.contains("s1 line again") && !svg.contains("s2 line again"));
}
