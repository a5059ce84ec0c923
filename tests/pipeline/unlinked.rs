//! Two networks' solutions that no id links: one quake makes one alert, and none is lost.

use std::fs;
use std::path::Path;

use throttler::clock::Clock;
use throttler::identity::unlinked::Likeness;
use throttler::time::Span;

use crate::rig::{HOUR, MINUTE, Quake, Rig, magnitude};

/// Bruno wants M 5.5 or more, anna 5.0.
async fn with_two() -> Rig {
    let mut rig = Rig::fresh().await;
    let mut bruno = rig.hooked("bruno");
    bruno.interest.min_magnitude = magnitude(5.5);
    rig.add(&[rig.hooked("anna"), bruno]);
    rig.poll().await;
    rig.pass(1);
    rig
}

/// The same quake by another network, some seconds and a fifth of a degree apart.
fn sibling(quake: &Quake, id: &str, magnitude: f64) -> Quake {
    let origin_at = quake.origin_at.plus(Span::from_millis(3_400));
    Quake { latitude: quake.latitude + 0.2, ..Quake::at(id, magnitude, origin_at, quake.updated_at) }
}

fn history(rig: &Rig, id: &str) -> Vec<String> {
    let rows = rig.store().history(&id.parse().expect("an id")).expect("the history");
    rows.into_iter().map(|row| format!("{}: {}", row.event.id, row.changes)).collect()
}

#[tokio::test]
async fn two_solutions_of_one_quake_alert_once_and_the_history_says_why() {
    let mut rig = with_two().await;
    let first = Quake::new(&rig, "at1", 5.2, 12 * MINUTE);
    rig.see(std::slice::from_ref(&first)).await;
    rig.pass(5 * MINUTE);
    let second = sibling(&first, "us1", 5.7);
    rig.show(&[first.clone(), second.clone()]);
    let notes = rig.poll().await.notes;
    let why = "taken for the quake of at1: 3.400 s, 22 km and 0.5 magnitudes apart";
    assert_eq!(notes, [format!("us1 is {why}")]);
    rig.restart().await;
    rig.settle().await;
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near at1"]);
    assert_eq!(rig.hooks("bruno"), ["M 5.7 - near us1"], "what only the other solution makes large enough is news");
    for id in ["at1", "us1"] {
        assert_eq!(history(&rig, id), ["at1: new".to_owned(), format!("us1: new, {why}")]);
        assert_eq!(rig.store().ledger(None, Some(&id.parse().expect("an id"))).expect("the ledger").len(), 2);
    }
    // The service links them, in either direction.
    rig.pass(5 * MINUTE);
    let linked = Quake { other_ids: vec!["at1".into()], ..second.revised(5.8) };
    rig.see(std::slice::from_ref(&linked)).await;
    rig.pass(2 * HOUR);
    rig.see(&[linked.revised(5.9)]).await;
    assert_eq!((rig.hooks("anna").len(), rig.hooks("bruno").len()), (1, 1));
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE fate = 'merged' AND duplicate_of IS NULL"), 1);
    rig.check_books();
}

#[tokio::test]
async fn both_in_one_poll_are_one_quake_too_and_so_is_a_third() {
    let mut rig = with_two().await;
    let first = Quake::new(&rig, "pt1", 5.9, 10 * MINUTE);
    let all = [first.clone(), sibling(&first, "at1", 5.8), Quake { id: "us1".into(), ..sibling(&first, "us1", 5.7) }];
    rig.see(&all[..2]).await;
    rig.pass(MINUTE);
    rig.see(&all).await;
    assert_eq!((rig.hooks("anna").len(), rig.hooks("bruno").len()), (1, 1));
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE duplicate_of = 1"), 2);
}

#[tokio::test]
async fn of_a_quake_that_was_there_at_the_start_another_solution_is_no_news_unless_it_is_larger() {
    let mut rig = Rig::fresh().await;
    let mut bruno = rig.hooked("bruno");
    bruno.interest.min_magnitude = magnitude(5.5);
    rig.add(&[rig.hooked("anna"), bruno]);
    let first = Quake::new(&rig, "at1", 5.2, 12 * MINUTE);
    rig.see(std::slice::from_ref(&first)).await;
    rig.pass(MINUTE);
    rig.see(&[first.clone(), sibling(&first, "us1", 5.7)]).await;
    assert_eq!(rig.hooks("anna"), [""; 0]);
    assert_eq!(rig.hooks("bruno"), ["M 5.7 - near us1"]);
}

#[tokio::test]
async fn a_new_subscriber_does_not_hear_of_another_solution_of_what_was_there_before() {
    let mut rig = with_two().await;
    let first = Quake::new(&rig, "at1", 5.2, 12 * MINUTE);
    rig.see(std::slice::from_ref(&first)).await;
    rig.pass(MINUTE);
    rig.add(&[rig.hooked("clara")]);
    rig.pass(MINUTE);
    rig.see(&[first.clone(), sibling(&first, "us1", 5.3)]).await;
    assert_eq!(rig.hooks("clara"), [""; 0]);
}

#[tokio::test]
async fn solutions_that_stay_side_by_side_unlinked_are_two_quakes_and_none_is_lost() {
    let mut rig = with_two().await;
    let first = Quake::new(&rig, "at1", 5.6, 12 * MINUTE);
    let both = [first.clone(), sibling(&first, "us1", 5.7)];
    rig.see(&both).await;
    let told = rig.hooks("anna").len();
    assert_eq!(told, 1);
    rig.pass(HOUR - 1);
    rig.restart().await;
    rig.see(&both).await;
    assert_eq!(rig.hooks("anna").len(), 1, "the service may still link them");
    rig.pass(1);
    rig.see(&both).await;
    assert_eq!(rig.hooks("anna"), ["M 5.7 - near us1", "M 5.6 - near at1 (late)"], "an alert more rather than a quake lost");
    assert_eq!(rig.hooks("bruno").len(), 2);
    let why = "a quake of its own after all, not that of at1, shown beside it for 1h";
    assert!(history(&rig, "us1").last().is_some_and(|last| last.contains(why)) || history(&rig, "at1").concat().contains("us1"));
    // It stays so, and a later link alerts nobody.
    rig.pass(MINUTE);
    rig.see(&both).await;
    rig.pass(MINUTE);
    rig.see(&[Quake { other_ids: vec!["at1".into()], ..both[1].revised(5.8) }]).await;
    assert_eq!((rig.hooks("anna").len(), rig.hooks("bruno").len()), (2, 2));
    rig.check_books();
}

#[tokio::test]
async fn one_that_leaves_the_feed_is_not_shown_side_by_side() {
    let mut rig = with_two().await;
    let first = Quake::new(&rig, "at1", 5.6, 12 * MINUTE);
    let second = sibling(&first, "us1", 5.7);
    rig.see(&[first.clone(), second.clone()]).await;
    for _ in 0..5 {
        rig.pass(HOUR);
        rig.see(std::slice::from_ref(&second)).await;
    }
    assert_eq!(rig.hooks("anna").len(), 1);
}

#[tokio::test]
async fn a_revision_that_makes_them_unlike_parts_them_at_once() {
    let mut rig = with_two().await;
    let first = Quake::new(&rig, "at1", 5.6, 12 * MINUTE);
    rig.see(std::slice::from_ref(&first)).await;
    rig.pass(MINUTE);
    let second = sibling(&first, "us1", 5.7);
    rig.see(&[first.clone(), second.clone()]).await;
    assert_eq!(rig.hooks("anna").len(), 1);
    rig.pass(MINUTE);
    let moved = Quake { origin_at: second.origin_at.plus(Span::from_seconds(40)), ..second.revised(5.7) };
    rig.see(&[first, moved]).await;
    assert_eq!(rig.hooks("anna").len(), 2);
    assert!(history(&rig, "us1").concat().contains("not that of at1, now 43.400 s, 22 km and 0.1 magnitudes apart"));
    rig.check_books();
}

#[tokio::test]
async fn an_aftershock_is_never_swallowed() {
    let mut rig = with_two().await;
    let main = Quake::new(&rig, "us1", 6.8, MINUTE);
    let seconds =
        |id: &str, size: f64, later: u64| Quake::at(id, size, main.origin_at.plus(Span::from_seconds(later)), main.updated_at);
    let quakes = [
        main.clone(),
        seconds("us2", 6.7, 3),
        seconds("at3", 6.5, 12),
        // Alike to us1 and to us2: it may be either, so it is neither.
        seconds("pt4", 6.6, 1),
    ];
    rig.see(&quakes).await;
    assert_eq!(rig.hooks("anna").len(), 4);
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE duplicate_of IS NOT NULL"), 0);
}

#[tokio::test]
async fn the_rule_can_be_turned_off() {
    let mut rig = with_two().await;
    rig.rules.likeness = Likeness { within: Span::from_ticks(0), ..Likeness::default() };
    rig.restart().await;
    let first = Quake::new(&rig, "at1", 5.6, 12 * MINUTE);
    rig.see(&[first.clone(), sibling(&first, "us1", 5.7)]).await;
    assert_eq!(rig.hooks("anna").len(), 2);
    assert!(rig.clock.now() > first.origin_at);
}

#[tokio::test]
async fn a_link_to_one_of_joined_solutions_leaves_the_others_joined() {
    let mut rig = with_two().await;
    let first = Quake::new(&rig, "pt1", 5.9, 10 * MINUTE);
    let (second, third) = (sibling(&first, "at1", 5.8), Quake { latitude: 52.6, ..sibling(&first, "us1", 5.7) });
    rig.see(std::slice::from_ref(&first)).await;
    rig.pass(MINUTE);
    rig.see(&[first.clone(), second.clone(), third.clone()]).await;
    rig.pass(MINUTE);
    // us1 takes in at1; both were taken for the quake of pt1.
    rig.see(&[first.clone(), Quake { other_ids: vec!["at1".into()], ..third.revised(6.1) }]).await;
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE duplicate_of = 1"), 1);
    rig.pass(MINUTE);
    // An unrelated row is linked to a joined one: the link to the quake goes over to the survivor.
    rig.see(&[Quake { other_ids: vec!["us1".into()], ..first.revised(6.2) }]).await;
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE duplicate_of IS NOT NULL"), 0);
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE merged_into = 1"), 2);
    assert_eq!((rig.hooks("anna").len(), rig.hooks("bruno").len()), (1, 1));
    rig.check_books();
}

/// The captured polls of 2025-08-05 in order; empty, saying so, where they are not at hand.
fn captured() -> Vec<serde_json::Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/polls/2025-08-05_geojson");
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: there is no {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| serde_json::from_slice(&fs::read(path).expect("a capture")).expect("JSON")).collect()
}

/// Feeds the polls to a daemon as they came; what anna got.
async fn fed(polls: &[serde_json::Value]) -> Vec<String> {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    rig.poll().await;
    for poll in polls {
        let generated = poll["metadata"]["generated"].as_i64().expect("when it was made");
        rig.clock.set(throttler::time::Timestamp::from_millis(generated).expect("a time"));
        fs::write(rig.path("feed.geojson"), poll.to_string()).expect("written");
        rig.restart().await;
        rig.poll().await;
        rig.settle().await;
    }
    rig.check_books();
    rig.hooks("anna")
}

#[tokio::test]
async fn the_quake_of_2025_08_05_alerts_once_through_three_ids_even_if_nothing_linked_them() {
    let mut polls = captured();
    if polls.is_empty() {
        return;
    }
    let linked = fed(&polls).await;
    assert_eq!(linked.len(), 1, "{linked:?}");
    for feature in polls.iter_mut().flat_map(|poll| poll["features"].as_array_mut().expect("features")) {
        feature["properties"]["ids"] = format!(",{},", feature["id"].as_str().expect("an id")).into();
    }
    assert_eq!(fed(&polls).await, linked);
}
