//! What else than the USGS's `GeoJSON` is a feed, known by its content.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use throttler::event::Event;
use throttler::feed::{Feed, FeedError, FeedUrl, MAX_FEATURES, Poll, Settings, Snapshot, parse, parse_from};

use crate::server::{Server, install_provider};
use crate::support::{at, fixture, id, magnitude, place};

fn read(name: &str, service: &str) -> Snapshot {
    parse_from(&fixture(name), service).expect(name)
}

fn reasons(snapshot: &Snapshot) -> Vec<String> {
    snapshot.rejected.iter().map(|rejection| format!("{} {}", rejection.index, rejection.reason)).collect()
}

#[test]
fn the_emsc_geojson_is_a_feed() {
    // Its ids are its own, whoever hands them on.
    for service in ["emsc", "127.0.0.1", ""] {
        let snapshot = read("emsc.geojson", service);
        let [quake, blast, felt] = &snapshot.events[..] else { panic!("expected three events") };
        assert_eq!(
            quake,
            &Event {
                id: id("emsc:20300317_0000123"),
                ids: vec![id("emsc:20300317_0000123")],
                origin_at: at("2030-03-17T18:06:40Z"),
                updated_at: Some(at("2030-03-17T18:10:00.5Z")),
                magnitude: Some(magnitude(5.4)),
                magnitude_type: Some("mw".into()),
                place: "OFF EAST COAST OF KAMCHATKA".into(),
                coordinates: place(52.5, 160.3),
                depth_km: Some(20.5),
                kind: "earthquake".into(),
                status: "automatic".into(),
                tsunami: false,
                pager: None,
                url: None,
            }
        );
        assert_eq!((blast.kind.as_str(), blast.depth_km), ("mining explosion", Some(2.0)), "a height below zero is a depth");
        assert_eq!((felt.kind.as_str(), felt.magnitude), ("earthquake", None));
        assert_eq!(reasons(&snapshot), ["3 its time is '\"last night\"': expected RFC 3339"]);
        assert_eq!(snapshot.rejected[0].id, Some(id("emsc:20300317_0000126")));
    }
}

#[test]
fn geojson_of_others_has_ids_under_the_name_of_the_service() {
    let text = br#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"eventId":42345678,"originId":1,
        "time":"2030-03-17T18:06:40.120000","author":"SURVEY","magType":"Mw","mag":5.1,"type":"earthquake","place":"Norcia"},
        "geometry":{"type":"Point","coordinates":[13.2,42.7,8.3]}}]}"#;
    let event = &parse_from(text, "webservices.example.org").expect("a feed").events[0];
    assert_eq!(event.id, id("webservices.example.org:42345678"));
    assert_eq!((event.origin_at, event.depth_km), (at("2030-03-17T18:06:40.12Z"), Some(8.3)));
    assert_eq!((event.magnitude, event.magnitude_type.as_deref()), (Some(magnitude(5.1)), Some("Mw")));
    assert_eq!(parse(text).expect("a feed").events[0].id, id("file:42345678"));
}

#[test]
fn the_text_of_fdsn_services_is_a_feed() {
    let snapshot = read("fdsn.txt", "webservices.ingv.it");
    let [quake, unmeasured] = &snapshot.events[..] else { panic!("expected two events") };
    assert_eq!(quake.id, id("webservices.ingv.it:42345678"));
    assert_eq!((quake.origin_at, quake.updated_at), (at("2030-03-17T18:06:40.123Z"), None));
    assert_eq!((quake.magnitude, quake.depth_km, quake.coordinates), (Some(magnitude(5.1)), Some(8.3), place(42.7, 13.2)));
    assert_eq!((quake.place.as_str(), quake.kind.as_str()), ("5 km NE \"Norcia\" (PG)", "earthquake"));
    assert_eq!((unmeasured.magnitude, unmeasured.depth_km, unmeasured.kind.as_str()), (None, None, "earthquake"));
    assert_eq!(
        reasons(&snapshot),
        ["2 95 is not a latitude: expected -90 to 90 degrees", "3 it has 3 fields: expected 14, as in the first line"]
    );
    // Blanks around the bars, no sharp, another order, and ids that name their network.
    let text = "EventID | Magnitude | Time | Longitude | Latitude\r\nus70000001 | 5.0 | 2030-03-17T18:06:40Z | 160 | 52\r\n";
    let event = &parse(text.as_bytes()).expect("a feed").events[0];
    assert_eq!((event.id.as_str(), event.magnitude), ("us70000001", Some(magnitude(5.0))));
}

#[test]
fn the_usgs_csv_is_a_feed() {
    let snapshot = read("usgs.csv", "127.0.0.1");
    let [quake, blast] = &snapshot.events[..] else { panic!("expected two events") };
    assert_eq!((quake.id.as_str(), quake.magnitude, quake.depth_km), ("us70000001", Some(magnitude(5.2)), Some(-1.2)));
    assert_eq!((quake.place.as_str(), quake.status.as_str()), ("12 km SE of \"Example\", Russia", "reviewed"));
    assert_eq!(quake.updated_at, Some(at("2030-03-17T18:20:00Z")));
    assert_eq!((blast.magnitude, blast.depth_km, blast.kind.as_str()), (None, None, "quarry blast"));
    assert_eq!(reasons(&snapshot), ["2 its magnitude is '\"big\"': expected null or a number from -10 to 12"]);
    // Only the header: nothing matches.
    assert_eq!(parse(b"time,id,mag\n").expect("a feed"), Snapshot::default());
}

#[test]
fn rows_are_bounded_and_what_is_no_format_is_named() {
    let text = "time,id,latitude,longitude\n".to_owned() + &"2030-03-17T18:06:40Z,us1,1,1\n".repeat(MAX_FEATURES + 1);
    assert!(matches!(parse(text.as_bytes()), Err(FeedError::TooManyFeatures)));
    for text in ["Error 400: Bad Request\n\nBad limit value\n", "a,b\n1,2\n", "#Station|Time\n", "[1,2]"] {
        let told = parse(text.as_bytes()).expect_err(text).to_string();
        assert!(told.starts_with("cannot read the feed: expected GeoJSON, FDSN text or CSV, got '"), "{told}");
    }
}

#[test]
fn services_are_told_apart_by_their_host() {
    for (text, service) in [
        ("https://earthquake.usgs.gov/fdsnws/event/1/query?format=text", ""),
        ("file:///var/lib/feed.txt", ""),
        ("https://www.seismicportal.eu/fdsnws/event/1/query?format=json", "emsc"),
        ("https://seismicportal.eu/x", "emsc"),
        ("https://notseismicportal.eu/x", "notseismicportal.eu"),
        ("https://webservices.ingv.it/fdsnws/event/1/query?format=text", "webservices.ingv.it"),
        ("https://a-very-long-name-of-a-seismological-institute.example.org/", "ological-institute.example.org"),
    ] {
        let found = text.parse::<FeedUrl>().expect(text).service();
        assert!(found == service || found.ends_with(service) && found.len() == 32, "{text}: {found}");
    }
}

#[tokio::test]
async fn a_query_that_nothing_matches_is_an_empty_feed() {
    install_provider();
    let server = Server::start(|number, _| match number {
        0 => StatusCode::NO_CONTENT.into_response(),
        1 => "".into_response(),
        _ => fixture("fdsn.txt").into_response(),
    })
    .await;
    let url = server.url("http").to_string().replace("4.5_day.geojson", "fdsnws/event/1/query?format=text");
    let mut feed = Feed::new(url.parse().expect("a feed address"), &Settings::default()).expect("a feed");
    for expected in [0, 0, 2] {
        let Poll::Fresh(snapshot) = feed.poll(at("2030-03-17T18:30:00Z")).await.expect("an answer") else { panic!("unchanged") };
        assert_eq!(snapshot.events.len(), expected);
        assert!(snapshot.events.iter().all(|event| event.id.as_str().starts_with("127.0.0.1:")));
    }
}
