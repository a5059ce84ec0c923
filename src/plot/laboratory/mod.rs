//! The pictures of the laboratory: what each experiment found, as charts or as requests over time. One file an experiment.

mod attack;
mod clients;
mod lockout;
mod outage;
mod patterns;
mod split;

pub use attack::attack;
pub use clients::clients;
pub use lockout::lockout;
pub use outage::{outage, outage_panels};
pub use patterns::patterns;
pub use split::split;

use super::axis::number;
use super::{Point, Series};
use crate::limiter::Limit;
use crate::simulate::statistics::Estimate;

/// A limiter with its bucket: `token-bucket 50`.
fn named(limit: Limit) -> String {
    let bucket = limit.bucket().map_or_else(String::new, |bucket| format!(" {}", number(f64::from(bucket), 1.0)));
    limit.name() + &bucket
}

/// A share in percent, with its standard error.
fn percent(x: f64, share: Estimate, note: String) -> Point {
    Point { x, y: share.mean * 100.0, stderr: share.stderr * 100.0, note }
}

/// Puts a point into the series of this name, which begins with it if there is none.
fn put(all: &mut Vec<Series>, name: &str, point: Point) {
    if let Some(series) = all.iter_mut().find(|series| series.name == name) {
        series.points.push(point);
    } else {
        all.push(Series { name: name.to_owned(), formula: false, points: vec![point] });
    }
}

const SERVED: &str = "served (% of requests)";
