//! The map: everywhere on the globe, at its edge, and with names that mean no good.

use throttler::event::{Coordinates, Magnitude};
use throttler::plot::{Fate, Map, Spot};

use crate::support::{assert_is_golden, at};

fn spot(longitude: f64, latitude: f64, magnitude: Option<f64>, title: &str, fate: Option<Fate>) -> Spot {
    Spot {
        at: at("2025-07-29T23:24:52Z"),
        coordinates: Coordinates::new(latitude, longitude).expect("a place"),
        magnitude: magnitude.map(|value| Magnitude::new(value).expect("a magnitude")),
        title: title.to_owned(),
        id: "us6000qw60".to_owned(),
        fate,
    }
}

fn map(spots: Vec<Spot>) -> Map {
    Map { title: "Where they were".to_owned(), subtitle: "a few places".to_owned(), spots }
}

fn places() -> Map {
    map(vec![
        spot(160.3, 52.5, Some(8.8), "M 8.8 - Kamchatka Peninsula", Some(Fate::Alerted)),
        spot(161.0, 51.0, Some(5.1), "M 5.1 - beside it", Some(Fate::Withheld)),
        spot(179.9, -17.0, Some(6.0), "M 6.0 - west of the date line", Some(Fate::Digested)),
        spot(-179.9, -18.0, Some(6.0), "M 6.0 - east of the date line", Some(Fate::Delayed)),
        spot(-180.0, -30.0, Some(5.5), "M 5.5 - on it", None),
        spot(-70.0, -20.0, Some(7.0), "M 7.0 - Chile", None),
        spot(0.0, 90.0, None, "M ? - the pole", None),
        spot(-30.2, 40.0, Some(6.5), "M 6.5 - at the edge", Some(Fate::Alerted)),
        spot(13.0, 42.5, Some(5.0), "M 5.0 - </title><script>alert(1)</script>", Some(Fate::Withheld)),
    ])
}

#[test]
fn the_map_of_a_few_places() {
    let svg = places().to_svg();
    assert!(!svg.contains("<script") && svg.contains("&lt;/title&gt;&lt;script&gt;"), "{svg}");
    assert_is_golden("map.svg", &svg);
}

#[test]
fn an_event_on_the_edge_is_at_both_sides_and_one_on_the_date_line_in_one_place() {
    let circles = |longitude: f64| {
        let svg = map(vec![spot(longitude, 0.0, Some(6.5), "M 6.5 - somewhere", Some(Fate::Alerted))]).to_figures();
        let marks = svg.split_once("marks points spots").expect("the spots").1;
        marks.split_once(" d=\"").expect("a path").1.split_once('"').expect("its end").0.matches('M').count()
    };
    assert_eq!([-30.0, -29.0, -31.0, 180.0, -180.0, 179.0, 0.0].map(circles), [2, 2, 2, 1, 1, 1, 1]);
    // The figure stands in a page that has the style.
    assert!(!places().to_figures().contains("<style"));
}

#[test]
fn a_map_of_nothing_has_its_sea_and_its_land() {
    let svg = map(Vec::new()).to_figures();
    assert!(svg.contains("class=\"land\"") && svg.contains("150° W"), "{svg}");
}
