//! What is news and to whom: first start, revisions, renames, merges, age.

use std::fs;

use throttler::news::FirstRun;
use throttler::plan::Outcome;

use crate::rig::{HOUR, MINUTE, Quake, Rig, magnitude, mailed, name};

/// A rig with anna, who gets webhooks of M 5.0 or more, after its first poll.
async fn with_anna() -> Rig {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    rig.poll().await;
    rig
}

#[tokio::test]
async fn at_the_first_start_what_is_in_the_feed_is_known_already() {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    let old = Quake::new(&rig, "us1", 6.1, 10 * MINUTE);
    rig.see(std::slice::from_ref(&old)).await;
    rig.pass(MINUTE);
    let new = Quake::new(&rig, "us2", 5.2, 5 * MINUTE);
    rig.see(&[new, old.revised(6.3)]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us2"], "neither at the first poll nor when it is revised");
    rig.check_books();
}

#[tokio::test]
async fn at_the_first_start_the_feed_is_news_if_the_operator_says_so() {
    let mut rig = Rig::fresh().await;
    rig.rules.first_run = FirstRun::Alert;
    rig.restart().await;
    rig.add(&[rig.hooked("anna")]);
    rig.see(&[Quake::new(&rig, "us1", 6.1, 10 * MINUTE), Quake::new(&rig, "us0", 6.4, 25 * HOUR)]).await;
    assert_eq!(rig.hooks("anna"), ["M 6.1 - near us1"], "what is too old is no news even then");
}

#[tokio::test]
async fn what_was_too_small_at_the_first_start_is_news_when_it_grows() {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    let quake = Quake::new(&rig, "us1", 4.7, 10 * MINUTE);
    let unrecorded = Quake::new(&rig, "us2", 4.4, 10 * MINUTE);
    rig.see(&[quake.clone(), unrecorded.clone()]).await;
    rig.pass(MINUTE);
    rig.see(&[quake.revised(5.1), unrecorded.revised(5.2)]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us2", "M 5.1 - near us1"], "largest first");
}

#[tokio::test]
async fn a_magnitude_that_is_unknown_then_small_then_large_alerts_once() {
    for recorded_from in [4.5, 5.0] {
        let mut rig = with_anna().await;
        rig.rules.min_magnitude = magnitude(recorded_from);
        rig.restart().await;
        let mut quake = Quake::new(&rig, "us1", 5.0, 5 * MINUTE).revised(None);
        for (value, alerts) in [(None, 0), (Some(4.92), 0), (Some(5.07), 1), (Some(5.07), 1), (Some(5.3), 1)] {
            rig.pass(MINUTE);
            quake = quake.revised(value);
            rig.see(std::slice::from_ref(&quake)).await;
            assert_eq!(rig.hooks("anna").len(), alerts, "after {value:?}, recorded from {recorded_from}");
        }
        assert_eq!(rig.outcomes("anna"), ["us1 alerted"]);
    }
}

#[tokio::test]
async fn the_raw_magnitude_counts_not_the_rounded_title() {
    let mut rig = with_anna().await;
    rig.see(&[Quake::new(&rig, "us1", 4.95, MINUTE), Quake::new(&rig, "us2", 5.0, MINUTE)]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.0 - near us2"]);
}

#[tokio::test]
async fn a_rename_linked_through_the_ids_is_no_second_alert() {
    let mut rig = with_anna().await;
    let first = Quake::new(&rig, "pt25217001", 5.7, 10 * MINUTE);
    rig.see(std::slice::from_ref(&first)).await;
    let second = first.renamed("us6000qy7q").revised(5.9);
    let third = second.renamed("pr2025217000");
    for version in [second, third] {
        rig.pass(5 * MINUTE);
        rig.see(&[version]).await;
    }
    assert_eq!(rig.hooks("anna"), ["M 5.7 - near pt25217001"]);
    let store = rig.store();
    for id in ["pt25217001", "us6000qy7q", "pr2025217000"] {
        let rows = store.ledger(None, Some(&id.parse().expect("an id"))).expect("the ledger");
        assert_eq!(rows.len(), 1, "the ledger finds it by {id}");
    }
}

#[tokio::test]
async fn two_known_events_that_merge_alert_nobody_a_second_time() {
    let mut rig = Rig::fresh().await;
    let mut bruno = rig.hooked("bruno");
    bruno.interest.min_magnitude = magnitude(5.5);
    rig.add(&[rig.hooked("anna"), bruno]);
    rig.poll().await;
    let first = Quake::new(&rig, "at1", 5.2, 12 * MINUTE);
    rig.see(std::slice::from_ref(&first)).await;
    rig.pass(5 * MINUTE);
    let second = Quake::new(&rig, "us2", 5.8, 16 * MINUTE);
    rig.see(&[first.clone(), second.clone()]).await;
    assert_eq!(rig.hooks("anna").len(), 2, "nothing links the two yet, and a minute lies between them");
    assert_eq!(rig.hooks("bruno"), ["M 5.8 - near us2"]);
    rig.pass(5 * MINUTE);
    let merged = Quake { other_ids: vec!["at1".into()], ..second.revised(5.9) };
    rig.see(&[merged]).await;
    rig.pass(5 * MINUTE);
    rig.see(&[second.revised(6.0)]).await;
    assert_eq!(rig.hooks("anna").len(), 2);
    assert_eq!(rig.hooks("bruno").len(), 1, "who had either is not told again");
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE fate = 'merged'"), 1);
    let rows = rig.store().ledger(None, Some(&"at1".parse().expect("an id"))).expect("the ledger");
    assert_eq!(rows.len(), 3, "the history of both is kept, and found by either id");
    rig.check_books();
}

#[tokio::test]
async fn merging_what_everybody_knew_makes_no_news() {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    // Both stood in the feed at the first start: the one that survives did not match anna's interest, the other did.
    let small = Quake::new(&rig, "at1", 4.6, 12 * MINUTE);
    let large = Quake::new(&rig, "us2", 5.1, 12 * MINUTE);
    rig.see(&[small.clone(), large.clone()]).await;
    rig.pass(MINUTE);
    rig.see(&[Quake { other_ids: vec!["at1".into()], ..large.revised(5.1) }]).await;
    assert_eq!(rig.hooks("anna"), [""; 0]);
}

#[tokio::test]
async fn an_event_that_merges_into_an_implausible_one_is_not_lost() {
    let mut rig = with_anna().await;
    let future = Quake { origin_at: "2025-09-01T00:00:00Z".parse().expect("a time"), ..Quake::new(&rig, "at1", 5.5, 0) };
    rig.see(std::slice::from_ref(&future)).await;
    let real = Quake::new(&rig, "us2", 5.6, MINUTE);
    rig.show(&[future, real.clone()]);
    rig.poll().await;
    // Before anybody was asked about it, it turns out to be the other.
    rig.pass(1);
    rig.see(&[Quake { other_ids: vec!["at1".into()], ..real.revised(5.6) }]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.6 - near us2"]);
}

#[tokio::test]
async fn an_event_that_shrinks_vanishes_and_returns_is_no_news() {
    let mut rig = with_anna().await;
    let quake = Quake::new(&rig, "us1", 5.1, 5 * MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    for shown in [vec![quake.revised(4.7)], vec![], vec![quake.revised(4.7).revised(5.1)], vec![]] {
        rig.pass(10 * MINUTE);
        rig.see(&shown).await;
    }
    assert_eq!(rig.hooks("anna"), ["M 5.1 - near us1"]);
    assert_eq!(rig.outcomes("anna"), ["us1 alerted"], "and it is not taken for deleted");
}

#[tokio::test]
async fn an_event_published_late_is_marked_and_one_too_old_is_only_recorded() {
    let mut rig = with_anna().await;
    let quakes = [
        Quake::new(&rig, "us1", 5.1, 65 * MINUTE),
        Quake::new(&rig, "us2", 5.2, 23 * HOUR),
        Quake::new(&rig, "us3", 5.3, 24 * HOUR + 1),
        Quake::new(&rig, "us4", 5.4, 60 * MINUTE),
    ];
    rig.see(&quakes).await;
    let late: Vec<_> =
        rig.receiver.requests().into_iter().map(|r| (r.body["event"]["id"].clone(), r.body["late"].clone())).collect();
    assert_eq!(late, [("us4".into(), false.into()), ("us2".into(), true.into()), ("us1".into(), true.into())]);
    assert!(rig.store().event(&"us3".parse().expect("an id")).expect("read").is_some(), "recorded");
    rig.pass(MINUTE);
    rig.see(&[quakes[2].revised(6.6)]).await;
    assert_eq!(rig.hooks("anna").len(), 3, "nor is a revision of it news");
}

#[tokio::test]
async fn a_revision_past_the_maximum_age_makes_no_alert() {
    let mut rig = with_anna().await;
    let quake = Quake::new(&rig, "us1", 4.9, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    rig.pass(25 * HOUR);
    rig.see(&[quake.revised(5.1)]).await;
    assert_eq!(rig.hooks("anna"), [""; 0]);
    assert_eq!(rig.number("SELECT count(*) FROM revisions"), 2, "but it is recorded");
}

#[tokio::test]
async fn what_was_recorded_in_time_is_alerted_even_if_the_daemon_was_down_and_it_was_revised_meanwhile() {
    let mut rig = with_anna().await;
    let quake = Quake::new(&rig, "us1", 5.1, MINUTE);
    rig.show(std::slice::from_ref(&quake));
    rig.poll().await;
    rig.restart().await;
    rig.pass(25 * HOUR);
    rig.see(&[quake.revised(5.2)]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.2 - near us1 (late)"]);
}

#[tokio::test]
async fn an_origin_in_the_future_is_alerted_once_it_is_corrected_into_the_present() {
    let mut rig = with_anna().await;
    let origin_at = rig.clock_plus(2 * HOUR);
    let quake = Quake { origin_at, ..Quake::new(&rig, "us1", 5.5, 0) };
    let ancient = Quake { origin_at, ..Quake::new(&rig, "us2", 6.5, 0) };
    rig.see(&[quake.clone(), ancient.clone()]).await;
    rig.pass(MINUTE);
    rig.see(&[quake.revised(5.6), ancient.revised(6.6)]).await;
    assert_eq!(rig.hooks("anna"), [""; 0], "a revision that leaves it in the future is no news");
    rig.pass(MINUTE);
    let corrected = Quake { origin_at: rig.clock_minus(10 * MINUTE), ..quake.revised(5.6).revised(5.6) };
    let in_1925 = Quake { origin_at: "1925-06-29T14:42:00Z".parse().expect("a time"), ..ancient.revised(6.6).revised(6.6) };
    rig.see(&[corrected, in_1925]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.6 - near us1"], "and one that is corrected into the past is none either");
}

#[tokio::test]
async fn a_clock_a_little_behind_the_services_hides_nothing() {
    let mut rig = with_anna().await;
    let quake = Quake { origin_at: rig.clock_plus(4 * MINUTE), ..Quake::new(&rig, "us1", 5.5, 0) };
    rig.see(&[quake]).await;
    assert_eq!(rig.hooks("anna"), ["M 5.5 - near us1"]);
}

#[tokio::test]
async fn of_several_in_one_poll_the_largest_is_decided_first() {
    let mut rig = with_anna().await;
    rig.set("anna", |anna| anna.policy.limit = crate::rig::limit(throttler::limiter::Algorithm::SlidingLog, "2/h", None));
    let sizes = [5.1, 6.4, 5.0, 7.2, 5.8];
    let quakes: Vec<_> =
        sizes.iter().enumerate().map(|(at, size)| Quake::new(&rig, &format!("us{at}"), *size, 60 * at as u64)).collect();
    rig.see(&quakes).await;
    assert_eq!(rig.hooks("anna"), ["M 7.2 - near us3", "M 6.4 - near us1"]);
    let withheld = rig.ledger().into_iter().filter(|row| row.outcome == Outcome::Withheld).count();
    assert_eq!(withheld, 3);
    rig.check_books();
}

#[tokio::test]
async fn a_poll_that_fails_or_shows_the_same_changes_nothing() {
    let mut rig = Rig::with(&[mailed("anna")]).await;
    let quake = Quake::new(&rig, "us1", 5.1, MINUTE);
    rig.see(std::slice::from_ref(&quake)).await;
    rig.pass(MINUTE);
    for body in ["", "<html>", "{\"type\":\"FeatureCollection\",\"features\":["] {
        fs::write(rig.path("feed.geojson"), body).expect("written");
        assert!(rig.parts().ingester.poll().await.is_err(), "{body:?}");
        rig.settle().await;
    }
    // An older copy out of a cache, without the event.
    let now = throttler::clock::Clock::now(&*rig.clock);
    rig.clock.set(now.minus(throttler::time::Span::from_seconds(HOUR)));
    rig.show(&[]);
    rig.clock.set(now);
    assert_eq!(rig.poll().await, throttler::store::Ingested::default());
    rig.pass(MINUTE);
    let second = Quake::new(&rig, "us2", 5.2, MINUTE);
    rig.see(&[second, quake]).await;
    assert_eq!(rig.mails(), ["M 5.1 - near us1", "M 5.2 - near us2"]);
    assert_eq!(rig.store().subscriber(&name("anna")).expect("anna").subscriber.name.as_str(), "anna");
}
