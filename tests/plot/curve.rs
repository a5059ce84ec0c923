//! The rate–bucket curve.

use throttler::analysis::{self, RateResult};
use throttler::catalogue::Query;
use throttler::plot::{Corner, Curve, WholeRate};

use crate::support::{assert_is_golden, catalogue, rate};

/// The line of a rate's critical run: the level that this run needs at any rate.
fn line_of(result: &RateResult) -> (f64, f64) {
    let run = result.critical_run.as_ref().expect("there are events");
    (run.events as f64, run.duration().as_seconds() / 3_600.0)
}

/// The curve of the shipped catalogue, its corners where the lines of neighbouring whole rates meet.
fn shipped(rates: std::ops::RangeInclusive<u64>) -> Curve {
    let rates: Vec<_> = rates.map(|n| rate(&format!("{n}/h"))).collect();
    let (found, _) = analysis::min_bucket(&mut catalogue(), &Query::default(), &rates, 1, &|_| {}).expect("the catalogue");
    let level = |result: &RateResult, rate: f64| line_of(result).0 - rate * line_of(result).1;
    let at = |result: &RateResult, rate: f64| Corner {
        rate,
        level: level(result, rate),
        critical_run: result.critical_run.as_ref().map(|run| run.events),
    };
    let mut corners = vec![at(&found.results[0], rates[0].limit().into())];
    for pair in found.results.windows(2) {
        let ((events, hours), (next_events, next_hours)) = (line_of(&pair[0]), line_of(&pair[1]));
        if hours > next_hours {
            corners.push(at(&pair[1], (events - next_events) / (hours - next_hours)));
        }
    }
    let last = found.results.last().expect("at least one rate");
    corners.push(at(last, last.rate.limit().into()));
    let whole = found.results.iter().map(|result| WholeRate { rate: result.rate.limit().into(), bucket: result.bucket });
    Curve {
        title: "The smallest bucket that loses none of 18,738 events, at each rate".to_owned(),
        window: "hour".to_owned(),
        corners,
        whole_rates: whole.collect(),
    }
}

#[test]
fn the_curve_of_eleven_years() {
    assert_is_golden("curve.svg", &shipped(1..=38).to_svg());
}

#[test]
fn a_curve_over_decades_has_a_logarithmic_axis() {
    let mut curve = shipped(1..=100);
    curve.title = "The same from 1 to 100 an hour".to_owned();
    assert_is_golden("curve_decades.svg", &curve.to_svg());
}

#[test]
fn a_curve_of_one_rate_or_none_is_still_a_picture() {
    let mut curve = shipped(5..=5);
    assert!(curve.to_svg().contains("5 per hour: a bucket of 74"));
    (curve.corners, curve.whole_rates) = (Vec::new(), Vec::new());
    let empty = curve.to_svg();
    assert!(empty.ends_with("</svg>\n") && !empty.contains("NaN") && !empty.contains("inf"), "{empty}");
}
