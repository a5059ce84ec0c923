//! `catalog fetch` against a service on loopback, killed in between too; `catalog info`.

use std::fs;
use std::process::Stdio;

use axum::response::IntoResponse as _;
use throttler::time::{Span, Timestamp};

use crate::place::{Place, catalogue, wait_for};
use crate::usgs::{HEADER, Listed, Service, Usgs, refusal};

fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

/// One M 5.0 to 6.1 a day from 2020-01-01 on.
fn daily(days: u64) -> Vec<Listed> {
    let listed = |day| {
        let at = at("2020-01-01").plus(Span::from_seconds(day * 86_400 + day));
        Listed::new(&format!("us{day:04}"), at, 5.0 + (day % 12) as f64 / 10.0)
    };
    (0..days).map(listed).collect()
}

fn text(events: &[Listed]) -> String {
    std::iter::once(HEADER.to_owned()).chain(events.iter().map(Listed::row)).map(|row| row + "\n").collect()
}

async fn service(days: u64, limit: usize) -> Usgs {
    Usgs::start(Service { events: daily(days), limit, ..Service::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_catalogue_is_fetched_to_a_file_or_standard_output_and_read_by_min_bucket() {
    let (place, usgs) = (Place::new(), service(400, 50).await);
    let url = usgs.fdsn();
    let out = place.run(&["catalog", "fetch", "--url", &url]).ok();
    assert_eq!(out, text(&daily(400)));
    assert!(place.files().is_empty());
    let told = place.run(&["catalog", "fetch", "--url", &url, "--output", "quakes.csv"]).ok();
    assert!(told.starts_with("400 events in quakes.csv, ") && told.ends_with(" requests.\n"), "{told}");
    assert_eq!(fs::read_to_string(place.path("quakes.csv")).expect("the file"), out);
    assert_eq!(place.files().len(), 1);
    let found = place.run(&["min-bucket", "quakes.csv", "--format", "json"]).json();
    assert_eq!(found["events"], 400);
    assert!(
        usgs.service().asked[0].starts_with(
            "/fdsnws/event/1/count?starttime=2015-01-01T00%3A00%3A00&endtime=2026-01-01T00%3A00%3A00&minmagnitude=5&"
        )
    );

    // Part of it, from the service that the configuration names.
    place.write("throttler.toml", &format!("[feed]\nfdsn = \"{url}\"\n"));
    let part =
        ["catalog", "fetch", "--from", "2020-02-01", "--to", "2020-02-03", "--min-magnitude", "5.5", "--type", "earthquake"];
    let expected: Vec<_> = daily(33).into_iter().filter(|event| event.at >= at("2020-02-01") && event.magnitude >= 5.5).collect();
    assert_eq!(place.run(&part).ok(), text(&expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_fetch_goes_on_where_it_was() {
    let (place, usgs) = (Place::new(), service(400, 50).await);
    place.write("quakes.csv", "before");
    let url = usgs.fdsn();
    let args = ["catalog", "fetch", "--url", &url, "--output", "quakes.csv", "--from", "2020-01-01", "--to", "2021-03-01"];
    for kill in 1..4 {
        // The service falls silent after some answers: that is when the power fails.
        let before = usgs.service().asked.len();
        usgs.service().fault = Some(Box::new(move |_, number, _| {
            (number > before + 3).then(|| ([("retry-after", "1")], refusal(503, "later")).into_response())
        }));
        let mut child = place.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
        wait_for("some answers", || (usgs.service().asked.len() > before + 4).then_some(()));
        child.kill().expect("killed");
        child.wait().expect("its end");
        assert_eq!(fs::read_to_string(place.path("quakes.csv")).expect("the file"), "before", "kill {kill}");
        let part = fs::read_to_string(place.path("quakes.csv.part")).expect("what came");
        assert!(text(&daily(400)).starts_with(&part) && part.lines().count() > kill, "kill {kill}: {part}");
    }
    usgs.service().fault = None;
    let before = usgs.service().asked.len();
    let told = place.run(&args).ok();
    assert!(told.contains(" of them from an interrupted fetch, "), "{told}");
    assert_eq!(fs::read_to_string(place.path("quakes.csv")).expect("the file"), text(&daily(400)));
    let asked = usgs.service().asked[before + 1].clone();
    assert!(!asked.contains("starttime=2020-01-01"), "{asked}");
    assert_eq!(place.files().len(), 1, "nothing is left beside it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_add_up_is_told_with_status_1() {
    let (place, usgs) = (Place::new(), service(400, 50).await);
    let url = usgs.fdsn();
    let late = |at: &str| Listed::new("late", self::at(at), 6.0);
    let push = |event: Listed| {
        let mut event = Some(event);
        usgs.service().fault = Some(Box::new(move |service, number, _| {
            if number == 4 {
                service.events.extend(event.take());
            }
            None
        }));
        usgs.service().asked.clear();
    };
    push(late("2025-12-31T23:59:59Z"));
    let ran = place.run(&["catalog", "fetch", "--url", &url, "--output", "a.csv"]);
    assert_eq!(
        (ran.status, ran.err.as_str()),
        (Some(0), "note: the service counted 400 events at the start and 401 at the end, which are all here\n")
    );
    push(late("2015-01-01T00:00:01Z"));
    let ran = place.run(&["catalog", "fetch", "--url", &url, "--output", "b.csv"]);
    assert_eq!(ran.status, Some(1));
    assert!(
        ran.err.starts_with("throttler: the service counts 402 events and gave 401: some came or changed meanwhile"),
        "{}",
        ran.err
    );
    assert_eq!(fs::read_to_string(place.path("b.csv")).expect("the file").lines().count(), 402, "what it gave is written");
}

#[test]
fn wrong_usage_asks_nobody() {
    let place = Place::new();
    place.write("taken.csv", "");
    for (args, message) in [
        (vec!["--from", "2020-01-02", "--to", "2020-01-02"], "is empty: from is inclusive, to exclusive"),
        (vec!["--from", "2020-01-02T00:00:00.5Z"], "within a second: the service knows whole seconds only"),
        (vec!["--url", "ftp://127.0.0.1/"], "expected the address of an FDSN event service"),
        (vec!["--output", "."], "cannot write .: it is not a file"),
        (vec!["--min-magnitude", "13"], "expected a number from -10 to 12"),
    ] {
        let mut all = vec!["catalog", "fetch"];
        if !args.contains(&"--url") {
            all.extend(["--url", "http://127.0.0.1:1/"]);
        }
        let ran = place.run(&[all, args].concat());
        assert_eq!(ran.status, Some(2), "{}", ran.err);
        assert!(ran.err.contains(message), "{}", ran.err);
    }
    let ran = place.run(&["catalog", "fetch", "--url", "http://127.0.0.1:1/", "--output", "none/x.csv"]);
    assert_eq!(ran.status, Some(1));
    assert!(ran.err.contains("cannot write none/x.csv: there is no directory none"), "{}", ran.err);
    let ran = place.run(&["catalog", "fetch", "--url", "http://127.0.0.1:1/"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.starts_with("throttler: cannot reach http://127.0.0.1:1/count?"), "{}", ran.err);
}

#[test]
fn a_catalogue_is_described() {
    let place = Place::new();
    let text = fs::read_to_string(catalogue()).expect("the catalogue");
    place.write("quakes.csv", &text);
    insta::assert_snapshot!("catalog_info", place.run(&["catalog", "info", "quakes.csv"]).ok());
    insta::assert_snapshot!("catalog_info_json", place.run(&["catalog", "info", "quakes.csv", "--format", "json"]).ok());
    let piped = place.run_with(&["catalog", "info", "-", "--format", "json"], &text).json();
    let mut file = place.run(&["catalog", "info", "quakes.csv", "--format", "json"]).json();
    file["files"][0]["file"] = "standard input".into();
    assert_eq!(piped, file);
}

#[test]
fn order_duplicates_and_what_is_missing_are_told() {
    let place = Place::new();
    place.write(
        "up.csv",
        "time,id,mag,type\n2020-01-01,a,5.0,earthquake\n2020-01-02,b,,quarry blast\n2020-01-05,a,-0.5,earthquake\n",
    );
    place.write("down.csv", "time\n2020-01-02\n2020-01-01\n");
    place.write("mixed.csv", "time,id\n2020-01-02,a\n2020-01-01,b\n2020-01-03,c\n");
    place.write("empty.csv", "");
    let args = ["catalog", "info", "up.csv", "down.csv", "mixed.csv", "empty.csv"];
    insta::assert_snapshot!("catalog_info_small", place.run(&args).ok());
    let found = place.run(&[&args[..], &["--format", "json"]].concat()).json();
    let orders: Vec<_> = found["files"].as_array().expect("files").iter().map(|file| file["order"].clone()).collect();
    assert_eq!(orders, ["ascending", "descending", "mixed", "none"]);
    assert_eq!((&found["files"][0]["duplicates"], &found["files"][1]["duplicates"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(found["files"][0]["magnitudes"]["by_unit"][0], serde_json::json!({ "from": -1, "to": 0, "events": 1 }));
    assert_eq!(found["files"][3]["sha256"], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");

    place.write("bad.csv", "time,id\n2020-01-02,a\nyesterday,b\n");
    let ran = place.run(&["catalog", "info", "bad.csv"]);
    assert_eq!(ran.status, Some(3));
    assert!(ran.err.contains("bad.csv, line 3, column time: 'yesterday'"), "{}", ran.err);
    let ran = place.run(&["catalog", "info", "bad.csv", "--skip-bad-rows"]);
    assert!(ran.status == Some(0) && ran.err.starts_with("note: 1 row is not well formed"), "{}", ran.err);
    assert_eq!(place.run(&["catalog", "info", "none.csv"]).status, Some(1));
}
