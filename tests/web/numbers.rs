//! The numbers of the command line, as the tables of pages show them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use throttler::catalogue::Source;
use throttler::web::History;
use throttler::words::count;

/// The days of the M8.8.
pub const DAYS: [&str; 4] = ["--from", "2025-07-29T12:00:00Z", "--to", "2025-07-31T12:00:00Z"];

/// The shipped catalogue.
pub fn catalogue() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv").display().to_string()
}

/// The same as pages have it.
pub fn history() -> History {
    History::read(vec![Source::File(catalogue().into())]).expect("the catalogue")
}

/// What the program prints.
fn told(arguments: &[&str]) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_throttler")).args(arguments).args(["--format", "json"]).output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What it says on standard error of what makes no sense.
pub fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_throttler")).args(arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// A count as people read it; nothing as a dash.
fn cell(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), count)
}

/// The first columns of the table of `throttler replay` with these flags: limiter, bucket, admitted, refused, busiest, promised, delayed.
pub fn replayed(flags: &[&str]) -> Vec<Vec<String>> {
    let told = told(&[&["replay", &catalogue()], flags].concat());
    let row = |row: &Value| {
        let rule = row["counter_rule"].as_str().filter(|rule| *rule == "fits").map_or(String::new(), |rule| format!(" ({rule})"));
        let name = format!("{}{rule}", row["limiter"].as_str().expect("a name"));
        let numbers = ["bucket", "admitted", "refused", "busiest_window", "most_in_any_window", "delayed"];
        [name].into_iter().chain(numbers.map(|key| cell(&row[key]))).collect()
    };
    told["results"].as_array().expect("rows").iter().map(row).collect()
}

/// The numbers of the table of `throttler simulate outage`: policy, admitted, refused, busiest, passed in the outage.
pub fn simulated(flags: &[&str]) -> Vec<Vec<String>> {
    let row = |row: &Value| {
        let outage = format!("{} of {}", cell(&row["admitted_in_outage"]), cell(&row["offered_in_outage"]));
        let (policy, outage) = row["policy"].as_str().map_or(("no outage", "-".to_owned()), |policy| (policy, outage));
        let numbers = ["admitted", "refused", "busiest_window"].map(|key| cell(&row[key]));
        [policy.to_owned()].into_iter().chain(numbers).chain([outage]).collect()
    };
    told(&[&["simulate", "outage"], flags].concat())["results"].as_array().expect("rows").iter().map(row).collect()
}
