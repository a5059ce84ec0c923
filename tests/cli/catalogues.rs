//! `min-bucket` and `replay` on the shipped catalogue: the numbers and the keys of the contract.

use serde_json::Value;

use crate::place::{Place, catalogue};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

const TWO_DAYS: [&str; 8] = ["--from", "2025-07-29T12:00:00Z", "--to", "2025-07-31T12:00:00Z", "--rate", "5/h", "--bucket", "5"];

#[test]
fn min_bucket_says_74_with_its_critical_run() {
    let (place, catalogue) = (Place::new(), catalogue());
    insta::assert_snapshot!("min-bucket", place.run(&["min-bucket", &catalogue]).ok());
    let found = place.run(&["min-bucket", &catalogue, "--format", "json"]).json();
    assert_eq!(keys(&found), ["events", "first", "last", "results"]);
    assert_eq!(found["events"], 18_738);
    let result = &found["results"][0];
    assert_eq!(keys(result), ["rate", "limit", "window_s", "bucket", "level", "busiest_window", "critical_run"]);
    assert_eq!((&result["rate"], &result["limit"], &result["window_s"]), (&"5/h".into(), &5.into(), &3_600.into()));
    assert_eq!((&result["bucket"], &result["busiest_window"]), (&74.into(), &38.into()));
    assert!((result["level"].as_f64().expect("a number") - 73.973_329).abs() < 1e-6, "{result}");
    let run = &result["critical_run"];
    assert_eq!(keys(run), ["events", "first", "last", "duration_s"]);
    assert_eq!(run["events"], 105);
    assert_eq!((&run["first"], &run["last"]), (&"2025-07-29T23:24:52.483Z".into(), &"2025-07-30T05:37:11.686Z".into()));
    assert_eq!(run["duration_s"], 22_339.203);
}

#[test]
fn min_bucket_takes_many_rates_standard_input_and_filters() {
    let (place, catalogue) = (Place::new(), catalogue());
    let rates = ["1/h", "2/h", "3/h", "5/h", "7/h", "10/h", "20/h", "38/h"];
    let mut args = vec!["min-bucket", &catalogue, "--format", "json"];
    args.extend(rates.iter().flat_map(|rate| ["--rate", rate]));
    let found = place.run(&args).json();
    let buckets: Vec<_> = found["results"].as_array().expect("results").iter().map(|result| result["bucket"].as_u64()).collect();
    assert_eq!(buckets, [157, 120, 95, 74, 62, 49, 26, 6].map(Some));
    let text = std::fs::read_to_string(&catalogue).expect("the catalogue");
    let piped = place.run_with(&["min-bucket", "-"], &text).ok();
    assert!(piped.starts_with("A bucket of 74 loses none of 18,738 events at 5/h.\n"), "{piped}");
    let large = place.run(&[
        "min-bucket",
        &catalogue,
        "--min-magnitude",
        "7",
        "--from",
        "2020-01-01",
        "--to",
        "2021-01-01",
        "--format",
        "json",
    ]);
    let large = large.json();
    assert!(large["events"].as_u64().is_some_and(|events| (5..20).contains(&events)), "{large}");
    assert!(large["first"].as_str().is_some_and(|first| first.starts_with("2020-")), "{large}");
    place.write("empty.csv", "");
    let none = place.run(&["min-bucket", "empty.csv", "--format", "json"]).json();
    assert_eq!((&none["events"], &none["results"][0]["bucket"]), (&0.into(), &0.into()));
    assert!(none["first"].is_null() && none["results"][0]["critical_run"].is_null());
}

#[test]
fn replay_gives_the_table_of_the_two_days_of_the_great_quake() {
    let (place, catalogue) = (Place::new(), catalogue());
    let mut args = vec!["replay", catalogue.as_str()];
    args.extend(TWO_DAYS);
    insta::assert_snapshot!("replay", place.run(&args).ok());
    args.extend(["--format", "json"]);
    let found = place.run(&args).json();
    assert_eq!(keys(&found)[..4], ["events", "first", "last", "rate"]);
    assert_eq!((&found["events"], &found["rate"]), (&189.into(), &"5/h".into()));
    let results = found["results"].as_array().expect("results");
    let table: Vec<_> = results
        .iter()
        .map(|row| {
            for key in
                ["limiter", "bucket", "admitted", "refused", "busiest_window", "promise", "most_in_any_window", "largest_refused"]
            {
                assert!(row.get(key).is_some(), "{key}: {row}");
            }
            let number = |key: &str| row[key].as_u64().expect(key);
            assert_eq!((number("admitted") + number("refused"), number("offered")), (189, 189));
            // The first two events; the first limiter's days were counted by hand.
            let silence = &row["longest_silence"];
            let ends = ("2025-07-29T12:04:25.042Z", "2025-07-29T16:11:34.441Z");
            assert_eq!((silence["from"].as_str(), silence["to"].as_str()), (Some(ends.0), Some(ends.1)));
            let days = row["worst_days"].as_array().expect("days");
            assert_eq!(days.iter().filter_map(|day| day["refused"].as_u64()).sum::<u64>(), number("refused"), "{row}");
            assert_eq!(keys(&row["largest_refused"]), ["id", "magnitude", "time"]);
            (row["limiter"].as_str().expect("a name"), row["bucket"].as_u64(), number("admitted"), number("busiest_window"))
        })
        .collect();
    let days = serde_json::json!([{ "day": "2025-07-30", "refused": 55 }, { "day": "2025-07-29", "refused": 20 }]);
    assert_eq!(results[0]["worst_days"], days);
    assert_eq!(
        table,
        [
            ("fixed-window", None, 114, 9),
            ("sliding-log", None, 107, 5),
            ("sliding-counter", None, 111, 7),
            ("token-bucket", Some(5), 120, 9),
            ("leaky-bucket", Some(5), 120, 5),
        ]
    );
    let leaky = &results[4];
    let wait = leaky["longest_wait_s"].as_f64().expect("seconds");
    assert_eq!((&leaky["delayed"], wait.trunc().to_string().as_str()), (&87.into(), "2871"));
    assert!(results[..4].iter().all(|row| row.get("delayed").is_none()));

    let mut fits = vec!["replay", catalogue.as_str()];
    fits.extend(TWO_DAYS);
    fits.extend(["--limiter", "sliding-counter", "--counter-rule", "fits", "--format", "json"]);
    let fits = place.run(&fits).json();
    assert_eq!(fits["results"].as_array().expect("results").len(), 1);
    assert_eq!((&fits["results"][0]["admitted"], &fits["results"][0]["busiest_window"]), (&99.into(), &6.into()));
}

#[test]
fn replay_of_all_eleven_years_takes_the_n_of_the_rate_for_a_bucket() {
    let (place, catalogue) = (Place::new(), catalogue());
    let found = place.run(&["replay", &catalogue, "--rate", "5/h", "--format", "json"]).json();
    let refused: Vec<_> = found["results"].as_array().expect("results").iter().map(|row| row["refused"].as_u64()).collect();
    assert_eq!(refused, [276, 370, 302, 197, 197].map(Some));
    let enough = place.run(&["replay", &catalogue, "--bucket", "74", "--limiter", "token-bucket", "--format", "json"]).json();
    assert_eq!((&enough["results"][0]["refused"], &enough["results"][0]["largest_refused"]), (&0.into(), &Value::Null));
}

#[test]
fn the_reference_catalogues_say_the_same() {
    let shared = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let reference = shared.join("reference_2015_2025_all_types.csv");
    if !reference.exists() {
        println!("skipped: there is no {}", reference.display());
        return;
    }
    let found = Place::new().run(&["min-bucket", &reference.display().to_string(), "--format", "json"]).json();
    assert_eq!((&found["events"], &found["results"][0]["bucket"]), (&19_045.into(), &74.into()));
}
