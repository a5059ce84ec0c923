//! `throttler replay --plot --html`: files that appear whole, and are refused before any work.

use std::fs;
use std::process::{Command, Output};

use crate::support::project;

fn replay(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_throttler"));
    command.arg("replay").args(arguments).output().expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn pictures_are_written_beside_the_numbers() {
    let directory = tempfile::tempdir().expect("a directory");
    let (plot, html) = (directory.path().join("scene.svg"), directory.path().join("report.html"));
    let (plot, html) = (plot.to_str().expect("UTF-8"), html.to_str().expect("UTF-8"));
    let catalogue = project("data/quakes_2015_2025.csv");
    let days = ["--from", "2025-07-29T12:00:00Z", "--to", "2025-07-31T12:00:00Z"];
    let limits = ["--limiter", "token-bucket", "--bucket", "5", "--bucket", "74", "--format", "json"];
    let arguments = [&[catalogue.to_str().expect("UTF-8"), "--plot", plot, "--html", html], &days[..], &limits[..]].concat();
    let output = replay(&arguments);
    assert_eq!(text(&output.stderr), "");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let told = |row: usize| (found["results"][row]["bucket"].clone(), found["results"][row]["admitted"].clone());
    assert_eq!([told(0), told(1)], [(5.into(), 120.into()), (74.into(), 189.into())]);
    for file in [plot, html] {
        let picture = fs::read_to_string(file).expect("it was written");
        assert!(picture.contains("120 of 189 passed, 69 refused") && picture.contains("189 of 189 passed, 0 refused"), "{file}");
    }
    assert_eq!(fs::read_dir(directory.path()).expect("a listing").count(), 2, "no draft is left");
}

#[test]
fn what_cannot_be_written_is_told_before_anything_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let inside = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let missing = inside("missing.csv");
    for (flags, status, message) in [
        (vec!["--plot".to_owned(), inside("none/scene.svg")], 1, "cannot write"),
        (vec!["--html".to_owned(), inside("")], 2, "it is not a file"),
        (vec!["--plot".to_owned(), inside("a"), "--html".to_owned(), inside("a")], 2, "need two files"),
    ] {
        let arguments: Vec<&str> = std::iter::once(&missing).chain(&flags).map(String::as_str).collect();
        let output = replay(&arguments);
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(status));
    }
}

#[test]
fn a_span_without_events_has_no_picture() {
    let directory = tempfile::tempdir().expect("a directory");
    let plot = directory.path().join("scene.svg");
    fs::write(&plot, "the older one").expect("written");
    let catalogue = project("data/quakes_2015_2025.csv");
    let output = replay(&[catalogue.to_str().expect("UTF-8"), "--from", "2030-01-01", "--plot", plot.to_str().expect("UTF-8")]);
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(3), "throttler: no event matches, so there is nothing to draw\n".to_owned())
    );
    assert_eq!(fs::read_to_string(&plot).expect("still there"), "the older one");
}
