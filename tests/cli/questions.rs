//! The questions around the smallest bucket: curve, accepted loss, smallest rate, other logs, recommendation, and replays
//! for stored subscribers.

use serde_json::Value;

use crate::place::{Place, catalogue};

fn list<'v>(value: &'v Value, key: &str) -> &'v Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("a list of {key} in {value}"))
}

#[test]
fn the_curve_is_exact_convex_and_drawn() {
    let (place, catalogue) = (Place::new(), catalogue());
    let args = ["min-bucket", &catalogue, "--curve", "1..38/h", "--plot", "curve.svg", "--format", "json"];
    let curve = &place.run(&args).json()["curve"];
    let at = |limit: u64| {
        let mut rates = list(curve, "whole_rates").iter();
        rates.find(|rate| rate["limit"] == limit).map(|rate| rate["bucket"].clone())
    };
    for (limit, bucket) in [(1, 157), (2, 120), (3, 95), (5, 74), (7, 62), (10, 49), (20, 26), (38, 6)] {
        assert_eq!(at(limit), Some(bucket.into()), "{limit}/h");
    }
    let corners: Vec<(f64, f64)> = list(curve, "corners")
        .iter()
        .map(|corner| (corner["per_window"].as_f64().expect("a rate"), corner["level"].as_f64().expect("a level")))
        .collect();
    let slopes: Vec<f64> = corners.windows(2).map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0)).collect();
    assert!(corners.len() > 10 && slopes.is_sorted() && slopes.iter().all(|slope| *slope < 0.0), "{corners:?}");
    let picture = std::fs::read_to_string(place.path("curve.svg")).expect("the picture");
    assert!(picture.starts_with("<svg") && picture.contains("rate (events per hour)"), "{}", &picture[..200]);
}

#[test]
fn a_loss_that_is_accepted_and_a_bucket_that_is_given() {
    let (place, catalogue) = (Place::new(), catalogue());
    let found = place.run(&["min-bucket", &catalogue, "--lose", "197", "--bucket", "74", "--format", "json"]).json();
    let lose = &list(&found, "lose")[0];
    assert_eq!((&lose["accepted"], &lose["bucket"], &lose["lost"]), (&197.into(), &5.into(), &197.into()));
    let smallest = &found["smallest_rate"];
    // 74 tokens and 105 events in 22,339.203 s: 31 of them must come in that time.
    assert_eq!((&smallest["bucket"], &smallest["rate"]), (&74.into(), &"31/22339203ms".into()));
    let text = place.run(&["min-bucket", &catalogue, "--lose", "0.1%", "--bucket", "50"]).ok();
    assert!(text.contains("To lose at most 18 of them at 5/h, a bucket of 56 is enough: it loses 18.\n"), "{text}");
    assert!(text.contains("A bucket of 50 loses nothing from 9.6413 an hour on (exactly 39/14562317ms)"), "{text}");
}

#[test]
fn any_log_of_times_is_asked_the_same() {
    let place = Place::new();
    // Three at once, then one a second: a bucket of 3 at one a second.
    place.write("access.csv", "1700000000000,a\n1700000000000,b\n1700000000000,c\n1700000001000,d\n1700000002000,e\n");
    let args = ["min-bucket", "access.csv", "--time-column", "1", "--time-format", "epoch-ms", "--rate", "1/s"];
    assert!(place.run(&args).ok().starts_with("A bucket of 3 loses none of 5 events at 1/s.\n"));
    place.write("named.csv", "who,when\na,1700000000.25\nb,1700000000.5\n");
    let args = ["min-bucket", "named.csv", "--time-column", "when", "--time-format", "epoch-s", "--format", "json"];
    let found = place.run(&args).json();
    assert_eq!((&found["events"], &found["first"]), (&2.into(), &"2023-11-14T22:13:20.250Z".into()));
    // The order is of no account, and several files are one log.
    place.write("one.csv", "time\n2025-01-01T00:00:03Z\n2025-01-01T00:00:01Z\n2025-01-01T00:00:02Z\n");
    place.write("two.csv", "time\n2025-01-01T00:00:00Z\n");
    let ran = place.run(&["min-bucket", "one.csv", "two.csv", "--format", "json"]);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.starts_with("note: one.csv is neither oldest first nor newest first"), "{}", ran.err);
    let found: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&found["events"], &found["results"][0]["bucket"]), (&4.into(), &4.into()));
    place.write("bad.csv", "time\nyesterday\n2025-01-01T00:00:00Z\n");
    let ran = place.run(&["min-bucket", "bad.csv", "--skip-bad-rows"]);
    assert!(ran.out.starts_with("A bucket of 1 loses none of 1 events"), "{}", ran.out);
    assert!(ran.err.starts_with("note: 1 row is not well formed") && ran.err.contains("bad.csv, line 2"), "{}", ran.err);
}

#[test]
fn one_thread_and_many_say_the_same() {
    let (place, catalogue) = (Place::new(), catalogue());
    let of = |threads| place.run(&["min-bucket", &catalogue, "--threads", threads, "--format", "json"]).ok();
    assert_eq!(of("1"), of("4"));
}

#[test]
fn a_recommendation_offers_choices_as_commands() {
    let (place, catalogue) = (Place::new(), catalogue());
    insta::assert_snapshot!("recommend", place.run(&["recommend", &catalogue]).ok());
    let found = place.run(&["recommend", &catalogue, "--per", "1d", "--min-magnitude", "6", "--format", "json"]).json();
    assert_eq!(found["window_s"], 86_400);
    for choice in list(&found, "results") {
        let command = choice["command"].as_str().expect("a command");
        // The command is one that the program takes.
        let place = Place::new();
        place.run(&["subscriber", "add", "NAME", "--email", "anna@example.org"]).ok();
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let said = place.run(&words).ok();
        assert!(said.starts_with("Changed NAME"), "{said}");
    }
    place.write("empty.csv", "time,mag\n");
    assert_eq!(place.run(&["recommend", "empty.csv"]).ok(), "No event matches, so there is nothing to learn from.\n");
}

#[test]
fn stored_subscribers_are_replayed_with_all_their_settings() {
    let (place, catalogue) = (Place::new(), catalogue());
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    place.run(&["subscriber", "add", "ben", "--email", "ben@example.org", "--bucket", "5", "--excess", "drop"]).ok();
    place
        .run(&["subscriber", "add", "cleo", "--email", "cleo@example.org", "--limiter", "sliding-log", "--min-magnitude", "6"])
        .ok();
    let night = ["--quiet", "22:00-07:00", "--zone", "Asia/Kamchatka", "--quiet-below", "6"];
    place.run(&[&["subscriber", "add", "dora", "--email", "dora@example.org"][..], &night].concat()).ok();
    let found = place.run(&["replay", &catalogue, "--all-subscribers", "--format", "json"]).json();
    let results = list(&found, "results");
    let names: Vec<_> = results.iter().map(|result| result["subscriber"].as_str().expect("a name")).collect();
    assert_eq!(names, ["anna", "ben", "cleo", "dora"]);
    assert_eq!((&results[0]["offered"], &results[0]["refused"]), (&18_738.into(), &0.into()));
    assert_eq!((&results[1]["refused"], &results[1]["withheld"], &results[1]["digests"]), (&197.into(), &197.into(), &0.into()));
    assert_eq!(results[1]["worst_days"][0]["day"], "2025-07-30");
    assert!(results[2]["busiest_window"].as_u64().is_some_and(|most| most <= 5), "{}", results[2]);
    let number = |key: &str| results[3][key].as_u64().expect(key);
    assert_eq!(number("offered"), number("admitted") + number("refused") + number("held"));
    // As another program with another copy of the time zones counts them: so many events in so many nights.
    assert_eq!((number("held"), number("digested"), number("digests")), (6298, 6298, 2942));
    assert_eq!(results[0]["held"], 0);
    let one = place.run(&["replay", &catalogue, "--subscriber", "ben", "--format", "json"]).json();
    assert_eq!(list(&one, "results"), &results[1..2]);
    assert!(place.run(&["replay", &catalogue, "--subscriber", "ben"]).ok().contains("\nben "));
}
