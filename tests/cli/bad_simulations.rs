//! Simulations that make no sense or would not end, and catalogues that lack what is asked for: refused before any work.

use crate::bad_input::{all, check, prepared};

#[test]
fn wrong_parameters_of_simulations() {
    all(
        &prepared(),
        &[
            ("simulate clients --runs 0", 2, &["an experiment takes 1 to 10000 runs, not 0"]),
            ("simulate clients --runs 10001", 2, &["1 to 10000 runs, not 10001"]),
            ("simulate clients --runs -1", 2, &["'-1' is not a count", "a whole number"]),
            ("simulate clients --runs many", 2, &["'--runs <COUNT>'", "'many' is not a count", "a whole number"]),
            ("simulate clients --runs 99999999999", 2, &["'99999999999' is too large", "at most 4294967295"]),
            ("simulate clients --load 0", 2, &["a load is 1 to 10000 percent of the limit, not 0"]),
            ("simulate clients --load 10001", 2, &["1 to 10000 percent", "not 10001"]),
            ("simulate clients --length 0s", 2, &["longer than zero"]),
            ("simulate clients --length 30s", 2, &["at least one window of the rate (1m), not 30s"]),
            ("simulate clients --length 99999w", 2, &["at most 3653d, not 99999w"]),
            ("simulate clients --length soon", 2, &["'--length", "'soon'"]),
            (
                "simulate clients --rate 1000000000/ms",
                2,
                &["one run would have about", "the most is 10000000", "lower load or rate"],
            ),
            ("simulate clients --runs 10000 --length 50d", 2, &["would take about", "decisions, the most is 20000000000"]),
            ("simulate clients --bucket 0", 2, &["a bucket holds 1 to 1000000000, not 0"]),
            ("simulate clients --bucket -3", 2, &["'-3' is not a count"]),
            ("simulate clients --shape round", 2, &["'round'", "steady"]),
            ("simulate clients --limiter bucket", 2, &["'bucket' is not a limiter"]),
            ("simulate clients --seed x", 2, &["'--seed", "'x' is not a count"]),
            ("simulate attack --phases 0", 2, &["at 1 to 100000 phases, not 0"]),
            ("simulate attack --phases 100001", 2, &["1 to 100000 phases, not 100001"]),
            ("simulate attack --rate 1000000000/h", 2, &["the floods would take about", "the most is 200000000", "fewer phases"]),
            ("simulate lockout --tries 1001", 2, &["at most 1000 times, not 1001"]),
            ("simulate lockout --spike 0", 2, &["a spike has 1 to 1000000 requests, not 0"]),
            ("simulate lockout --spike 1000001", 2, &["1 to 1000000 requests, not 1000001"]),
            ("simulate lockout --length 5m", 2, &["the spike comes after 5m, when a run of 5m is over", "choose a longer run"]),
            ("simulate split --servers 0", 2, &["a limit of 100 is shared by 1 to 100 servers", "not 0"]),
            ("simulate split --servers 101", 2, &["1 to 100 servers", "not 101"]),
            ("simulate split --gap 2h", 2, &["at most 1m from reading to writing, not 2h"]),
            ("simulate outage --length 2d", 2, &["at most 1d, not 2d"]),
            (
                "simulate outage --down-from 30s --down-to 20s",
                2,
                &["the store is lost before it is back", "from 30s to 20s of 1m"],
            ),
            ("simulate outage --down-from 20s --down-to 20s", 2, &["from 20s to 20s"]),
            ("simulate outage --instances 0", 2, &["1 to 1000 instances, not 0"]),
            ("simulate outage --preset quiet", 2, &["'quiet' is not a preset", "quiet-then-burst"]),
            ("simulate outage --policy open", 2, &["'open' is not a policy", "fail-open"]),
            ("simulate patterns --bucket 0", 2, &["a bucket holds 1 to 1000000000, not 0"]),
        ],
    );
}

#[test]
fn spans_that_are_empty() {
    let empty = &["is empty: from is inclusive, to exclusive"][..];
    let span = "--from 2020-01-02 --to 2020-01-02";
    let lines = ["min-bucket", "replay", "recommend"].map(|command| format!("{command} good.csv {span}"));
    let cases: Vec<_> = lines.iter().map(|line| (line.as_str(), 2, empty)).collect();
    all(&prepared(), &cases);
}

/// Magnitudes that are asked for and not there are an error; where none is needed, they are only missed.
#[test]
fn catalogues_without_what_is_asked_for() {
    let place = prepared();
    place.write("times.csv", "time,place\n2020-01-01T00:00:00Z,a\n2020-01-02T00:00:00Z,b\n");
    place.write("flat.csv", "time,mag\n2020-01-01T00:00:00Z,5.5\n");
    place.write("here.csv", "time,mag,latitude,longitude\n2020-01-01T00:00:00Z,5.5,52,160\n");
    let near = ["--near", "52.5,160", "--within-km", "90"];
    place.run(&[&["subscriber", "add", "near", "--email", "n@example.org"], &near[..]].concat()).ok();
    place.run(&["subscriber", "add", "shallow", "--email", "n@example.org", "--max-depth-km", "70"]).ok();
    place.run(&["subscriber", "add", "big", "--email", "n@example.org", "--always-from", "7"]).ok();
    let missing = &["times.csv, line 1: there is no column mag, only time, place"][..];
    all(
        &place,
        &[
            ("min-bucket times.csv --min-magnitude 5", 3, missing),
            ("replay times.csv --min-magnitude 5", 3, missing),
            ("recommend times.csv --min-magnitude 5", 3, missing),
            ("replay times.csv --subscriber anna", 3, missing),
            ("replay times.csv --subscriber big", 3, missing),
            ("replay times.csv --all-subscribers --plot scene.svg", 3, missing),
            ("replay times.csv --type earthquake", 3, &["there is no column type"]),
            ("replay flat.csv --subscriber near", 3, &["flat.csv, line 1: there is no column latitude"]),
            ("replay here.csv --subscriber shallow", 3, &["here.csv, line 1: there is no column depth"]),
            ("replay good.csv --min-magnitude big", 2, &["'big' is not a magnitude", "-10 to 12"]),
        ],
    );
    place.run(&["replay", "flat.csv", "--subscriber", "anna"]).ok();
    place.run(&["replay", "here.csv", "--subscriber", "near"]).ok();
    let drawn = place.run(&["replay", "times.csv", "--plot", "scene.svg"]);
    assert_eq!(
        (drawn.status, drawn.err.as_str()),
        (Some(0), "note: no event has a magnitude, so that all marks are equally high\n")
    );

    place.run(&["subscriber", "add", "coast", "--email", "n@example.org", "--tsunami", "true"]);
    let told = place.run(&["replay", "good.csv", "--subscriber", "coast"]);
    assert_eq!(told.status, Some(0));
    assert!(
        told.err.contains("neither tsunami flags nor PAGER levels, so nothing in it matches what coast wants"),
        "{}",
        told.err
    );
}

#[test]
fn a_span_without_events_is_no_picture() {
    let place = prepared();
    let ran = place.run(&["replay", "good.csv", "--from", "2030-01-01", "--all-subscribers", "--html", "scene.html"]);
    check(&ran, 3, &["no event matches, so there is nothing to draw"], "no event");
    assert!(!place.path("scene.html").exists());
}
