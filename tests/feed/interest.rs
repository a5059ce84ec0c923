//! Which events an interest takes, and how it is read and written.

use throttler::event::{Coordinates, Event, PagerLevel};
use throttler::interest::{BoundingBox, Depth, Interest, Kinds, Radius, Region, distance_km};

use crate::support::{event, magnitude, place};

fn quake() -> Event {
    event(&["us1"], 1)
}

fn located(latitude: f64, longitude: f64) -> Event {
    Event { coordinates: place(latitude, longitude), ..quake() }
}

fn bounds(text: &str) -> BoundingBox {
    text.parse().expect(text)
}

#[test]
fn the_default_is_earthquakes_of_magnitude_five_or_more() {
    let interest = Interest::default();
    let with = |value: Option<f64>| Event { magnitude: value.map(magnitude), ..quake() };
    assert!(interest.matches(&with(Some(5.0))));
    assert!(!interest.matches(&with(Some(4.95))), "the raw magnitude counts, not the rounded one of the title");
    assert!(!interest.matches(&with(None)));
    assert!(!interest.matches(&Event { kind: "volcanic eruption".into(), ..quake() }));
    let all = Interest { min_magnitude: "-10".parse().expect("the least"), kinds: Kinds::any(), ..interest };
    assert!(all.matches(&Event { kind: "landslide".into(), ..with(Some(-1.0)) }));
    assert!(!all.matches(&with(None)), "an event without magnitude never matches");
}

#[test]
fn a_condition_asks_for_a_known_value() {
    let shallow = Interest { max_depth_km: Some(Depth::new(70.0).expect("a depth")), ..Interest::default() };
    let deep = |depth_km| Event { depth_km, ..quake() };
    assert!(shallow.matches(&deep(Some(70.0))) && shallow.matches(&deep(Some(-2.5))));
    assert!(!shallow.matches(&deep(Some(70.1))) && !shallow.matches(&deep(None)));

    let harmful = Interest { min_pager: Some(PagerLevel::Yellow), ..Interest::default() };
    let level = |pager| Event { pager, ..quake() };
    assert!(harmful.matches(&level(Some(PagerLevel::Yellow))) && harmful.matches(&level(Some(PagerLevel::Red))));
    assert!(!harmful.matches(&level(Some(PagerLevel::Green))) && !harmful.matches(&level(None)));

    let flagged = Interest { tsunami: true, ..Interest::default() };
    assert!(flagged.matches(&Event { tsunami: true, ..quake() }) && !flagged.matches(&quake()));
}

#[test]
fn kinds_are_a_list_or_any() {
    let two: Kinds = " Volcanic Eruption,earthquake,earthquake".parse().expect("a list");
    assert_eq!(two.to_string(), "earthquake,volcanic eruption");
    assert!(two.contain("Earthquake") && two.contain("volcanic eruption") && !two.contain("landslide"));
    assert!("ANY".parse::<Kinds>().expect("any").contain("landslide"));
    let many = vec!["a"; 33].join(",");
    for text in ["", ",", "earthquake,", "earthquake,any", "a\nb", "quake5", &"x".repeat(65), &many] {
        let error = text.parse::<Kinds>().expect_err(text).to_string();
        assert!(error.contains("is not a list of event types: expected any, or up to 32 names"), "{error}");
    }
}

#[test]
fn distances_are_those_of_the_sphere() {
    let quarter = 10_007.557;
    for (a, b, km) in [
        (place(0.0, 0.0), place(0.0, 90.0), quarter),
        (place(0.0, 77.0), place(90.0, -12.0), quarter),
        (place(0.0, 179.5), place(0.0, -179.5), quarter / 90.0),
        (place(90.0, 0.0), place(90.0, 140.0), 0.0),
        (place(90.0, 0.0), place(-90.0, 33.0), 2.0 * quarter),
        (place(35.0, -180.0), place(35.0, 180.0), 0.0),
        (place(37.1, 12.3), place(-37.1, -167.7), 2.0 * quarter),
        // Paris and Tokyo, by the spherical law of cosines.
        (place(48.8566, 2.3522), place(35.6762, 139.6503), 9_711.738),
    ] {
        assert!((distance_km(a, b) - km).abs() < 0.01, "{a:?} {b:?}: {} instead of {km}", distance_km(a, b));
        assert!((distance_km(b, a) - distance_km(a, b)).abs() < 1e-9);
    }
}

#[test]
fn a_circle_takes_its_rim_and_crosses_the_date_line_and_the_pole() {
    let near = |latitude, longitude, km| Interest {
        region: Some(Region::Near { coordinates: place(latitude, longitude), within_km: Radius::new(km).expect("a radius") }),
        ..Interest::default()
    };
    let rim = distance_km(place(52.5, 160.5), place(54.0, 160.5));
    assert!(near(52.5, 160.5, rim).matches(&located(54.0, 160.5)));
    assert!(!near(52.5, 160.5, rim - 0.001).matches(&located(54.0, 160.5)));
    assert!(near(-17.0, 179.0, 300.0).matches(&located(-17.0, -179.0)));
    assert!(near(89.0, 0.0, 223.0).matches(&located(89.0, 180.0)));
    assert!(near(0.0, 0.0, 20_016.0).matches(&located(0.0, 180.0)));
}

#[test]
fn a_box_takes_its_edges_and_crosses_the_date_line() {
    for (text, inside, outside) in [
        ("150,45,170,60", vec![(45.0, 150.0), (60.0, 170.0), (52.0, 160.0)], vec![(44.9, 160.0), (52.0, 170.1), (52.0, -160.0)]),
        (
            "170,-30,-170,-10",
            vec![(-20.0, 170.0), (-20.0, 180.0), (-20.0, -180.0), (-10.0, -170.0)],
            vec![(-20.0, 0.0), (-20.0, 169.9)],
        ),
        ("-180,-30,-170,-10", vec![(-20.0, -180.0), (-20.0, 180.0)], vec![(-20.0, 179.9)]),
        ("170,-30,180,-10", vec![(-20.0, -180.0), (-20.0, 180.0)], vec![(-20.0, -179.9)]),
        ("180,-30,180,-10", vec![(-20.0, -180.0), (-20.0, 180.0)], vec![(-20.0, 0.0)]),
        ("-180,-90,180,90", vec![(90.0, 0.0), (-90.0, 180.0), (0.0, 0.0)], vec![]),
        ("10,80,20,90", vec![(90.0, 0.0), (90.0, -135.0), (85.0, 15.0)], vec![(89.9, 0.0), (-90.0, 15.0)]),
        ("10,-90,20,-80", vec![(-90.0, 120.0)], vec![(90.0, 15.0), (-89.0, 120.0)]),
    ] {
        for (latitude, longitude) in inside {
            assert!(bounds(text).contains(place(latitude, longitude)), "{latitude},{longitude} lies in {text}");
        }
        for (latitude, longitude) in outside {
            assert!(!bounds(text).contains(place(latitude, longitude)), "{latitude},{longitude} lies outside {text}");
        }
    }
}

#[test]
fn wrong_places_and_lengths_are_told_what_was_expected() {
    let point = |text: &str| text.parse::<Coordinates>().expect_err(text).to_string();
    for text in ["", "52.5", "52.5,160.5,10", "north,east", "52.5;160.5", ",", "52,5,160,5"] {
        assert_eq!(point(text), format!("'{text}' is not a place: expected LAT,LON in degrees, like 52.5,160.5"));
    }
    assert_eq!(
        point("160.5,52.5"),
        "'160.5,52.5' is not a place: expected LAT,LON in degrees, like 52.5,160.5; 160.5 is not a latitude: expected -90 to 90 degrees"
    );
    assert!(point("NaN,0").contains("NaN is not a latitude"));
    assert_eq!(" 52.5 , -160.5 ".parse::<Coordinates>().expect("spaces"), place(52.5, -160.5));

    let edges = |text: &str| text.parse::<BoundingBox>().expect_err(text).to_string();
    assert_eq!(edges("1,2,3"), "'1,2,3' is not a box: expected W,S,E,N in degrees, like 150,45,170,60");
    assert!(edges("150,60,170,45").ends_with("; the south edge 60 lies north of the north edge 45"));
    assert!(edges("150,45,190,60").ends_with("; 190 is not a longitude: expected -180 to 180 degrees"));

    for text in ["0", "-5", "20017", "NaN", "far", ""] {
        assert_eq!(
            text.parse::<Radius>().expect_err(text).to_string(),
            format!("'{text}' is not a radius: expected more than 0 and at most 20016 km")
        );
    }
    for text in ["1001", "-101", "inf", "deep"] {
        assert_eq!(
            text.parse::<Depth>().expect_err(text).to_string(),
            format!("'{text}' is not a depth: expected -100 to 1000 km")
        );
    }
}

fn full() -> Interest {
    Interest {
        min_magnitude: magnitude(4.5),
        max_depth_km: Some(Depth::new(70.0).expect("a depth")),
        region: Some(Region::Box(bounds("170,-30,-170,-10"))),
        kinds: "earthquake,volcanic eruption".parse().expect("kinds"),
        tsunami: true,
        min_pager: Some(PagerLevel::Orange),
    }
}

#[test]
fn an_interest_is_a_sentence() {
    assert_eq!(Interest::default().to_string(), "M 5.0 or more, earthquakes");
    let near = Region::Near { coordinates: place(52.5, 160.5), within_km: Radius::new(300.0).expect("a radius") };
    assert_eq!(
        Interest { region: Some(near), ..Interest::default() }.to_string(),
        "M 5.0 or more, earthquakes, within 300 km of 52.5, 160.5"
    );
    assert_eq!(
        full().to_string(),
        "M 4.5 or more, earthquakes and volcanic eruptions, at most 70 km deep, between latitudes -30 and -10 and longitudes \
         170 and -170 across the date line, flagged for a tsunami, PAGER level orange or higher"
    );
}

#[test]
fn an_interest_survives_json_and_is_validated_on_the_way_in() {
    let near = Region::Near { coordinates: place(52.5, 160.5), within_km: Radius::new(300.0).expect("a radius") };
    for interest in [Interest::default(), full(), Interest { region: Some(near), kinds: Kinds::any(), ..full() }] {
        let json = serde_json::to_string(&interest).expect("JSON");
        assert_eq!(serde_json::from_str::<Interest>(&json).expect(&json), interest);
    }
    assert_eq!(serde_json::from_str::<Interest>("{}").expect("no key is needed"), Interest::default());
    for (json, fault) in [
        (r#"{"magnitude":5}"#, "unknown field `magnitude`"),
        (r#"{"min_magnitude":99}"#, "is not a magnitude"),
        (r#"{"max_depth_km":1e9}"#, "is not a depth"),
        (r#"{"kinds":[]}"#, "is not a list of event types"),
        (r#"{"kinds":"all"}"#, "expected \"any\" or a list of event types"),
        (r#"{"min_pager":"purple"}"#, "unknown variant `purple`"),
        (r#"{"region":{"near":{"coordinates":{"latitude":91,"longitude":0},"within_km":5}}}"#, "is not a latitude"),
        (r#"{"region":{"near":{"coordinates":{"latitude":1,"longitude":0},"within_km":0}}}"#, "is not a radius"),
        (r#"{"region":{"box":{"west":1,"south":9,"east":2,"north":8}}}"#, "lies north of"),
        (r#"{"region":{"box":{"west":1,"south":2,"east":2,"north":8,"up":1}}}"#, "unknown field `up`"),
    ] {
        let error = serde_json::from_str::<Interest>(json).expect_err(json).to_string();
        assert!(error.contains(fault), "{json}: {error}");
    }
}
