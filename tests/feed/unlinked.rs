//! Solutions of one quake without a common id: which are taken for one, and that no other quake ever is.

use std::fs;
use std::path::{Path, PathBuf};

use throttler::catalogue::{Filter, Query, Source, read_events};
use throttler::event::Event;
use throttler::feed::parse;
use throttler::identity::unlinked::{Apart, Likeness, LikenessError, Solution, apart, networks};
use throttler::time::Span;

use crate::support::{at, event, id, magnitude, place};

fn seconds_later(event: &Event, millis: u64) -> Event {
    Event { origin_at: event.origin_at.plus(Span::from_millis(millis)), ..event.clone() }
}

fn one(quake: i64, event: &Event) -> Solution<i64> {
    Solution { quake, event: event.clone() }
}

#[test]
fn each_bound_is_inclusive() {
    type Edit = fn(&mut Event);
    let rule = Likeness::default();
    let (known, seen) = (event(&["at1"], 1), event(&["us1"], 1));
    let edits: [(bool, Edit); 9] = [
        (true, |_| {}),
        (true, |e| e.origin_at = at("2025-08-05T09:23:56Z")),
        (false, |e| e.origin_at = at("2025-08-05T09:23:56.001Z")),
        (true, |e| e.origin_at = at("2025-08-05T09:23:40Z")),
        (true, |e| e.coordinates = place(18.212 + 0.674, -68.32)),
        (false, |e| e.coordinates = place(18.212 + 0.675, -68.32)),
        (true, |e| e.magnitude = Some(magnitude(4.9))),
        (false, |e| e.magnitude = Some(magnitude(6.51))),
        (false, |e| e.magnitude = None),
    ];
    for (alike, edit) in edits {
        let mut seen = seen.clone();
        edit(&mut seen);
        assert_eq!(rule.alike(&known, &seen), alike, "{:?}", apart(&known, &seen));
        assert_eq!(rule.alike(&seen, &known), alike, "either way round");
        assert_eq!(rule.belongs(&[one(7, &known)], &seen).map(|found| found.quake), alike.then_some(7));
    }
    assert!(!Likeness { within: Span::from_ticks(0), ..rule }.alike(&known, &seen), "0s turns it off");
}

#[test]
fn the_date_line_parts_nothing() {
    let mut west = event(&["us1"], 1);
    let mut east = event(&["pt1"], 1);
    (west.coordinates, east.coordinates) = (place(51.0, 179.9), place(51.0, -179.9));
    assert!(Likeness::default().alike(&west, &east));
}

#[test]
fn a_network_publishes_one_quake_once() {
    let rule = Likeness::default();
    for (a, b) in [
        (vec!["us1"], vec!["us2"]),
        (vec!["at1", "us1"], vec!["pt1", "us2"]),
        (vec!["usc000tb4f"], vec!["us20002bhs"]),
        (vec!["iscgem607260025"], vec!["ismpkansas1"]),
        // Without a network nothing is known.
        (vec!["12345"], vec!["us1"]),
        (vec!["u1"], vec!["us1"]),
    ] {
        assert!(!rule.alike(&event(&a, 1), &event(&b, 1)), "{a:?} {b:?}");
    }
    assert!(rule.alike(&event(&["at1", "pt1"], 1), &event(&["us1", "ak1"], 1)));
    assert_eq!(networks(&event(&["us1", "usp2", "at3"], 1)).into_iter().collect::<Vec<_>>(), ["at", "us"]);
}

#[test]
fn what_may_be_either_of_two_is_neither_and_a_third_solution_is_like_all() {
    let rule = Likeness::default();
    let first = event(&["us1"], 1);
    let second = seconds_later(&event(&["us2"], 1), 6_000);
    let seen = seconds_later(&event(&["at1"], 1), 3_000);
    assert_eq!(rule.belongs(&[one(1, &first), one(2, &second)], &seen), None);
    assert!(rule.belongs(&[one(1, &first)], &seen).is_some());
    // Known by two solutions, 6 s apart: a third must be near both.
    let known = [one(1, &first), one(1, &seconds_later(&event(&["pt1"], 1), 6_000))];
    let third = |millis| rule.belongs(&known, &seconds_later(&event(&["at1"], 1), millis));
    assert_eq!(third(3_000).map(|found| (found.quake, found.known_as)), Some((1, id("us1"))));
    assert!(third(12_000).is_none(), "12 s from one of them");
    assert!(rule.belongs(&known, &event(&["pt9"], 1)).is_none(), "one of them is of the same network");
}

#[test]
fn a_distance_is_told_in_words() {
    let told = Apart { time: Span::from_millis(3_403), km: 2.03, magnitude: 0.700_000_000_000_1 }.to_string();
    assert_eq!(told, "3.403 s, 2 km and 0.7 magnitudes apart");
}

#[test]
fn impossible_bounds_are_refused() {
    let good = Likeness::default();
    assert_eq!(good.check(), Ok(()));
    let long = Span::from_seconds(61);
    assert_eq!(Likeness { within: long, ..good }.check(), Err(LikenessError::Within(long)));
    assert!(Likeness { within_km: f64::NAN, ..good }.check().is_err());
    let fault = Likeness { magnitudes: -0.1, ..good }.check().expect_err("negative").to_string();
    assert_eq!(fault, "duplicate_magnitude: -0.1 is not a difference of magnitudes, expected 0 to 10");
}

/// The project's catalogue.
fn catalogue(filter: Filter) -> Vec<Event> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv");
    read_events(&mut [Source::File(file)], &Query { filter, ..Query::default() }).expect("the catalogue is read").0
}

/// The pairs that the rule takes for one, in order of time; `events` are in order, too.
fn pairs<'a>(rule: &Likeness, events: &'a [Event]) -> Vec<(&'a Event, &'a Event)> {
    let mut found = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let near = events[at + 1..].iter().take_while(|other| other.origin_at.since(event.origin_at) <= rule.within);
        found.extend(near.filter(|other| rule.alike(event, other)).map(|other| (event, other)));
    }
    found
}

#[test]
fn of_eleven_years_only_what_the_catalogue_itself_lists_twice_is_joined() {
    let events = catalogue(Filter::default());
    assert_eq!(events.len(), 18_738);
    let found: Vec<String> = pairs(&Likeness::default(), &events)
        .into_iter()
        .map(|(a, b)| format!("{} {}: {}", a.id, b.id, apart(a, b).expect("both have a magnitude")))
        .collect();
    // A network of Alaska or a historic catalogue beside the USGS, never linked: nobody takes any of these for two quakes.
    assert_eq!(
        found,
        [
            "iscgem614401514 us1000hyge: 0.550 s, 3 km and 0.12 magnitudes apart",
            "ak020ao09isr us6000bhbu: 0.404 s, 7 km and 0 magnitudes apart",
            "ak020dgx8guc us6000c9lf: 1.504 s, 27 km and 0 magnitudes apart",
            "ak0218tkh08i us6000eu9i: 2.512 s, 3 km and 0 magnitudes apart",
        ]
    );
}

#[test]
fn the_densest_days_keep_their_189_even_if_each_quake_came_from_another_network_than_the_last() {
    let at = |text: &str| Some(at(text));
    let filter = Filter { from: at("2025-07-29T12:00:00Z"), to: at("2025-07-31T12:00:00Z"), ..Filter::default() };
    let mut events = catalogue(filter);
    assert_eq!(events.len(), 189);
    assert!(pairs(&Likeness::default(), &events).is_empty());
    for (at, event) in events.iter_mut().enumerate() {
        event.id = id(&format!("{}{at}", ["us", "at", "pt"][at % 3]));
        event.ids = vec![event.id.clone()];
    }
    let closest = Likeness { within: Span::from_seconds(10), magnitudes: 1.0, ..Likeness::default() };
    for (rule, joined) in [(Likeness::default(), 0), (closest, 1)] {
        assert_eq!(pairs(&rule, &events).len(), joined, "{rule:?}");
    }
}

/// The files there that end so, by name; prints why there are none.
fn captures(folder: &str, ending: &str) -> Vec<PathBuf> {
    crate::captures::captures(&format!("polls/{folder}"), ending)
}

/// The first that is told of each id, in order of time.
fn first_versions(polls: impl Iterator<Item = Vec<Event>>) -> Vec<Event> {
    let mut first: Vec<Event> = Vec::new();
    for event in polls.flatten() {
        if first.iter().all(|known| known.id != event.id) {
            first.push(Event { ids: vec![event.id.clone()], ..event });
        }
    }
    first.sort_by_key(|event| event.origin_at);
    first
}

#[test]
fn captured_siblings_are_recognised_without_their_links_and_lie_well_within_the_bounds() {
    let geojson = captures("2025-08-05_geojson", ".geojson");
    let csv = captures("2025-10-09_csv", ".csv");
    if geojson.is_empty() || csv.is_empty() {
        return;
    }
    let shown = |path: &PathBuf| parse(&fs::read(path).expect("a capture")).expect("a feed").events;
    let caribbean = first_versions(geojson.iter().map(shown));
    let read = |path: &PathBuf| read_events(&mut [Source::File(path.clone())], &Query::default()).expect("a capture").0;
    let world = first_versions(csv.iter().map(read));
    let mut found: Vec<String> = Vec::new();
    for events in [&caribbean, &world] {
        for (a, b) in pairs(&Likeness::default(), events) {
            let apart = apart(a, b).expect("both have a magnitude");
            if a.magnitude >= Some(magnitude(4.5)) {
                assert!(apart.time <= Span::from_seconds(4) && apart.km < 20.0 && apart.magnitude < 0.71, "{apart}");
                found.push(format!("{} {}: {apart}", a.id, b.id));
            }
        }
    }
    assert_eq!(
        found,
        [
            "pt25217001 pr2025217000: 3.280 s, 5 km and 0 magnitudes apart",
            "pt25217001 us6000qy7q: 3.403 s, 2 km and 0.7 magnitudes apart",
            "pr2025217000 us6000qy7q: 0.123 s, 5 km and 0.7 magnitudes apart",
            "pt25283000 us6000rfwz: 3.731 s, 20 km and 0 magnitudes apart",
            "us6000rhf2 pt25289000: 0.150 s, 11 km and 0.3 magnitudes apart",
        ]
    );
}
