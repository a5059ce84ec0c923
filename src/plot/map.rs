//! The map: where earthquakes were, and what became of each, on the whole globe in plate carrée.

use std::cmp::Reverse;

use svg::node::element::{Group, Path, SVG};

use super::canvas::{self, LEFT, RIGHT, disc, line, moved, path, polyline, px, text, tooltip};
use super::html;
use super::scene::Fate;
use crate::event::{Coordinates, Magnitude};
use crate::time::Timestamp;

/// Earthquakes on a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    pub title: String,
    /// One line below the title.
    pub subtitle: String,
    pub spots: Vec<Spot>,
}

/// One earthquake.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    pub at: Timestamp,
    pub coordinates: Coordinates,
    pub magnitude: Option<Magnitude>,
    /// What the event is called.
    pub title: String,
    pub id: String,
    /// What became of it; `None` where nobody was asked, or nothing was decided.
    pub fate: Option<Fate>,
}

/// Outlines of land, see there.
const LAND: &str = include_str!("land.txt");
/// The degree east at which the map is cut: in the Atlantic, so that the Pacific and its rim are in one piece.
const EDGE: f64 = -30.0;
/// The longitude at the left edge, a whole turn further on, and between them.
const TURN: f64 = 360.0;
const WIDTH: f64 = RIGHT - LEFT;
/// Pixels a degree, the same in both directions.
const DEGREE: f64 = WIDTH / TURN;
const HEIGHT: f64 = 180.0 * DEGREE;
/// Degrees between the lines of the graticule.
const STEP: i32 = 30;
/// The class of what matched nobody's interest.
const UNMATCHED: &str = "unmatched";

impl Map {
    /// The map as an SVG document.
    #[must_use]
    pub fn to_svg(&self) -> String {
        const HEAD: f64 = 74.0;
        let (map, height) = self.drawn();
        let content = Group::new()
            .add(text("title", LEFT, 34.0, &self.title))
            .add(text("muted", LEFT, 56.0, &self.subtitle))
            .add(moved(0.0, HEAD, map));
        canvas::document(&format!("{}. {}", self.title, self.subtitle), HEAD + height, content)
    }

    /// The map as a figure for a page with [`figures_style`](crate::plot::figures_style) and a title of its own.
    #[must_use]
    pub fn to_figures(&self) -> String {
        let (map, height) = self.drawn();
        html::figure(&format!("{}. {}", self.title, self.subtitle), height, map)
    }

    fn drawn(&self) -> (Group, f64) {
        let (legend, height) = canvas::legend(LEFT, 12.0, self.legend());
        let top = height + 12.0;
        // Cuts off what reaches over the edge.
        let sea = SVG::new()
            .set("class", "sea")
            .set("x", px(LEFT))
            .set("y", px(top))
            .set("width", px(WIDTH))
            .set("height", px(HEIGHT))
            .add(canvas::rectangle("water", 0.0, 0.0, WIDTH, HEIGHT))
            .add(land())
            .add(graticule())
            .add(self.spots());
        (Group::new().add(legend).add(sea).add(labels(top)), top + HEIGHT + 26.0)
    }

    /// A sample of each fate that there is, and of the sizes.
    fn legend(&self) -> Vec<(Group, String)> {
        let sample = |class: &str, radius| Group::new().set("class", "spots").add(path(class, disc(0.0, 0.0, radius)));
        let mut entries: Vec<(Group, String)> = Fate::ALL
            .into_iter()
            .filter(|fate| self.spots.iter().any(|spot| spot.fate == Some(*fate)))
            .map(|fate| (sample(fate.class(), 5.5), fate.name().to_owned()))
            .collect();
        if self.spots.iter().any(|spot| spot.fate.is_none()) {
            entries.push((sample(UNMATCHED, 5.5), "not matched".to_owned()));
        }
        for magnitude in [5.0, 6.0, 7.0] {
            let ring = Group::new().add(path("axis", disc(0.0, 0.0, radius(Some(magnitude)))));
            entries.push((ring, format!("M {magnitude}")));
        }
        entries
    }

    /// The larger first, so that none hides a smaller one at the same place.
    fn spots(&self) -> Group {
        let mut spots: Vec<&Spot> = self.spots.iter().collect();
        spots.sort_by_key(|spot| (Reverse(spot.magnitude), spot.at));
        let all = Group::new().set("class", "marks points spots");
        spots.into_iter().fold(all, |all, spot| {
            let (x, y) = place(spot.coordinates.longitude(), spot.coordinates.latitude());
            let radius = radius(spot.magnitude.map(Magnitude::value));
            let class = spot.fate.map_or(UNMATCHED, Fate::class);
            let fate = spot.fate.map_or("not matched", Fate::name);
            let told = format!("{}\n{} {}\n{fate}", spot.title, spot.at, spot.id);
            // A circle over an edge goes on at the other one.
            let circles = [-WIDTH, 0.0, WIDTH].into_iter().map(|turn| x + turn);
            let seen = circles.filter(|x| (-radius..=WIDTH + radius).contains(x));
            let d: String = seen.map(|x| disc(x, y, radius)).collect();
            all.add(path(class, d).add(tooltip(&told)))
        })
    }
}

/// Where a place is on the map.
fn place(longitude: f64, latitude: f64) -> (f64, f64) {
    ((longitude - EDGE).rem_euclid(TURN) * DEGREE, (90.0 - latitude) * DEGREE)
}

/// In pixels: half as large again for half a magnitude more. The energy grows much faster, and could not be drawn.
fn radius(magnitude: Option<f64>) -> f64 {
    (3.2 * 1.55_f64.powf(magnitude.unwrap_or(0.0) - 5.0)).clamp(1.4, 26.0)
}

fn land() -> Group {
    let mut all = Group::new().set("class", "land");
    for outline in LAND.lines().filter(|line| !line.starts_with('#')) {
        let points: Vec<(f64, f64)> = outline.split(',').filter_map(point).collect();
        // What crosses the edge is seen at both; so is what only lies a turn further on.
        for turn in [-TURN, 0.0, TURN] {
            let place = |&(longitude, latitude): &(f64, f64)| ((longitude - EDGE + turn) * DEGREE, (90.0 - latitude) * DEGREE);
            if points.iter().any(|point| (0.0..=WIDTH).contains(&place(point).0)) {
                all = all.add(Path::new().set("d", polyline(points.iter().map(place)) + "Z"));
            }
        }
    }
    all
}

/// `longitude latitude`.
fn point(text: &str) -> Option<(f64, f64)> {
    let (longitude, latitude) = text.trim().split_once(' ')?;
    Some((longitude.parse().ok()?, latitude.parse().ok()?))
}

fn graticule() -> Group {
    let mut lines = Group::new();
    for step in 1..360 / STEP {
        let x = f64::from(step * STEP) * DEGREE;
        lines = lines.add(line("grid", (x, 0.0), (x, HEIGHT)));
    }
    for step in 1..180 / STEP {
        let y = f64::from(step * STEP) * DEGREE;
        lines = lines.add(line("grid", (0.0, y), (WIDTH, y)));
    }
    lines
}

fn labels(top: f64) -> Group {
    let mut labels = Group::new();
    for step in 0..=180 / STEP {
        let latitude = 90 - step * STEP;
        let y = top + f64::from(step * STEP) * DEGREE;
        labels = labels.add(text("small muted end", LEFT - 7.0, y + 4.0, &degrees(latitude, "N", "S")));
    }
    for step in 0..=360 / STEP {
        let turned = -30 + step * STEP;
        let longitude = if turned > 180 { turned - 360 } else { turned };
        let x = LEFT + f64::from(step * STEP) * DEGREE;
        let class = if step == 360 / STEP { "small muted end" } else { "small muted middle" };
        labels = labels.add(text(class, x, top + HEIGHT + 17.0, &degrees(longitude, "E", "W")));
    }
    labels
}

/// `30° N`, `0°`.
fn degrees(value: i32, above: &str, below: &str) -> String {
    match value {
        0 | 180 => format!("{value}°"),
        1.. => format!("{value}° {above}"),
        _ => format!("{}° {below}", -value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outline_is_of_places_on_the_globe() {
        let mut outlines = 0;
        for outline in LAND.lines().filter(|line| !line.starts_with('#')) {
            let points: Vec<_> = outline.split(',').map(|text| point(text).expect(text)).collect();
            assert!(points.len() >= 3, "{outline}");
            assert!(points.iter().all(|(x, y)| (-180.0..=190.0).contains(x) && (-90.0..=90.0).contains(y)), "{outline}");
            outlines += 1;
        }
        assert!(outlines > 40);
    }

    #[test]
    fn the_pacific_is_in_one_piece_and_nothing_lies_outside() {
        let x = |longitude| place(longitude, 0.0).0;
        assert!(x(-30.0).abs() < 1e-9 && x(179.0) < x(180.0) && x(180.0) < x(-179.0) && x(-31.0) < WIDTH);
        assert!((x(180.0) - x(-180.0)).abs() < 1e-9);
        assert_eq!((place(0.0, 90.0).1, place(0.0, -90.0).1), (0.0, HEIGHT));
        assert_eq!([0, 30, -60, 180].map(|value| degrees(value, "E", "W")), ["0°", "30° E", "60° W", "180°"]);
    }
}
