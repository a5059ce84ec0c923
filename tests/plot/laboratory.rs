//! The pictures of the experiments. Those of the documents are compared with the files there; they come from commands that
//! the documents name.

use throttler::limiter::Algorithm;
use throttler::plot::{MAX_PANELS, laboratory};
use throttler::simulate::Work;
use throttler::simulate::attack::Attack;
use throttler::simulate::clients::Clients;
use throttler::simulate::lockout::Lockout;
use throttler::simulate::outage::{Outage, Preset};
use throttler::simulate::split::{Split, Unsynchronised};
use throttler::simulate::traffic::Shape;
use throttler::time::Span;

use crate::support::{assert_is_file, assert_is_golden, rate};

/// `throttler simulate attack --phases 12 --plot docs/attack.svg`
#[test]
fn the_worst_stretch() {
    let attack = Attack { phases: 12, ..Attack::published(rate("100/60s")) };
    let found = attack.run().expect("an experiment");
    let svg = laboratory::attack(attack.rate, &found).to_svg();
    assert!(svg.contains("sliding-log, leaky-bucket 50, leaky-bucket 75"), "one line for what passes the same");
    assert!(svg.len() < 40_000, "{} bytes", svg.len());
    assert_is_file("docs/attack.svg", &svg);
    let many = Attack { phases: 10_000, buckets: vec![5], ..Attack::published(rate("5/h")) };
    let svg = laboratory::attack(many.rate, &many.run().expect("an experiment")).to_svg();
    assert!(svg.len() < 200_000 && svg.contains("the worst of several phases"), "{} bytes", svg.len());
}

/// `throttler simulate outage --preset steady-overload --plot docs/outage.svg`
#[test]
fn the_sixty_seconds_of_the_outage() {
    let algorithms = vec![Algorithm::TokenBucket];
    let outage = Outage { presets: vec![Preset::SteadyOverload], algorithms, ..Outage::published(rate("10/s")) };
    let requests = laboratory::outage(&outage).expect("an experiment");
    let svg = requests.to_svg();
    for told in ["in the outage 150 of 150 passed", "in the outage 0 of 150 passed", "(a bar counts 200ms)"] {
        assert!(svg.contains(told), "{told}");
    }
    assert!(svg.len() < 120_000, "{} bytes", svg.len());
    assert_is_file("docs/outage.svg", &svg);
    let html = requests.to_html();
    assert!(html.contains("3 passed, 0 refused\nfrom 20 s to 20.2 s"), "what a bar stands for");
    assert_eq!(laboratory::outage_panels(&outage), 5);
}

#[test]
fn the_longest_outage_has_no_more_bars_and_the_whole_picture_no_more_panels() {
    let published = Outage { algorithms: vec![Algorithm::TokenBucket], ..Outage::published(rate("10/s")) };
    assert!(laboratory::outage_panels(&published) <= MAX_PANELS);
    let (length, presets) = (Span::from_seconds(86_400), vec![Preset::WindowEdges]);
    let day = Outage { length, presets, policies: Vec::new(), ..published };
    let html = laboratory::outage(&day).expect("an experiment").to_html();
    assert!(html.len() < 400_000 && html.contains("(a bar counts 5m)"), "{} bytes", html.len());
}

#[test]
fn the_three_patterns() {
    let svg = laboratory::patterns(rate("10/60s"), None).expect("limits").to_svg();
    for told in ["20 of 20 passed", "29 of 120 passed", "20 of 70 passed; most in any minute: 19"] {
        assert!(svg.contains(told), "{told}");
    }
    assert_is_golden("patterns.svg", &svg);
}

#[test]
fn honest_traffic() {
    let traffic = vec![(Shape::Steady, 80), (Shape::PageLoads, 30), (Shape::PageLoads, 80)];
    let clients = Clients { traffic, runs: 2, length: Span::from_seconds(6_000), ..Clients::published(rate("100/60s"), 1) };
    let found = clients.run(&Work::QUIET).expect("an experiment");
    let charts = laboratory::clients(&clients, &found);
    let names: Vec<&str> = charts.groups[0].charts.iter().map(|chart| chart.name.as_str()).collect();
    let expected = ["steady: Poisson", "steady: busiest window", "page-loads: groups of 20 on average, within 1 s"];
    assert_eq!(names[..3], expected);
    let lines =
        |chart: usize| charts.groups[0].charts[chart].series.iter().map(|series| series.name.as_str()).collect::<Vec<_>>();
    let served = ["fixed-window", "sliding-log", "sliding-counter", "token-bucket 50", "token-bucket 75", "best safe bucket"];
    assert_eq!(lines(2), served, "a leaky bucket would lie on the token bucket");
    assert!(lines(3).contains(&"leaky-bucket 75"), "but its busiest window is another");
    assert_is_golden("clients.svg", &charts.to_svg());
}

#[test]
fn counting_what_was_refused() {
    let published = Lockout::published(rate("100/60s"), 1);
    let lockout = Lockout { loads_percent: vec![25, 50], tries: vec![1, 10, 60], runs: 1, ..published };
    let found = lockout.run(&Work::QUIET).expect("an experiment");
    let charts = laboratory::lockout(&lockout, &found);
    let point = |chart: usize| charts.groups[0].charts[chart].series[0].points[1].clone();
    assert!((point(0).x - 2.75).abs() < 1e-9, "11 tries at a quarter of the limit: {}", point(0).x);
    assert!(point(0).y < 6.0 && point(1).y > 95.0, "{:?} {:?}", point(0), point(1));
    assert_is_golden("lockout.svg", &charts.to_svg());
}

#[test]
fn one_limit_over_several_servers() {
    let published = Split::published(rate("100/60s"), 1);
    let split = Split { runs: 2, length: Span::from_seconds(6_000), ..published };
    let shared = Unsynchronised { rushes: 5, ..Unsynchronised::usual(rate("100/60s"), 1).expect("a limit") };
    let (rows, shared_rows) = (split.run(&Work::QUIET).expect("rows"), shared.run(&Work::QUIET).expect("rows"));
    let charts = laboratory::split(&split, &rows, &shared, &shared_rows);
    let rushes = &charts.groups[1].charts[0].series;
    assert!(rushes[0].name == "in one atomic step" && rushes[0].points.iter().all(|point| (point.y - 100.0).abs() < 1e-9));
    assert!(rushes[3].points.iter().skip(1).all(|point| point.y > 150.0), "{rushes:?}");
    assert_is_golden("split.svg", &charts.to_svg());
}
