//! The scene of stored subscribers: what each would have got, told in the daemon's words.

use throttler::catalogue::{Filter, Query, read_events};
use throttler::event::Event;
use throttler::limiter::{Algorithm, Limit, Policy, Reserve};
use throttler::plot::{Fate, Row, Scene, Stretch};
use throttler::replay::replay_stored;
use throttler::subscriber::{Excess, Mode, Subscriber};

use crate::support::{assert_is_golden, at, catalogue, rate};

const FROM: &str = "2025-07-29T12:00:00Z";
const TO: &str = "2025-07-31T12:00:00Z";

fn events() -> Vec<Event> {
    let filter = Filter { from: Some(at(FROM)), to: Some(at(TO)), ..Filter::default() };
    read_events(&mut catalogue(), &Query { filter, ..Query::default() }).expect("the catalogue").0
}

fn subscriber(name: &str, limit: Limit, change: impl FnOnce(&mut Subscriber)) -> Subscriber {
    let document = serde_json::json!({
        "name": name,
        "destination": { "email": "anna@example.org" },
        "policy": Policy::plain(limit),
    });
    let mut subscriber: Subscriber = serde_json::from_value(document).expect("a subscriber");
    change(&mut subscriber);
    subscriber
}

/// One for each way in which an event can end.
fn subscribers() -> Vec<Subscriber> {
    let bucket = |text: &str, bucket| Limit::new(Algorithm::TokenBucket, rate(text), Some(bucket)).expect("a limit");
    let queue = Limit::new(Algorithm::LeakyBucket, rate("5/h"), Some(5)).expect("a limit");
    vec![
        subscriber("digest", bucket("5/h", 5), |_| {}),
        subscriber("delay", bucket("5/h", 5), |s| s.excess = Excess::Delay),
        subscriber("drop", bucket("4/h", 10), |s| {
            s.excess = Excess::Drop;
            s.policy.reserve = Some(Reserve { keep: 3, from: "6".parse().expect("a magnitude") });
            s.policy.always_from = Some("6.5".parse().expect("a magnitude"));
        }),
        subscriber("queue", queue, |_| {}),
        subscriber("quiet", bucket("5/h", 5), |s| {
            let hours = serde_json::json!({ "hours": "22:00-07:00", "below": 6.5 });
            s.quiet = serde_json::from_value(hours).expect("quiet hours");
        }),
        subscriber("shadow", bucket("5/h", 5), |s| s.mode = Mode::Shadow),
    ]
}

#[test]
fn a_row_counts_what_the_replay_counts() {
    let events = events();
    let stretch = Stretch::of(&events, None, None).expect("there are events");
    for subscriber in subscribers() {
        let (row, told) = Row::replay_stored(&subscriber, &stretch);
        assert_eq!(told, replay_stored(&subscriber, &events), "{}", row.name);
        let count = |fate| row.count(fate) as u64;
        assert_eq!(row.decisions.len() as u64, told.offered, "{}", row.name);
        assert_eq!((count(Fate::Delayed), count(Fate::Digested)), (told.delayed, told.digested), "{}", row.name);
        assert_eq!(count(Fate::Withheld), told.withheld, "{}", row.name);
        assert!(row.decisions.is_sorted_by_key(|mark| mark.at) && row.level.is_sorted_by_key(|(at, _)| *at), "{}", row.name);
        let brim = f64::from(row.limit.bucket().expect("a bucket"));
        assert!(row.level.iter().all(|(_, level)| (0.0..=brim).contains(level)), "{}: {:?}", row.name, row.level);
        assert_eq!(row.busiest.map(|busiest| busiest.count), Some(told.busiest_window));
    }
}

#[test]
fn every_mark_says_why() {
    let events = events();
    let stretch = Stretch::of(&events, None, None).expect("there are events");
    let rows: Vec<Row> = subscribers().iter().map(|subscriber| Row::replay_stored(subscriber, &stretch).0).collect();
    let said = |row: usize, fate: Fate| {
        let mark = rows[row].decisions.iter().find(|mark| mark.fate == fate);
        mark.unwrap_or_else(|| panic!("{row}: {fate:?}")).why.clone()
    };
    assert_eq!(said(0, Fate::Alerted), "alerted at once: within the limit, which has room for 4 more now");
    assert!(
        said(0, Fate::Digested).starts_with("in a digest of 1 at 2025-07-29T23:36:52.483Z: the limit is reached"),
        "{}",
        said(0, Fate::Digested)
    );
    assert!(said(1, Fate::Delayed).starts_with("delayed until 2025-07-"), "{}", said(1, Fate::Delayed));
    assert!(said(2, Fate::Withheld).starts_with("withheld: the limit is reached"), "{}", said(2, Fate::Withheld));
    assert!(said(3, Fate::Delayed).contains("leaves in its turn"), "{}", said(3, Fate::Delayed));
    let held = said(4, Fate::Digested);
    assert!(held.starts_with("in a digest of ") && held.contains("held for quiet hours until 07:00 UTC"), "{held}");
    let shadow = rows[5].decisions.iter().filter(|mark| mark.why.contains("shadow mode: it would have been withheld"));
    assert!(shadow.count() > 50 && rows[5].most_in_any_window.is_none(), "nothing bounds shadow mode");
}

#[test]
fn the_scene_of_subscribers() {
    let mut events = events();
    events.retain(|event| (at("2025-07-29T23:00:00Z")..at("2025-07-30T00:00:00Z")).contains(&event.origin_at));
    let stretch = Stretch::of(&events, None, None).expect("there are events");
    let rows: Vec<Row> = subscribers().iter().map(|subscriber| Row::replay_stored(subscriber, &stretch).0).collect();
    for row in &rows {
        let inside = row.level.iter().all(|(at, _)| (stretch.from..=stretch.to).contains(at));
        assert!(inside && row.level.is_sorted_by_key(|(at, _)| *at), "{}: digests that leave later are not shown", row.name);
    }
    let (title, subtitle) = ("What subscribers got".to_owned(), "the first hour of the M8.8".to_owned());
    let scene = Scene { title, subtitle, from: stretch.from, to: stretch.to, rows };
    assert_is_golden("subscribers.svg", &scene.to_svg());
    let html = scene.to_html();
    assert!(html.contains("id=\"show-panel-5\"") && html.contains("in a digest of "), "{html}");
}
