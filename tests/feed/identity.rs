//! One quake, one record: new, same, revised and merged events.

use throttler::event::{Event, PagerLevel};
use throttler::identity::{Change, Identity, Known, merge};
use throttler::interest::Interest;

use crate::support::{at, event, id, magnitude, place};

fn known(records: &[(i64, Event)]) -> Vec<Known<i64>> {
    records.iter().map(|(key, event)| Known { key: *key, event: event.clone() }).collect()
}

#[test]
fn an_event_without_a_common_id_is_new() {
    let seen = event(&["us2"], 1);
    assert_eq!(merge::<i64>(&[], &seen), Identity::New { event: seen.clone() });
    // Same place, time and magnitude: only ids tell.
    assert_eq!(merge(&known(&[(1, event(&["us1"], 1))]), &seen), Identity::New { event: seen });
}

#[test]
fn only_a_later_time_of_change_is_nothing() {
    let seen = event(&["us1"], 9);
    assert_eq!(merge(&known(&[(1, event(&["us1"], 1))]), &seen), Identity::Same { key: 1, event: seen });
}

#[test]
fn each_change_is_named() {
    type Edit = fn(&mut Event);
    let before = event(&["us1"], 1);
    let edits: [(Change, Edit); 12] = [
        (Change::Magnitude, |e| e.magnitude = Some(magnitude(5.07))),
        (Change::Magnitude, |e| e.magnitude = None),
        (Change::Magnitude, |e| e.magnitude_type = Some("mb".into())),
        (Change::Place, |e| e.place = "Mona Passage".into()),
        (Change::Place, |e| e.coordinates = place(18.2, -68.3)),
        (Change::Origin, |e| e.origin_at = at("2025-08-05T09:23:51Z")),
        (Change::Depth, |e| e.depth_km = None),
        (Change::Pager, |e| e.pager = Some(PagerLevel::Red)),
        (Change::Tsunami, |e| e.tsunami = true),
        (Change::Kind, |e| e.kind = "quarry blast".into()),
        (Change::Status, |e| e.status = "deleted".into()),
        (Change::Ids, |e| e.ids.push(id("us9"))),
    ];
    for (change, edit) in edits {
        let mut seen = event(&["us1"], 2);
        edit(&mut seen);
        let found = merge(&known(&[(1, before.clone())]), &seen);
        assert_eq!(found, Identity::Revised { key: 1, event: seen, changes: vec![change] });
    }
}

#[test]
fn only_a_version_that_says_to_be_newer_brings_back_what_was_withdrawn() {
    let mut gone = event(&["us1"], 5);
    gone.status = "deleted".into();
    let mut silent = event(&["us1"], 5);
    silent.updated_at = None;
    for stale in [event(&["us1"], 4), event(&["us1"], 5), silent] {
        assert_eq!(merge(&known(&[(1, gone.clone())]), &stale), Identity::Same { key: 1, event: gone.clone() });
    }
    let back = event(&["us1"], 6);
    let found = merge(&known(&[(1, gone)]), &back);
    assert_eq!(found, Identity::Revised { key: 1, event: back, changes: vec![Change::Status] });
}

#[test]
fn a_new_preferred_id_linked_through_the_others_is_the_same_event() {
    let seen = event(&["us6000qy7q", "pt25217001"], 2);
    let Identity::Revised { key, event, changes } = merge(&known(&[(7, event(&["pt25217001"], 1))]), &seen) else {
        panic!("expected a revision")
    };
    assert_eq!((key, &event), (7, &seen));
    assert_eq!(changes, [Change::PreferredId, Change::Ids]);
}

#[test]
fn an_id_that_the_service_forgets_is_kept() {
    let first = event(&["us1", "pt1"], 1);
    let Identity::Revised { event, changes, .. } = merge(&known(&[(1, first)]), &event(&["us1", "pr1"], 2)) else {
        panic!("expected a revision")
    };
    assert_eq!(event.ids, [id("pr1"), id("pt1"), id("us1")]);
    assert_eq!(changes, [Change::Ids]);
}

#[test]
fn an_older_sighting_brings_only_its_ids() {
    let newer = event(&["us1"], 5);
    let mut stale = event(&["pt1", "us1"], 4);
    stale.magnitude = Some(magnitude(9.0));
    let found = merge(&known(&[(1, newer.clone())]), &stale);
    let kept = Event { ids: vec![id("pt1"), id("us1")], ..newer.clone() };
    assert_eq!(found, Identity::Revised { key: 1, event: kept, changes: vec![Change::Ids] });
    stale.ids = vec![id("us1")];
    stale.id = id("us1");
    assert_eq!(merge(&known(&[(1, newer.clone())]), &stale), Identity::Same { key: 1, event: newer });
}

#[test]
fn without_a_time_of_change_the_later_sighting_is_newer_and_the_time_known_is_kept() {
    let first = event(&["us1"], 5);
    let mut seen = event(&["us1"], 0);
    seen.updated_at = None;
    seen.magnitude = Some(magnitude(6.1));
    let found = merge(&known(&[(1, first.clone())]), &seen);
    assert_eq!(found.event().magnitude, seen.magnitude);
    assert_eq!(found.event().updated_at, first.updated_at);
    // So an old copy from a cache still counts as old.
    let again = merge(&known(&[(1, found.event().clone())]), &event(&["us1"], 4));
    assert_eq!(again, Identity::Same { key: 1, event: found.event().clone() });
}

#[test]
fn two_known_events_that_turn_out_to_be_one_are_merged_into_the_earliest_known() {
    let records = known(&[(9, event(&["us1"], 3)), (4, event(&["pt1", "at1"], 1)), (6, event(&["ci1"], 1))]);
    let mut seen = event(&["us1", "pt1"], 4);
    seen.magnitude = Some(magnitude(5.9));
    let Identity::Merged { key, absorbed, event, changes } = merge(&records, &seen) else { panic!("expected a merger") };
    assert_eq!((key, absorbed), (4, vec![9]));
    assert_eq!(event, Event { ids: vec![id("at1"), id("pt1"), id("us1")], ..seen });
    assert_eq!(changes, [Change::Magnitude, Change::PreferredId, Change::Ids]);
}

#[test]
fn a_merger_by_an_older_sighting_keeps_the_newest_knowledge() {
    let mut newest = event(&["us1"], 8);
    newest.magnitude = Some(magnitude(5.2));
    let found = merge(&known(&[(1, event(&["pt1"], 5)), (2, newest.clone())]), &event(&["pt1", "us1"], 6));
    let Identity::Merged { key: 1, absorbed, event, .. } = found else { panic!("expected a merger into the first") };
    assert_eq!(absorbed, [2]);
    assert_eq!(event, Event { ids: vec![id("pt1"), id("us1")], ..newest });
}

#[test]
fn an_event_that_the_service_splits_stays_one_and_does_not_swing() {
    let mut record = event(&["us1", "pt1"], 3);
    let (us, pt) = (event(&["us1"], 5), event(&["pt1"], 4));
    for seen in [&us, &pt, &us, &pt] {
        let found = merge(&known(&[(1, record.clone())]), seen);
        assert!(matches!(found, Identity::Same { key: 1, .. }), "{found:?}");
        record = found.event().clone();
    }
    assert_eq!((record.id, record.updated_at), (id("us1"), us.updated_at));
}

/// Feeds sightings one after another to one growing list of records, as the store does.
fn records_after(sightings: &[Event]) -> Vec<Known<usize>> {
    let mut records: Vec<Known<usize>> = Vec::new();
    for seen in sightings {
        crate::support::remember(&mut records, seen);
    }
    records
}

#[test]
fn the_order_of_sightings_does_not_matter_for_who_is_who() {
    let versions = [event(&["pt1"], 1), event(&["us1"], 2), event(&["pr1", "us1"], 3), event(&["us1", "pt1"], 4)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 0, 2, 3], [2, 0, 3, 1], [0, 2, 1, 3]] {
        let records = records_after(&order.map(|index: usize| versions[index].clone()));
        assert_eq!(records.len(), 1, "{order:?}");
        assert_eq!(records[0].event.ids, [id("pr1"), id("pt1"), id("us1")]);
        assert_eq!(records[0].event.updated_at, versions[3].updated_at);
    }
}

#[test]
fn an_upward_revision_matches_at_the_sighting_that_crosses_the_threshold() {
    let mut record: Vec<Known<usize>> = Vec::new();
    let matched: Vec<bool> = [None, Some(4.92), Some(5.07)]
        .into_iter()
        .zip(1..)
        .map(|(value, minutes)| {
            let mut seen = event(&["us1"], minutes);
            seen.magnitude = value.map(magnitude);
            crate::support::remember(&mut record, &seen);
            Interest::default().matches(&record[0].event)
        })
        .collect();
    assert_eq!((record.len(), matched), (1, vec![false, false, true]));
}

#[test]
fn an_event_that_sinks_below_and_returns_is_the_one_that_was_known() {
    let mut sunk = event(&["us1"], 2);
    sunk.magnitude = Some(magnitude(4.7));
    let records = records_after(&[event(&["us1"], 1), sunk, event(&["us1"], 30)]);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].key, 0);
}

#[test]
fn an_event_that_went_through_json_is_not_revised_by_rounding() {
    for (degrees, value) in [(-65.396_833_333_333_3, 6.7), (-118.537, 4.449_999_999_999_999)] {
        for steps in 0..1_000 {
            let mut seen = event(&["us1"], 1);
            seen.coordinates = place(f64::from(steps) / 11.3, degrees + f64::from(steps) / 7.7);
            seen.magnitude = Some(magnitude(value + f64::from(steps) / 313.0));
            let stored = serde_json::to_string(&seen).expect("JSON");
            let known = [Known { key: 1, event: serde_json::from_str(&stored).expect(&stored) }];
            assert_eq!(merge(&known, &seen), Identity::Same { key: 1, event: seen });
        }
    }
}
