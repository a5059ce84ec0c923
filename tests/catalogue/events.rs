//! Whole events, as a replay reads them.

use std::path::Path;

use throttler::catalogue::{Events, Filter, Query, Source, read_events, read_newest_events};
use throttler::event::Event;

fn shipped() -> Source {
    Source::File(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv"))
}

fn read(text: &str) -> Vec<Event> {
    let query = Query::default();
    let events = Events::open(text.as_bytes(), "test.csv", &query).expect("a header");
    events.map(|event| event.expect("a good row")).collect()
}

#[test]
fn the_shipped_catalogue_is_read_whole() {
    let (events, bad_rows) = read_events(&mut [shipped()], &Query::default()).expect("the shipped catalogue");
    assert_eq!((events.len(), bad_rows.count), (18_738, 0));
    let largest = events.iter().max_by_key(|event| event.magnitude).expect("events");
    assert_eq!(largest.title(), "M 8.8 - 2025 Kamchatka Peninsula, Russia Earthquake");
    assert_eq!(largest.origin_at.to_string(), "2025-07-29T23:24:52.483Z");
    assert!(events.is_sorted_by_key(|event| event.origin_at));
}

#[test]
fn the_newest_events_are_the_end_of_all_of_them() {
    let all = read_events(&mut [shipped()], &Query::default()).expect("the shipped catalogue").0;
    for (most, left_out) in [(100, true), (18_737, true), (18_738, false)] {
        // A second time in another file every event is one that is known, also after it was left out.
        for mut sources in [vec![shipped()], vec![shipped(), shipped()]] {
            let newest = read_newest_events(&mut sources, &Query::default(), most).expect("the shipped catalogue");
            assert!(newest.events == all[all.len().saturating_sub(most)..], "{most}");
            assert_eq!(newest.left_out, left_out, "{most}");
        }
    }
}

#[test]
fn a_filter_takes_raw_magnitudes_types_and_half_open_times() {
    let text = "time,mag,type,id\n\
        2025-01-01T00:00:00Z,5.0,earthquake,a\n\
        2025-01-01T00:00:01Z,4.99,earthquake,b\n\
        2025-01-01T00:00:02Z,,earthquake,c\n\
        2025-01-01T00:00:03Z,6,quarry blast,d\n\
        2025-01-01T00:00:04Z,6,Earthquake,e\n\
        2025-01-01T00:00:05Z,6,earthquake,f\n";
    let filter = Filter {
        min_magnitude: Some("5".parse().expect("a magnitude")),
        kinds: vec!["earthquake".to_owned()],
        from: Some("2025-01-01T00:00:00Z".parse().expect("a time")),
        to: Some("2025-01-01T00:00:05Z".parse().expect("a time")),
    };
    let query = Query { filter, ..Query::default() };
    let events = Events::open(text.as_bytes(), "test.csv", &query).expect("a header");
    let ids: Vec<_> = events.map(|event| event.expect("a good row").id.to_string()).collect();
    assert_eq!(ids, ["a", "e"]);
}

#[test]
fn columns_are_found_by_name_wherever_they_stand() {
    let text = "\u{feff}Place,depth,ID,\"time\",longitude,latitude,mag,magType,updated,status\r\n\
        \"12 km \"\"NNE\"\", of\nnowhere\",-1.5,us7000abcd,2025-01-01T00:00:00.500Z,179.9,-89,5.25,mww,2025-01-02T00:00:00Z,Reviewed\r\n";
    let events = read(text);
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!((event.id.as_str(), event.place.as_str()), ("us7000abcd", "12 km \"NNE\", of nowhere"));
    assert_eq!((event.coordinates.latitude(), event.coordinates.longitude(), event.depth_km), (-89.0, 179.9, Some(-1.5)));
    assert_eq!(
        (event.magnitude_type.as_deref(), event.status.as_str(), event.kind.as_str()),
        (Some("mww"), "reviewed", "earthquake")
    );
    assert_eq!(event.updated_at.map(|at| at.to_string()).as_deref(), Some("2025-01-02T00:00:00.000Z"));
}

#[test]
fn only_the_time_is_needed() {
    let query = Query::default();
    let mut events = Events::open(&b"time\n2025-01-01\n\n2025-01-02"[..], "test.csv", &query).expect("a header");
    assert!(!events.has_coordinates());
    let ids: Vec<_> = events.by_ref().map(|event| event.expect("a good row").id.to_string()).collect();
    assert_eq!(ids, ["line-2", "line-4"]);
}

#[test]
fn overlapping_inputs_give_each_event_once_and_all_in_order() {
    let source = |name: &str, text: &'static str| Source::Stream { name: name.to_owned(), input: Box::new(text.as_bytes()) };
    let mut sources = [
        source("late", "time,id,mag\n2025-01-03,c,5\n2025-01-02,b,5.1\n2025-01-02,b2,6\n"),
        source("early", "id,time,mag\nb,2025-01-02,5\na,2025-01-01,\n"),
    ];
    let (events, _) = read_events(&mut sources, &Query::default()).expect("good rows");
    let ids: Vec<_> = events.iter().map(|event| (event.id.as_str(), event.magnitude.map(|found| found.to_string()))).collect();
    assert_eq!(ids, [("a", None), ("b", Some("5.1".to_owned())), ("b2", Some("6.0".to_owned())), ("c", Some("5.0".to_owned()))]);
}
