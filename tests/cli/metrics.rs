//! `/metrics` after the real pipeline has run: strictly in the text format, named by the conventions, and equal to the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::daemon::{Daemon, log, number, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};
use crate::receiver::Receiver;

/// A sample's labels, sorted.
type Labels = BTreeMap<String, String>;

/// What is exposed under one name.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    /// With the sample's full name, and its value as it stands there.
    samples: Vec<(String, Labels, String)>,
}

/// Reads the text format 0.0.4 and accepts nothing else.
fn parse(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut helped = BTreeSet::new();
    let (mut current, mut seen) = (String::new(), BTreeSet::new());
    assert!(text.ends_with('\n'), "the last line ends too");
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a name and words");
            assert!(words.ends_with('.') && helped.insert(name.to_owned()), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a type");
            assert!(["counter", "gauge", "histogram"].contains(&kind) && helped.contains(name), "{line}");
            let is_new = families.insert(name.to_owned(), Family { kind: kind.to_owned(), samples: Vec::new() }).is_none();
            assert!(is_new, "in one piece: {line}");
            name.clone_into(&mut current);
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, parse_labels(labels.strip_suffix('}').expect(line))),
                None => (series, Labels::new()),
            };
            let family = families.get_mut(&current).expect("a type before any sample");
            let end = name.strip_prefix(current.as_str()).expect(line);
            let is_good = end.is_empty() != (family.kind == "histogram") && ["", "_bucket", "_sum", "_count"].contains(&end);
            assert!(is_good && seen.insert(series.to_owned()), "{line}");
            family.samples.push((name.to_owned(), labels, value.to_owned()));
        }
    }
    families
}

fn parse_labels(text: &str) -> Labels {
    let pairs = text.split("\",").map(|pair| pair.trim_end_matches('"').split_once("=\"").expect(text));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Names and units by the conventions; histograms that add up.
fn check(name: &str, family: &Family) {
    let is_snake = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    assert!(name.starts_with("throttler_") && is_snake(name), "{name}");
    assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name}");
    assert!(!name.contains("_ms") && !name.contains("milli") && !name.contains("minutes"), "base units: {name}");
    assert!(!family.samples.is_empty(), "{name}");
    for (_, labels, value) in &family.samples {
        assert!(labels.keys().all(|label| is_snake(label)), "{name}: {labels:?}");
        assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{name}: {value}");
    }
    if family.kind == "histogram" {
        assert!(name.ends_with("_seconds"), "{name}");
        check_histogram(name, family);
    }
}

fn check_histogram(name: &str, family: &Family) {
    let mut series: BTreeMap<Labels, Vec<(f64, u64)>> = BTreeMap::new();
    for (sample, labels, value) in family.samples.iter().filter(|(sample, ..)| sample.ends_with("_bucket")) {
        let mut labels = labels.clone();
        let bound = labels.remove("le").expect(sample).parse().expect("a bound");
        series.entry(labels).or_default().push((bound, value.parse().expect("a count")));
    }
    for (labels, buckets) in series {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}: bounds rise, counts are cumulative: {buckets:?}");
        let (last, all) = *buckets.last().expect("buckets");
        assert!(last.is_infinite() && count(family, "_count", &labels) == all, "{name}: {labels:?}");
        assert!(family.samples.iter().any(|(sample, of, _)| sample.ends_with("_sum") && *of == labels), "{name}: {labels:?}");
    }
}

/// The whole number of the one sample with this end of its name and these labels.
fn count(family: &Family, end: &str, labels: &Labels) -> u64 {
    let found: Vec<&String> =
        family.samples.iter().filter(|(name, of, _)| name.ends_with(end) && of == labels).map(|(.., value)| value).collect();
    let [value] = found[..] else { panic!("{end} {labels:?}: {found:?}") };
    value.parse().expect("a count")
}

/// The sum of all samples.
fn sum(family: &Family) -> u64 {
    family.samples.iter().map(|(.., value)| value.parse::<u64>().expect("a count")).sum()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn scrape(place: &Place) -> BTreeMap<String, Family> {
    let log = log(place);
    let (_, address) = log.rsplit_once("answers on http://").expect("it listens");
    let mut stream = TcpStream::connect(address.lines().next().expect("an address").trim()).expect("it listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/plain; version=0.0.4"), "{head}");
    parse(body)
}

/// Counts the ledger's decisions by outcome and limiter.
fn ledger(place: &Place, limiters: &BTreeMap<&str, &str>) -> BTreeMap<Labels, u64> {
    let mut counts = BTreeMap::new();
    for row in place.run(&["ledger", "--format", "json"]).json()["decisions"].as_array().expect("decisions") {
        let word = |key: &str| row[key].as_str().expect(key).to_owned();
        let limiter = limiters[word("subscriber").as_str()];
        *counts.entry(labels(&[("outcome", &word("outcome")), ("limiter", limiter)])).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exposed_is_strict_and_equals_the_ledger() {
    let (place, receiver) = (place(), Receiver::start().await);
    let before = std::fs::read_to_string(place.path("throttler.toml")).expect("the configuration");
    place.write("throttler.toml", &format!("{before}[web]\nlisten = \"127.0.0.1:0\"\n"));
    let limiters: BTreeMap<&str, &str> =
        [("anna", "sliding-log"), ("ben", "token-bucket"), ("gone", "leaky-bucket"), ("busy", "fixed-window")].into();
    receiver.answer("/gone", 410);
    receiver.answer("/busy", 429);
    for (name, limiter) in &limiters {
        let hook = format!("http://127.0.0.1:{}/{name}", receiver.port);
        let to = if *name == "anna" { ["--email", "anna@example.org"] } else { ["--webhook", &hook] };
        let limit = ["--limiter", limiter, "--rate", "2/h", "--excess", "drop"];
        let bucket: &[&str] = if limiter.ends_with("bucket") { &["--bucket", "1"] } else { &[] };
        place.run(&[&["subscriber", "add", name][..], &to, &limit, bucket].concat()).ok();
    }
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    let mut quakes = [quake("us1", 6.4), quake("us2", 5.4), quake("us3", 5.2)];
    place.feed(&quakes);
    wait_for("all is decided", || number(&place, "SELECT count(*) FROM decisions").filter(|count| *count >= 10));
    wait_for("all is attempted", || {
        number(&place, "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE attempts = 0 OR status = 'leased')")
    });
    quakes[1]["properties"]["mag"] = 5.9.into();
    quakes[1]["properties"]["updated"] = (quakes[1]["properties"]["updated"].as_i64().expect("a time") + 1).into();
    place.feed(&quakes);
    wait_for("the update is decided", || number(&place, "SELECT count(*) FROM updates").filter(|count| *count > 0));
    place.write("feed.geojson", "<html>");
    wait_for("a failed poll", || log(&place).contains("an HTML page").then_some(()));

    // Between two moments at which nothing is under way and as much was attempted, nothing was.
    let settled = || number(&place, "SELECT sum(attempts) FROM outbox HAVING sum(status = 'leased') = 0");
    let (found, attempts) = wait_for("a moment without attempts", || {
        let (before, found) = (settled()?, scrape(&place));
        (settled()? == before).then_some((found, before.unsigned_abs()))
    });
    for (name, family) in &found {
        check(name, family);
    }
    let one = |family: &str, pairs: &[(&str, &str)]| count(&found[family], "", &labels(pairs));

    let expected = ledger(&place, &limiters);
    for (_, labels, value) in &found["throttler_decisions_total"].samples {
        assert_eq!(value.parse(), Ok(expected.get(labels).copied().unwrap_or(0)), "{labels:?}");
    }
    assert_eq!(found["throttler_decisions_total"].samples.len(), 7 * 6, "every combination, also those of nothing");
    assert!(
        expected.values().sum::<u64>() >= 10 && expected.keys().any(|labels| labels["outcome"] == "withheld"),
        "{expected:?}"
    );
    let chunks = count(&found["throttler_decision_duration_seconds"], "_count", &Labels::new());
    assert_eq!(chunks, 3 + one("throttler_events_total", &[("change", "revised")]), "an event a chunk, each time");

    let rows = |what: &str| number(&place, &format!("SELECT {what} FROM outbox")).expect("a number").unsigned_abs();
    assert_eq!(sum(&found["throttler_attempts_total"]), attempts);
    for (channel, is) in [("email", "="), ("webhook", "<>")] {
        let of = |result| one("throttler_attempts_total", &[("channel", channel), ("result", result)]);
        assert_eq!(of("delivered"), rows(&format!("sum(status = 'delivered' AND channel {is} 'email')")), "{channel}");
        let attempts: u64 = ["delivered", "transient", "permanent"].map(of).iter().sum();
        let labels = labels(&[("channel", channel)]);
        assert_eq!(count(&found["throttler_attempt_duration_seconds"], "_count", &labels), attempts, "{channel}");
        // Updates have no latency.
        let alerts = format!("sum(status = 'delivered' AND channel {is} 'email' AND content_key IS NOT NULL)");
        assert_eq!(count(&found["throttler_alert_latency_seconds"], "_count", &labels), rows(&alerts), "{channel}");
    }
    assert_eq!(one("throttler_attempts_total", &[("channel", "webhook"), ("result", "permanent")]), rows("sum(status = 'dead')"));
    assert!(one("throttler_attempts_total", &[("channel", "webhook"), ("result", "transient")]) > 0);
    assert_eq!(one("throttler_leases_lost_total", &[]), 0);
    let updates = number(&place, "SELECT count(*) FROM updates").expect("a number").unsigned_abs();
    assert_eq!(sum(&found["throttler_updates_total"]), updates);

    for (change, times) in [("new", 3), ("revised", 1), ("merged", 0), ("withdrawn", 0)] {
        assert_eq!(one("throttler_events_total", &[("change", change)]), times, "{change}");
    }
    // It fails again if the looking takes so long.
    assert!(one("throttler_polls_total", &[("result", "failed")]) > 0);
    let polls = count(&found["throttler_poll_duration_seconds"], "_count", &Labels::new());
    assert_eq!(polls, sum(&found["throttler_polls_total"]));
    assert_eq!((one("throttler_events_known", &[]), one("throttler_database_up", &[])), (3, 1));

    // No name of a subscriber, a host or an event is a label.
    for (_, labels, _) in found.values().flat_map(|family| &family.samples) {
        for value in labels.values() {
            assert!(!["anna", "ben", "gone", "busy", "127.0.0.1", "us1"].iter().any(|word| value.contains(word)), "{labels:?}");
        }
    }
    assert_eq!(daemon.stop().code(), Some(0));
}
