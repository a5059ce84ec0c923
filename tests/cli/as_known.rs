//! `replay --as-known`: captures of a feed replayed as they were seen.

use serde_json::{Value, json};

use crate::place::{Place, catalogue};

/// An earthquake as a feed shows it, this many seconds after the start of 2030 and later.
fn quake(id: &str, ids: &str, magnitude: impl Into<Option<f64>>, second: i64) -> Value {
    json!({
        "type": "Feature", "id": id,
        "properties": {
            "mag": magnitude.into(), "place": "35 km ESE of Port Example", "time": (START + second) * 1_000, "ids": ids,
            "updated": null, "status": "automatic", "type": "earthquake", "tsunami": 0, "alert": null, "magType": "mww",
        },
        "geometry": { "type": "Point", "coordinates": [-68.3, 18.2, 194.6] },
    })
}

/// 2030-01-01T00:00:00Z in seconds.
const START: i64 = 1_893_456_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

fn document(second: i64, quakes: &[Value]) -> String {
    let metadata = json!({ "generated": (START + second) * 1_000, "status": 200 });
    json!({ "type": "FeatureCollection", "metadata": metadata, "features": quakes }).to_string()
}

/// A place with captures in the directory `polls`, each of a second.
fn polls(captures: &[(i64, Vec<Value>)]) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path("polls")).expect("a directory");
    for (number, (second, quakes)) in captures.iter().enumerate() {
        place.write(&format!("polls/poll_{number:02}.geojson"), &document(*second, quakes));
    }
    place
}

fn replay(place: &Place, flags: &[&str]) -> Value {
    place.run(&[&["replay", "--as-known", "polls", "--format", "json"][..], flags].concat()).json()
}

/// How many each limiter admitted, the same for all of them.
fn admitted(found: &Value) -> u64 {
    let all: Vec<_> = found["results"].as_array().expect("results").iter().map(|result| result["admitted"].as_u64()).collect();
    assert!(all.iter().all(|admitted| *admitted == all[0]), "{found}");
    all[0].expect("a number")
}

#[test]
fn a_quake_that_runs_through_three_ids_is_alerted_once() {
    let place = Place::new();
    std::fs::create_dir(place.path("polls")).expect("a directory");
    for name in ["renamed_1_pt", "renamed_2_us", "renamed_3_pr"] {
        let fixture = format!("{}/tests/feed/fixtures/{name}.geojson", env!("CARGO_MANIFEST_DIR"));
        std::fs::copy(fixture, place.path(&format!("polls/{name}.geojson"))).expect("a fixture");
    }
    let five = ["--min-magnitude", "5"];
    let all_known = replay(&place, &five);
    assert_eq!((&all_known["events"], admitted(&all_known)), (&2.into(), 0), "what the first capture shows is known");
    let found = replay(&place, &["--min-magnitude", "5", "--first-run", "alert"]);
    assert_eq!((&found["as_known"], &found["polls"], &found["events"]), (&true.into(), &3.into(), &2.into()));
    assert_eq!((&found["merged"], &found["late"], admitted(&found)), (&0.into(), &0.into(), 2), "the quake, and the other one");
    assert!(found["revised"].as_u64().is_some_and(|revised| revised >= 2), "{found}");
    place.write("polls/a_first.geojson", r#"{"type":"FeatureCollection","metadata":{"generated":1900000000000},"features":[]}"#);
    assert_eq!(admitted(&replay(&place, &five)), 2);
    insta::assert_snapshot!("as_known", place.run(&["replay", "--as-known", "polls", "--min-magnitude", "5"]).ok());
}

#[test]
fn the_quake_of_2025_08_05_is_alerted_once() {
    let captures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/polls/2025-08-05_geojson");
    if !captures.exists() {
        println!("skipped: there is no {}", captures.display());
        return;
    }
    let place = Place::new();
    let captures = captures.display().to_string();
    let found = place.run(&["replay", "--as-known", &captures, "--min-magnitude", "5", "--format", "json"]).json();
    assert_eq!((&found["polls"], &found["events"], admitted(&found)), (&36.into(), &1.into(), 1));
}

#[test]
fn events_come_when_they_first_match_however_late() {
    let place = polls(&[
        (0, vec![]),
        // Without a magnitude, then too small, then large enough; and one that is published after two hours.
        (10 * MINUTE, vec![quake("us1", ",us1,", None, 5 * MINUTE)]),
        (20 * MINUTE, vec![quake("us1", ",us1,", 4.92, 5 * MINUTE)]),
        (30 * MINUTE, vec![quake("us1", ",us1,", 5.07, 5 * MINUTE)]),
        (2 * HOUR + 5 * MINUTE, vec![quake("us2", ",us2,", 5.5, 5 * MINUTE)]),
        // Down, gone, and back: nothing new. Too old when first seen: nothing. The two are one after all: nothing.
        (3 * HOUR, vec![quake("us2", ",us2,", 4.7, 5 * MINUTE)]),
        (4 * HOUR, vec![]),
        (5 * HOUR, vec![quake("us2", ",us2,", 5.5, 5 * MINUTE), quake("us3", ",us3,", 6.0, -20 * HOUR)]),
        (6 * HOUR, vec![quake("us2", ",us1,us2,", 5.5, 5 * MINUTE)]),
    ]);
    let found = replay(&place, &["--min-magnitude", "5"]);
    assert_eq!(admitted(&found), 2);
    assert_eq!((&found["polls"], &found["late"], &found["merged"]), (&9.into(), &1.into(), &1.into()));
    assert_eq!(found["seen"], json!({ "first": "2030-01-01T00:00:00.000Z", "last": "2030-01-01T06:00:00.000Z" }));
    // An hour is the most that lies between origin and alert in a catalogue; here they come when they were seen.
    assert_eq!(found["results"][0]["busiest_window"], 1);
}

#[test]
fn stored_subscribers_get_what_the_daemon_would_have_sent() {
    let evening = 20 * HOUR;
    let quakes = |from: usize, to: usize| {
        (from..to)
            .map(|at| quake(&format!("us{at}"), "", 5.0 + f64::from(u8::try_from(at).expect("small")) / 10.0, evening))
            .collect::<Vec<_>>()
    };
    let place = polls(&[
        (0, vec![]),
        (evening + MINUTE, quakes(0, 3)),
        (evening + 3 * HOUR, quakes(0, 5)),
        (evening + 20 * HOUR, vec![]),
    ]);
    let common = ["--email", "a@example.org", "--limiter", "sliding-log", "--rate", "1/h"];
    for (name, flags) in [
        ("digest", &["--excess", "digest"][..]),
        ("delay", &["--excess", "delay"]),
        ("drop", &["--excess", "drop"]),
        ("night", &["--quiet", "21:00-05:00", "--quiet-below", "5.4"]),
        ("far", &["--near", "52,160", "--within-km", "100"]),
    ] {
        place.run(&[&["subscriber", "add", name][..], &common, flags].concat()).ok();
    }
    let before = place.run(&["ledger"]).ok();
    let found = replay(&place, &["--all-subscribers"]);
    let keys = ["offered", "admitted", "refused", "held", "digests", "digested", "delayed", "withheld"];
    let numbers: Vec<(&str, Vec<u64>)> = found["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|row| (row["subscriber"].as_str().expect("a name"), keys.map(|key| row[key].as_u64().expect(key)).to_vec()))
        .collect();
    assert_eq!(
        numbers,
        [
            // Of three at once the largest goes; the others are told an hour later, or one by one.
            ("delay", vec![5, 1, 4, 0, 0, 0, 4, 0]),
            ("digest", vec![5, 2, 3, 0, 2, 3, 0, 0]),
            ("drop", vec![5, 2, 3, 0, 0, 0, 0, 3]),
            ("far", vec![0; 8]),
            // The two of before nine are told in the morning with the one that came in the night; the large one is not held.
            ("night", vec![5, 2, 2, 1, 1, 3, 0, 0]),
        ],
        "{keys:?}"
    );
    assert_eq!(place.run(&["ledger"]).ok(), before, "the stored database is left alone");
    assert!(place.run(&["replay", "--as-known", "polls", "--subscriber", "night"]).ok().contains("\nnight "));
}

#[test]
fn csv_captures_are_read_by_the_names_of_their_columns_and_seen_when_their_own_name_says() {
    let place = Place::new();
    std::fs::create_dir(place.path("polls")).expect("a directory");
    let header = "id,type,mag,place,time,latitude,longitude\n";
    let row = |id: &str, mag: &str| format!("{id},earthquake,{mag},\"1 km S of X, Y\",2030-01-01T00:00:00Z,1,2\n");
    place.write("polls/b_20300101T001000Z.csv", header);
    place.write("polls/c_2030-01-01T00-20-00Z.csv", &format!("{header}{}", row("us1", "4.9")));
    // Seen last, although its name comes first; with a row that is none, and without a line feed at the end.
    let last = format!("{header}{}{}us3,earthquake", row("us1", "5.0"), row("us2", "5.0"));
    place.write("polls/a_20300101T003000Z.csv", &last);
    let ran = place.run(&["replay", "--as-known", "polls", "--min-magnitude", "5", "--format", "json"]);
    let notes: Vec<&str> = ran.err.lines().collect();
    assert_eq!(
        notes,
        [
            "note: the captures are taken in the order in which they were seen, which is not that of their names",
            "note: 1 row or feature is not well formed and left out, the first:",
            "  polls/a_20300101T003000Z.csv, line 4: the row has 2 fields; expected 7, as in the first row",
        ]
    );
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&found["polls"], &found["events"], admitted(&found)), (&3.into(), &2.into(), 2));
}

#[test]
fn what_is_no_capture_is_named_and_can_be_left_out() {
    let place = polls(&[(0, vec![]), (MINUTE, vec![quake("us1", ",us1,", 5.5, 0)])]);
    let good = replay(&place, &[]);
    let whole = document(2 * MINUTE, &[quake("us2", ",us2,", 5.5, 0)]);
    for (file, text, expected) in [
        (
            "x.geojson",
            &whole[..whole.len() - 9],
            "polls/x.geojson: cannot read the feed: expected GeoJSON, got JSON that is broken",
        ),
        (
            "x.geojson",
            r#"{"features":[]}"#,
            "polls/x.geojson: when was it seen? Expected GeoJSON with metadata.generated, or a time",
        ),
        ("x.csv", "time,id,mag\n", "polls/x.csv: when was it seen?"),
        ("20300101T001000Z.csv", "time,mag\n", "polls/20300101T001000Z.csv, line 1: there is no column id"),
        ("20300101T001000Z.html", "<html>503</html>", "polls/20300101T001000Z.html is not a catalogue: it is an HTML page"),
        ("20300101T001000Z.txt", "hello\n", "polls/20300101T001000Z.txt, line 1: there is no column time"),
        ("20300101T001000Z.geojson", " \n", "polls/20300101T001000Z.geojson: it is empty: expected GeoJSON or CSV"),
    ] {
        place.write(&format!("polls/{file}"), text);
        let ran = place.run(&["replay", "--as-known", "polls"]);
        assert_eq!((ran.status, ran.out.as_str()), (Some(3), ""), "{file}");
        assert!(ran.err.starts_with(&format!("throttler: {expected}")), "{file}: {}", ran.err);
        let ran = place.run(&["replay", "--as-known", "polls", "--skip-bad-rows", "--format", "json"]);
        assert!(ran.err.starts_with("note: 1 capture is not readable and left out, the first:\n  polls/"), "{}", ran.err);
        assert_eq!(serde_json::from_str::<Value>(&ran.out).expect("JSON"), good, "{file}");
        std::fs::remove_file(place.path("polls").join(file)).expect("removed");
    }
    std::fs::create_dir(place.path("empty")).expect("a directory");
    place.write("empty/.hidden", "x");
    for (args, status, expected) in [
        (&["replay", "--as-known", "empty"][..], 3, "empty: there are no captures; expected files of GeoJSON or CSV"),
        (&["replay", "--as-known", "none"], 1, "cannot read the capture none"),
        (&["replay", "polls", "--first-run", "alert"], 2, "--as-known"),
        (&["replay", "--as-known", "polls", "--first-run", "maybe"], 2, "baseline, alert"),
        (&["replay", "--as-known", "polls", "--plot", "x.svg"], 2, "cannot be used with"),
    ] {
        let ran = place.run(args);
        assert_eq!((ran.status, ran.out.as_str()), (Some(status), ""), "{args:?}");
        assert!(ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_replay_of_the_final_catalogue_says_so() {
    let (place, catalogue) = (Place::new(), catalogue());
    let found = place.run(&["replay", &catalogue, "--format", "json"]).json();
    let what = "the final catalogue: each event at its origin time with its last magnitude";
    assert_eq!((&found["as_known"], &found["catalogue"]), (&false.into(), &what.into()));
    assert!(place.run(&["replay", &catalogue]).ok().lines().next().is_some_and(|head| head.contains(what)));
}
