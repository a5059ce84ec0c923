//! Scenes: the two days of the M8.8, eleven years, and texts that want to break out.

use throttler::catalogue::{Filter, Query, read_events};
use throttler::event::Event;
use throttler::limiter::{Algorithm, Limit};
use throttler::plot::{Fate, Row, Scene, Stretch};

use crate::support::{assert_is_file, assert_is_golden, at, catalogue, rate};

const FROM: &str = "2025-07-29T12:00:00Z";
const TO: &str = "2025-07-31T12:00:00Z";

fn events(filter: Filter) -> Vec<Event> {
    let query = Query { filter, ..Query::default() };
    read_events(&mut catalogue(), &query).expect("the catalogue").0
}

fn two_days() -> Vec<Event> {
    events(Filter { from: Some(at(FROM)), to: Some(at(TO)), ..Filter::default() })
}

fn all_limiters(bucket: u64) -> Vec<Limit> {
    let limit = |algorithm: Algorithm| Limit::new(algorithm, rate("5/h"), algorithm.has_bucket().then_some(bucket));
    Algorithm::ALL.into_iter().map(|algorithm| limit(algorithm).expect("a limit")).collect()
}

fn scene(title: &str, stretch: &Stretch<'_>, limits: Vec<Limit>) -> Scene {
    let subtitle = format!("{} to {}", stretch.from, stretch.to);
    let rows = limits.into_iter().map(|limit| Row::replay(limit, stretch).0).collect();
    Scene { title: title.to_owned(), subtitle, from: stretch.from, to: stretch.to, rows }
}

fn scene_of_two_days(events: &[Event]) -> Scene {
    let stretch = Stretch::of(events, Some(at(FROM)), Some(at(TO))).expect("there are events");
    scene("Five limiters and the M8.8", &stretch, all_limiters(5))
}

/// The picture of the README. By hand: `throttler replay data/quakes_2015_2025.csv --limiter token-bucket --bucket 5
/// --bucket 74 --from 2025-07-29T12:00:00Z --to 2025-07-31T12:00:00Z --plot docs/scene.svg`, but for the title.
#[test]
fn the_picture_of_the_readme_is_current() {
    let events = two_days();
    let stretch = Stretch::of(&events, Some(at(FROM)), Some(at(TO))).expect("there are events");
    let bucket = |bucket| Limit::new(Algorithm::TokenBucket, rate("5/h"), Some(bucket)).expect("a limit");
    let mut scene = scene("The two days of the M8.8: a bucket of 5 and one of 74", &stretch, vec![bucket(5), bucket(74)]);
    scene.subtitle = "189 earthquakes of M 5.0 or more, 2025-07-29 12:00 to 2025-07-31 12:00 UTC".to_owned();
    let svg = scene.to_svg();
    assert!(svg.len() < 200_000, "{} bytes", svg.len());
    assert_is_file("docs/scene.svg", &svg);
}

#[test]
fn a_row_tells_what_the_replay_counts() {
    let events = two_days();
    let rows = scene_of_two_days(&events).rows;
    let told: Vec<_> = rows.iter().map(|row| (row.count(Fate::Passed), row.busiest.expect("some passed").count)).collect();
    assert_eq!(told, [(114, 9), (107, 5), (111, 7), (120, 9), (120, 5)]);
    for row in &rows {
        let busiest = row.busiest.expect("some passed");
        // Departures between two ticks are shown rounded, so one may seem to lie outside.
        let within =
            row.decisions.iter().filter(|m| m.fate == Fate::Passed && m.departs_at >= busiest.from && m.departs_at < busiest.to);
        assert!(within.count() as u64 >= busiest.count - 1, "{}: the bracket stands over the busiest window", row.name);
        assert_eq!(row.level.is_empty(), row.limit.bucket().is_none());
        assert!(row.level.iter().all(|(_, level)| (0.0..=5.0).contains(level)), "{}", row.name);
        assert!(row.level.is_sorted_by_key(|(at, _)| *at), "{}", row.name);
    }
}

/// Short enough that somebody reads the file.
#[test]
fn five_limiters_and_the_first_hour() {
    let (from, to) = (at("2025-07-29T23:00:00Z"), at("2025-07-30T00:00:00Z"));
    let events = events(Filter { from: Some(from), to: Some(to), ..Filter::default() });
    let stretch = Stretch::of(&events, Some(from), Some(to)).expect("there are events");
    let scene = scene("Five limiters and the first hour of the M8.8", &stretch, all_limiters(5));
    assert_is_golden("scene.svg", &scene.to_svg());
    assert_is_golden("report.html", &scene.to_html());
}

#[test]
fn eleven_years_stay_small() {
    let events = events(Filter::default());
    let stretch = Stretch::of(&events, None, None).expect("there are events");
    let scene = scene("Five limiters and eleven years", &stretch, all_limiters(74));
    let (svg, html) = (scene.to_svg(), scene.to_html());
    assert!(svg.len() < 300_000, "{} bytes", svg.len());
    assert!(html.len() < 1_500_000, "{} bytes", html.len());
    assert!(html.contains("18,738 passed"), "{}", scene.rows[3].counts());
}

/// Whatever stands in a catalogue stays text: neither markup nor script nor attribute.
#[test]
fn hostile_places_stay_text() {
    let mut events = two_days();
    events.truncate(3);
    let hostile = "</title></svg></script><script>alert(1)</script>\" onload='x' ]]><!-- \u{0}\u{202e}&";
    events[0].place = hostile.to_owned();
    let stretch = Stretch::of(&events, None, None).expect("there are events");
    let mut scene = scene(hostile, &stretch, all_limiters(5));
    scene.rows[0].name = hostile.to_owned();
    for document in [scene.to_svg(), scene.to_html()] {
        assert!(!document.contains("<script>alert") && !document.contains("<!--"), "{document}");
        assert!(!document.contains(['\u{0}', '\u{202e}']));
        // What stands between an opening angle and the next closing one is a tag with its attributes.
        let tags = document.split('<').skip(1).filter_map(|rest| rest.split_once('>').map(|(tag, _)| tag));
        assert!(tags.clone().all(|tag| !tag.contains("onload=\"") && !tag.contains("onload='")), "{document}");
        assert!(tags.count() > 10 && document.contains("&lt;script&gt;alert(1)"));
    }
    assert_eq!(scene.to_html().matches("<script").count(), 1, "only the page's own");
}

/// The page's policy names its own script and style by hash; both must be what stands there.
#[test]
fn the_report_allows_only_its_own_script_and_style() {
    use base64::Engine as _;
    use sha2::Digest as _;

    let html = scene_of_two_days(&two_days()).to_html();
    for (tag, directive) in [("script", "script-src"), ("style", "style-src")] {
        let (_, rest) = html.split_once(&format!("<{tag}>")).expect(tag);
        let (content, _) = rest.split_once(&format!("</{tag}>")).expect(tag);
        let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(content));
        assert!(html.contains(&format!("{directive} 'sha256-{hash}';")), "{tag}");
    }
    for foreign in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains(foreign), "{foreign}");
    }
}

#[test]
fn one_event_and_none_are_pictures_too() {
    let mut events = two_days();
    events.truncate(1);
    events[0].magnitude = None;
    let stretch = Stretch::of(&events, None, None).expect("there is one");
    for document in [scene("One", &stretch, all_limiters(5)).to_svg(), scene("None", &stretch, Vec::new()).to_html()] {
        assert!(!document.contains("NaN") && !document.contains("inf"), "{document}");
    }
    assert!(Stretch::of(&[], None, None).is_none());
}
