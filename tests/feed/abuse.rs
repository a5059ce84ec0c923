//! Bytes made to hurt: the poll fails or the feature is left out, the others stand, and memory stays bounded.

use std::process::Command;

use throttler::feed::{FeedError, Snapshot, parse};

/// A good feature with this id.
fn good(id: &str) -> String {
    feature(&format!("\"{id}\""), "\"mag\":5", "[1,2,3]")
}

fn feature(id: &str, properties: &str, coordinates: &str) -> String {
    format!(
        r#"{{"type":"Feature","id":{id},"properties":{{"time":1900000000000,{properties}}},"geometry":{{"type":"Point","coordinates":{coordinates}}}}}"#
    )
}

fn feed(members: &str, features: &[String]) -> String {
    format!(r#"{{"type":"FeatureCollection",{members}"features":[{}]}}"#, features.join(","))
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn nested_objects(depth: usize) -> String {
    "{\"a\":".repeat(depth) + "1" + &"}".repeat(depth)
}

/// A feed of one feature between two good ones: what is read of it, or why it was left out.
fn between(middle: &str) -> Result<String, String> {
    let snapshot = parse(feed("", &[good("us1"), middle.to_owned(), good("us2")]).as_bytes()).expect("a feed");
    let kept: Vec<&str> =
        snapshot.events.iter().map(|event| event.id.as_str()).filter(|id| !["us1", "us2"].contains(id)).collect();
    assert!(snapshot.events.len() - kept.len() == 2, "the good ones stand");
    for rejection in &snapshot.rejected {
        assert!(rejection.reason.chars().count() <= 300 && !rejection.reason.contains('\n'), "{}", rejection.reason);
    }
    match snapshot.rejected.first() {
        Some(rejection) => Err(rejection.reason.clone()),
        None => Ok(kept.concat()),
    }
}

#[test]
fn deep_nesting_is_read_past_or_refused() {
    for deep in [nested(100_000), nested_objects(100_000)] {
        assert_eq!(between(&feature("\"us3\"", &format!("\"felt\":{deep}"), "[1,2,3]")).as_deref(), Ok("us3"));
        assert_eq!(between(&feature("\"us3\"", &format!("\"place\":{deep}"), "[1,2,3]")).as_deref(), Ok("us3"));
        let told = between(&feature("\"us3\"", &format!("\"mag\":{deep}"), "[1,2,3]")).expect_err("no magnitude");
        assert!(told.contains("expected null or a number"), "{told}");
        let told = between(&feature(&deep, "\"mag\":5", "[1,2,3]")).expect_err("no id");
        assert!(told.contains("expected text"), "{told}");
        let told = between(&feature("\"us3\"", "\"mag\":5", &deep)).expect_err("no place");
        assert!(told.contains("expected longitude, latitude and depth"), "{told}");
        let snapshot = parse(feed(&format!("\"metadata\":{deep},\"bbox\":{deep},"), &[good("us1")]).as_bytes()).expect("a feed");
        assert_eq!((snapshot.generated_at, snapshot.events.len()), (None, 1));
        let told = parse(feed("", &[]).replace("[]", &deep).as_bytes());
        assert!(matches!(&told, Ok(Snapshot { events, .. }) if events.is_empty()) || matches!(told, Err(FeedError::Json { .. })));
        assert!(parse(deep.as_bytes()).is_err());
    }
    assert!(parse("[".repeat(1_000_000).as_bytes()).is_err());
    assert!(matches!(parse("{\"a\":".repeat(1_000_000).as_bytes()), Err(FeedError::Json { .. })));
}

#[test]
fn numbers_beyond_what_they_can_be_spoil_their_feature_alone() {
    let digits = "9".repeat(1_000_000);
    for number in ["1e999", "-1e999", "1e99999999999999999999", digits.as_str(), "123456789012345678901234567890"] {
        for properties in [format!("\"mag\":{number}"), format!("\"mag\":5,\"time\":{number}")] {
            between(&feature("\"us3\"", &properties, "[1,2,3]")).expect_err("a number");
        }
        between(&feature("\"us3\"", "\"mag\":5", &format!("[1,{number},3]"))).expect_err("no latitude");
    }
    // Small ones are zero, and an origin within the range of times is one.
    assert_eq!(between(&feature("\"us3\"", "\"mag\":1e-999", "[1,2,3]")).as_deref(), Ok("us3"));
    let updated = between(&feature("\"us3\"", "\"mag\":5,\"updated\":123456789012345678901234567890", "[1,2,3]"));
    assert_eq!(updated.as_deref(), Ok("us3"), "what does not make the event is dropped alone");
}

#[test]
fn what_is_no_json_fails_the_poll() {
    for number in ["NaN", "Infinity", "-Infinity", "0x10", "01", "1.", ".5", "+1", "5,", "'5'"] {
        let told = parse(feed("", &[good("us1"), feature("\"us3\"", &format!("\"mag\":{number}"), "[1,2,3]")]).as_bytes());
        assert!(matches!(told, Err(FeedError::Json { .. })), "{number}: {told:?}");
    }
}

#[test]
fn a_key_that_stands_twice_is_not_believed() {
    for twice in ["\"mag\":5,\"mag\":9", "\"mag\":5,\"time\":1900000000001", "\"mag\":5,\"ids\":\",a,\",\"ids\":\",b,\""] {
        let told = between(&feature("\"us3\"", twice, "[1,2,3]")).expect_err(twice);
        assert!(told.contains("duplicate field"), "{told}");
    }
    let twice = feed("\"features\":[],", &[good("us1")]);
    assert!(matches!(parse(twice.as_bytes()), Err(FeedError::Json { .. })));
    // What nobody looks at may stand there as often as it likes.
    assert_eq!(between(&feature("\"us3\"", "\"mag\":5,\"felt\":1,\"felt\":2", "[1,2,3]")).as_deref(), Ok("us3"));
}

/// More ids than a feature may have, and megabytes of them.
fn many_ids() -> String {
    (0..200_000).map(|n| n.to_string() + ",").collect()
}

#[test]
fn megabytes_of_text_are_cut_or_refused() {
    let long = "ä".repeat(2_000_000);
    for member in ["place", "magType", "status", "type", "alert", "url"] {
        let text = feed("", &[feature("\"us3\"", &format!("\"mag\":5,\"{member}\":\"{long}\""), "[1,2,3]")]);
        let event = parse(text.as_bytes()).expect("a feed").events.remove(0);
        assert!(serde_json::to_string(&event).expect("JSON").len() < 2_000, "{member}");
    }
    for (id, properties) in [
        (format!("\"{long}\""), "\"mag\":5".to_owned()),
        ("\"us3\"".to_owned(), format!("\"mag\":\"{long}\"")),
        ("\"us3\"".to_owned(), format!("\"mag\":5,\"ids\":\"{}\"", many_ids())),
        ("\"us3\"".to_owned(), format!("\"mag\":5,\"time\":\"{long}\"")),
    ] {
        between(&feature(&id, &properties, "[1,2,3]")).expect_err("refused");
    }
    let told = parse(long.as_bytes()).expect_err("no feed").to_string();
    assert!(told.chars().count() < 300, "{told}");
    let told = parse(format!(r#"{{"type":"{long}","features":[]}}"#).as_bytes()).expect_err("no feed").to_string();
    assert!(told.chars().count() < 300, "{told}");
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let mut bytes = feed("", &[good("us1"), feature("\"us3\"", "\"mag\":5,\"place\":\"X\"", "[1,2,3]")]).into_bytes();
    let at = bytes.iter().position(|byte| *byte == b'X').expect("the place");
    for wrong in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80"] {
        bytes.splice(at..=at, wrong.iter().copied());
        let snapshot = parse(&bytes).expect("a feed");
        assert!(snapshot.events[1].place.contains('\u{fffd}'), "{wrong:?}");
        bytes.splice(at..at + wrong.len(), [b'X']);
    }
    assert!(parse(b"\xff\xfe{\x00}\x00").is_err());
    assert!(parse(&[0; 1_000]).is_err());
}

/// Set for the process that has little memory.
const CONFINED: &str = "THROTTLER_TEST_CONFINED";
/// How large a bomb is, and how much address space it has: a few times as much, and what a process with two threads needs.
const BOMB_BYTES: usize = 4 << 20;
const ADDRESS_SPACE_KIB: usize = 160 << 10;

/// What a large body begins with, repeats, and ends with: kept as it is, all of it would become many times as
/// large.
const BOMBS: [(&str, &str, &str); 11] = [
    (r#"{"features":[{"id":"us1","properties":{"ids":["#, "0,", "0]}}]}"),
    (r#"{"features":[{"id":"us1","geometry":{"coordinates":["#, "[],", "0]}}]}"),
    (r#"{"metadata":{"title":["#, "{},", "0]},\"features\":[]}"),
    (r#"{"features":["#, "0,", "0]}"),
    (r#"{"features":[{"id":"us1","properties":{"place":{"#, "\"a\":0,", "\"b\":0}}}]}"),
    ("time,id\n", "\n,", ""),
    ("time,id\n", ",", ""),
    ("time,id\n", ",\"\n\"", ""),
    ("time,id", ",", ""),
    ("#EventID|Time\n", "|\n", ""),
    ("", "[", ""),
];

#[test]
fn memory_stays_bounded() {
    if std::env::var_os(CONFINED).is_some() {
        for (before, part, after) in BOMBS {
            let times = BOMB_BYTES / part.len();
            let bomb = before.to_owned() + &part.repeat(times) + after;
            // Read or refused, and still alive.
            drop(parse(bomb.as_bytes()));
        }
        return;
    }
    let (program, name) = (std::env::current_exe().expect("this test"), "abuse::memory_stays_bounded");
    let line = format!("ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" --exact {name} --test-threads 1");
    let confined = Command::new("sh").args(["-c", &line]).arg(program).env(CONFINED, "1").output().expect("a shell");
    let told = String::from_utf8_lossy(&confined.stdout);
    assert!(
        confined.status.success() && told.contains("1 passed"),
        "{:?} {told} {}",
        confined.status,
        String::from_utf8_lossy(&confined.stderr)
    );
}
