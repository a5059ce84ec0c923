//! Bytes become events, whatever the service or somebody in between sends.

use throttler::event::MAX_PLACE_CHARS;
use throttler::event::{Event, PagerLevel};
use throttler::feed::{FeedError, MAX_EVENT_IDS, MAX_FEATURES, Snapshot, parse};

use crate::support::{at, fixture, id, magnitude, place};

fn read(text: impl AsRef<[u8]>) -> Snapshot {
    parse(text.as_ref()).expect("a feed")
}

fn fault(text: impl AsRef<[u8]>) -> FeedError {
    parse(text.as_ref()).expect_err("no feed")
}

/// A feed of these features.
fn feed(features: &[String]) -> String {
    format!(r#"{{"type":"FeatureCollection","features":[{}]}}"#, features.join(","))
}

/// A feature with this id, these other members of its properties, and M 5.
fn feature(id: &str, properties: &str) -> String {
    let properties = if properties.is_empty() { String::new() } else { format!(",{properties}") };
    format!(
        r#"{{"type":"Feature","id":"{id}","geometry":{{"type":"Point","coordinates":[1,2,3]}},"properties":{{"time":1900000000000{properties}}}}}"#
    )
}

/// The only event of a feed with one feature that has these properties.
fn only(properties: &str) -> Event {
    let snapshot = read(feed(&[feature("us1", properties)]));
    assert_eq!((snapshot.events.len(), snapshot.rejected.len()), (1, 0), "{properties}: {:?}", snapshot.rejected);
    snapshot.events.into_iter().next().expect("one event")
}

#[test]
fn a_feed_is_read_as_the_service_sends_it() {
    let snapshot = read(fixture("as_sent.geojson"));
    assert_eq!(snapshot.generated_at, Some(at("2030-03-17T18:20:00Z")));
    assert_eq!(snapshot.rejected, []);
    // The document's own count says 17.
    let [unmeasured, noisy, on_the_date_line, old, at_the_pole] = &snapshot.events[..] else { panic!("expected five events") };

    assert_eq!((unmeasured.magnitude, &unmeasured.magnitude_type), (None, &None));
    assert_eq!(unmeasured.title(), "M ? - 1km W of Example Springs");

    assert_eq!(
        noisy,
        &Event {
            id: id("ci20000002"),
            ids: vec![id("ci20000002"), id("cinorthrid"), id("gcmt20300317")],
            origin_at: at("2030-03-17T17:46:44Z"),
            updated_at: Some(at("2030-03-17T17:46:45Z")),
            magnitude: Some(magnitude(6.7)),
            magnitude_type: Some("mww".into()),
            place: "1km NNW of \"Example\"".into(),
            coordinates: place(34.213, -118.537),
            depth_km: Some(18.202),
            kind: "earthquake".into(),
            status: "reviewed".into(),
            tsunami: true,
            pager: Some(PagerLevel::Yellow),
            url: Some("https://earthquake.usgs.gov/earthquakes/eventpage/ci20000002".into()),
        }
    );

    assert_eq!((on_the_date_line.coordinates, on_the_date_line.depth_km), (place(-17.5, 180.0), Some(-1.2)));
    assert_eq!((on_the_date_line.status.as_str(), on_the_date_line.place.as_str()), ("automatic", "45 km NNW of Güiria, 例"));

    assert_eq!((old.origin_at, old.depth_km, &old.url), (at("1727-11-10T03:40:00Z"), None, &None));
    assert_eq!(old.ids, [id("official17271110034000000"), id("ushis3")]);

    assert_eq!((&at_the_pole.place, at_the_pole.updated_at, &at_the_pole.ids), (&String::new(), None, &vec![id("us40000004")]));
    assert_eq!((at_the_pole.kind.as_str(), at_the_pole.status.as_str()), ("volcanic eruption", "automatic"));
    assert_eq!(at_the_pole.coordinates, place(90.0, 0.0));
}

#[test]
fn a_feed_without_events_is_no_failure() {
    let empty = read(fixture("empty.geojson"));
    assert_eq!((empty.events.len(), empty.rejected.len()), (0, 0));
    assert!(read(r#"{"features":[]}"#).generated_at.is_none(), "metadata and type may be missing");
}

#[test]
fn one_malformed_feature_does_not_spoil_the_others() {
    let snapshot = read(fixture("some_bad.geojson"));
    let places: Vec<&str> = snapshot.events.iter().map(|event| event.place.as_str()).collect();
    assert_eq!(places, ["Good Island", "Better Island"]);
    let found: Vec<String> = snapshot
        .rejected
        .iter()
        .map(|rejection| {
            let id = rejection.id.as_ref().map_or("-", |id| id.as_str());
            format!("{} {id}: {}", rejection.index, rejection.reason)
        })
        .collect();
    let expected = [
        "1 us70000001: its time is missing: expected milliseconds since 1970",
        "2 us70000002: its magnitude is '\"big\"': expected null or a number from -10 to 12",
        "3 us70000003: 190.5 is not a longitude: expected -180 to 180 degrees",
        "4 us70000004: its magnitude is '55': expected null or a number from -10 to 12",
        "5 us70000005: its coordinates are missing: expected longitude, latitude and depth",
        "6 -: its id is 'us7 0000006': expected visible ASCII characters without a comma",
        "7 -: duplicate field `geometry` at line 1 column 469",
        "8 -: its id is missing: expected text",
        "9 -: invalid type: null, expected struct Feature at line 1 column 4",
        "10 -: invalid type: string \"text\", expected struct Feature at line 1 column 6",
    ];
    for (index, line) in expected.iter().enumerate() {
        assert_eq!(found.get(index).map(String::as_str), Some(*line));
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn a_strange_detail_does_not_hide_an_earthquake() {
    assert_eq!(only(r#""alert":"purple","mag":5"#).pager, None);
    assert_eq!(only(r#""alert":"RED""#).pager, Some(PagerLevel::Red));
    assert_eq!(only(r#""ids":7"#).ids, [id("us1")]);
    assert_eq!(only(r#""ids":",us1,,a b,pt1 ,é,us1,""#).ids, [id("pt1"), id("us1")]);
    assert_eq!(only(r#""place":["x"],"updated":"today","status":3,"type":"","magType":{}"#).place, "");
    assert_eq!(only(r#""updated":1e300"#).updated_at, None);
    assert_eq!(only(r#""type":"Quarry Blast","status":"MANUAL""#).kind, "quarry blast");
    assert!(only(r#""tsunami":1.0"#).tsunami && only(r#""tsunami":true"#).tsunami);
    assert!(!only(r#""tsunami":0"#).tsunami && !only(r#""tsunami":null"#).tsunami && !only(r#""tsunami":"no""#).tsunami);
    let deep = feature("us1", "").replace("[1,2,3]", "[1,2,1e300]");
    assert_eq!(read(feed(&[deep])).events[0].depth_km, None, "no depth can be that");
    let flat = feature("us1", "").replace("[1,2,3]", "[1,2]");
    assert_eq!(read(feed(&[flat])).events[0].depth_km, None);
}

#[test]
fn numbers_come_as_integers_or_floats() {
    for time in ["1900000000000.0", "1.9e12", "1900000000000", "1899999999999.7"] {
        let event = read(feed(&[feature("us1", "").replace("1900000000000", time)])).events.remove(0);
        assert_eq!(event.origin_at, at("2030-03-17T17:46:40Z"), "{time}");
    }
    for time in [
        "1e300",
        "-1e300",
        "253402300800000",
        "1e400",
        "9223372036854775807",
        "99999999999999999999",
        "\"1900000000000\"",
        "true",
    ] {
        let snapshot = read(feed(&[feature("us1", "").replace("1900000000000", time), feature("us2", "")]));
        assert_eq!((snapshot.events.len(), snapshot.rejected.len()), (1, 1), "{time}");
    }
    assert_eq!(only(r#""mag":4.4500000000000002"#).magnitude, Some(magnitude(4.45)));
    assert!(only(r#""mag":4.9999999999999991"#).magnitude < Some(magnitude(5.0)), "digits are not rounded up");
    assert_eq!(only(r#""mag":-0.0"#).magnitude, Some(magnitude(0.0)));
}

#[test]
fn features_that_share_an_id_are_one_event_at_its_newest_in_any_order() {
    let versions = [
        feature("us1", r#""ids":",us1,pt1,","updated":1900000002000,"mag":5.2"#),
        feature("us9", r#""ids":",us9,","updated":1900000009000,"mag":5.9"#),
        feature("pt1", r#""ids":",pt1,","updated":1900000001000,"mag":5.1"#),
        feature("us1", r#""ids":",us1,","updated":1900000003000,"mag":5.3"#),
        feature("at1", r#""ids":",at1,","updated":1900000000000,"mag":5.0"#),
        feature("pr1", r#""ids":",pr1,at1,us1,","updated":1900000001500,"mag":5.4"#),
    ];
    for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 4, 1, 3, 5, 0], [4, 2, 3, 0, 1, 5]] {
        let snapshot = read(feed(&order.map(|index: usize| versions[index].clone())));
        let mut events: Vec<_> =
            snapshot.events.iter().map(|event| (event.id.as_str(), event.magnitude, event.ids.len())).collect();
        events.sort_unstable();
        assert_eq!(events, [("us1", Some(magnitude(5.3)), 4), ("us9", Some(magnitude(5.9)), 1)], "{order:?}");
    }
}

#[test]
fn a_deleted_feature_is_told_by_its_id_alone_and_what_is_shown_as_well_is_not_gone() {
    let bare =
        |id: &str| format!(r#"{{"type":"Feature","id":"{id}","properties":{{"status":"Deleted","mag":null}},"geometry":null}}"#);
    let whole = feature("us3", r#""status":"deleted","mag":5.0"#);
    let nameless = r#"{"type":"Feature","id":null,"properties":{"status":"deleted"}}"#.to_owned();
    let snapshot = read(feed(&[bare("us1"), feature("us2", r#""ids":",us2,pt2,""#), bare("pt2"), whole, nameless]));
    assert_eq!(snapshot.events.iter().map(|event| event.id.as_str()).collect::<Vec<_>>(), ["us2"]);
    assert_eq!(snapshot.deleted.iter().map(throttler::event::EventId::as_str).collect::<Vec<_>>(), ["us1", "us3"]);
    assert_eq!((snapshot.rejected.len(), snapshot.rejected[0].index), (1, 4));
}

#[test]
fn a_wrong_count_does_not_matter() {
    let features = feed(&[feature("us1", ""), feature("us2", "")]);
    for count in ["0", "1", "20001", "-1", "null", "\"two\""] {
        let text = features.replace(r#""features""#, &format!(r#""metadata":{{"count":{count}}},"features""#));
        assert_eq!(read(text).events.len(), 2, "{count}");
    }
}

#[test]
fn the_order_of_the_feed_is_kept() {
    let features: Vec<String> = ["us3", "us1", "us2"].map(|id| feature(id, "")).into();
    let ids: Vec<String> = read(feed(&features)).events.iter().map(|event| event.id.to_string()).collect();
    assert_eq!(ids, ["us3", "us1", "us2"]);
}

#[test]
fn a_byte_order_mark_and_bad_bytes_are_survived() {
    let marked = [b"\xEF\xBB\xBF".as_slice(), &fixture("as_sent.geojson")].concat();
    assert_eq!(read(marked), read(fixture("as_sent.geojson")));
    let mut bytes = feed(&[feature("us1", r#""place":"K?ln""#), feature("us2", "")]).into_bytes();
    let position = bytes.iter().position(|byte| *byte == b'?').expect("the letter");
    bytes[position] = 0xF6;
    let snapshot = read(bytes);
    assert_eq!((snapshot.events.len(), snapshot.events[0].place.as_str()), (2, "K\u{fffd}ln"));
}

#[test]
fn hostile_text_is_tamed() {
    let tamed = only(r#""place":"\u0000A\r\nBcc: x\u001b[31m\u202e\u2028end\u0007""#).place;
    assert_eq!(tamed, "A Bcc: x [31m end");
    let long = only(&format!(r#""place":"{}""#, "é".repeat(2_000_000))).place;
    assert_eq!(long.chars().count(), MAX_PLACE_CHARS);
    assert_eq!(only(&format!(r#""magType":"{}""#, "m".repeat(5_000))).magnitude_type.expect("a scale").chars().count(), 64);

    for (url, kept) in [
        ("https://example.org/e?id=1", Some("https://example.org/e?id=1")),
        ("http://example.org", Some("http://example.org/")),
        (r#"https://example.org/\"><script>"#, Some("https://example.org/%22%3E%3Cscript%3E")),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("/earthquakes/eventpage/us1", None),
        ("https://a:b@example.org/", None),
        ("", None),
        (&format!("https://example.org/{}", "x".repeat(3_000)), None),
    ] {
        assert_eq!(only(&format!(r#""url":"{url}""#)).url.as_deref(), kept, "{url}");
    }
}

#[test]
fn too_much_of_anything_is_refused() {
    let ids = (0..MAX_EVENT_IDS).map(|n| format!("x{n}")).collect::<Vec<_>>().join(",");
    let snapshot = read(feed(&[feature("us1", &format!(r#""ids":"{ids}""#)), feature("us2", "")]));
    assert_eq!((snapshot.events.len(), snapshot.rejected[0].reason.as_str()), (1, "it has more than 100 ids"));

    let nulls = |count: usize| format!(r#"{{"features":[{}]}}"#, vec!["0"; count].join(","));
    assert_eq!(read(nulls(MAX_FEATURES)).rejected.len(), MAX_FEATURES);
    assert!(matches!(fault(nulls(MAX_FEATURES + 1)), FeedError::TooManyFeatures));

    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    assert_eq!(only(&format!(r#""products":{deep}"#)).id, id("us1"), "what is not looked at may be anything");
    for (member, kept) in [("place", 2), ("mag", 1), ("time\":1,\"time", 1)] {
        let snapshot = read(feed(&[feature("us1", &format!(r#""{member}":{deep}"#)), feature("us2", "")]));
        assert_eq!((snapshot.events.len(), snapshot.rejected.len()), (kept, 2 - kept), "{member}");
    }
    assert!(read(format!(r#"{{"metadata":{{"generated":{deep}}},"features":[]}}"#)).generated_at.is_none());
    let half = &feed(&[feature("us1", &format!(r#""place":{deep}"#))])[..150_000];
    assert!(matches!(fault(half), FeedError::Json { .. }));
}

#[test]
fn what_is_no_feed_is_named() {
    for (body, found) in [
        ("", "an empty body"),
        (" \r\n\t", "an empty body"),
        ("\u{feff}", "an empty body"),
        ("<!DOCTYPE html>\n<html>", "an HTML page or XML: '<!DOCTYPE html> <html>'"),
        ("\n<?xml version=\"1.0\"?>", "an HTML page or XML: '<?xml version=\"1.0\"?>'"),
        ("Error 400: Bad Request\n\nBad limit\u{1b}[31m", "'Error 400: Bad Request Bad limit [31m'"),
        ("[1,2]", "'[1,2]'"),
        ("time,latitude,longitude,depth,mag", "'time,latitude,longitude,depth,mag'"),
        ("{}", "JSON without a list of features"),
        (r#"{"type":"Feature","features":[]}"#, "a 'Feature' instead of a FeatureCollection"),
        (r#"{"features":null}"#, "JSON without a list of features"),
    ] {
        assert_eq!(
            fault(body).to_string(),
            format!("cannot read the feed: expected GeoJSON, FDSN text or CSV, got {found}"),
            "{body:?}"
        );
    }
    let long = fault("x".repeat(1_000)).to_string();
    assert!(long.ends_with(&format!("'{}…'", "x".repeat(79))), "{long}");
}

#[test]
fn a_feed_that_breaks_off_anywhere_is_a_failure() {
    let whole = fixture("renamed_1_pt.geojson");
    let end = whole.iter().rposition(|byte| *byte == b'}').expect("the last brace");
    for length in 1..=end {
        assert!(matches!(fault(&whole[..length]), FeedError::Json { .. }), "the first {length} bytes");
    }
    for text in [r#"{"features":[]} trailing"#, r#"{"features":[],"features":[]}"#, r#"{"features":[NaN]}"#, r#"{"features":7}"#]
    {
        assert!(matches!(fault(text), FeedError::Json { .. }), "{text}");
    }
}

#[test]
fn an_error_that_only_the_body_tells_is_an_error() {
    let error = fault(fixture("error_status.geojson"));
    assert_eq!(
        error.to_string(),
        "the feed reports status 400: 286412 matching events exceeds search limit of 20000. Modify the search to matc…"
    );
    assert!(!error.is_transient());
    let busy = fault(r#"{"metadata":{"status":503,"title":"Busy\nnow"},"features":[]}"#);
    assert_eq!((busy.to_string().as_str(), busy.is_transient()), ("the feed reports status 503: Busy now", true));
}
