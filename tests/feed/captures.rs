//! Captured feeds and a real polling history. They lie beside the project and are not part of it.

use std::fs;
use std::path::{Path, PathBuf};

use throttler::event::Event;
use throttler::feed::parse;
use throttler::identity::Known;
use throttler::interest::Interest;
use throttler::time::Timestamp;

use crate::support::{fixture, id, remember};

/// The files there that end so, by name; prints why there are none.
pub fn captures(folder: &str, ending: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(folder);
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: there is no {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.sort();
    paths
}

/// What is known after these polls, in order, with how often each event was new and came to match the default interest.
fn history(polls: &[Vec<u8>]) -> (Vec<Known<usize>>, Vec<usize>) {
    let (mut records, mut alerted): (Vec<Known<usize>>, Vec<usize>) = (Vec::new(), Vec::new());
    for body in polls {
        for seen in parse(body).expect("a feed").events {
            remember(&mut records, &seen);
        }
        for record in &records {
            if Interest::default().matches(&record.event) && !alerted.contains(&record.key) {
                alerted.push(record.key);
            }
        }
    }
    (records, alerted)
}

fn with_id<'a>(records: &'a [Known<usize>], text: &str) -> Vec<&'a Event> {
    records.iter().map(|record| &record.event).filter(|event| event.ids.contains(&id(text))).collect()
}

#[test]
fn every_captured_feed_is_read() {
    for path in captures("feeds", ".geojson").iter().chain(&captures("polls/2025-08-05_geojson", ".geojson")) {
        let bytes = fs::read(path).expect("a capture");
        let snapshot = parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let document: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        let features = document["features"].as_array().expect("features").len();
        assert_eq!((snapshot.events.len(), snapshot.rejected), (features, vec![]), "{}", path.display());
        assert_eq!(snapshot.generated_at.map(Timestamp::millis), document["metadata"]["generated"].as_i64());
    }
}

#[test]
fn captured_error_bodies_are_no_feeds() {
    for path in captures("feeds", "error_bodies_reconstructed.txt") {
        let bodies = fs::read_to_string(&path).expect("a capture");
        let bodies: Vec<&str> =
            bodies.split("===== ").skip(1).filter_map(|block| block.split_once('\n')).map(|(_, body)| body).collect();
        assert_eq!(bodies.len(), 4);
        for body in bodies {
            assert!(parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}

#[test]
fn a_quake_that_runs_through_three_ids_stays_one_event() {
    let names = ["renamed_1_pt.geojson", "renamed_2_us.geojson", "renamed_3_pr.geojson"];
    let (records, alerted) = history(&names.map(fixture));
    assert_eq!((records.len(), alerted.len()), (2, 2), "the quake, and the other one");
    let quake = with_id(&records, "pt30077001");
    assert_eq!(quake, with_id(&records, "us9000abc2"));
    assert_eq!((quake.len(), quake[0].id.as_str()), (1, "pr2030077000"));
}

#[test]
fn the_quake_of_2025_08_05_is_alerted_once() {
    let paths = captures("polls/2025-08-05_geojson", ".geojson");
    if paths.is_empty() {
        return;
    }
    let polls: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).expect("a capture")).collect();
    let (records, alerted) = history(&polls);
    let quake = with_id(&records, "pt25217001");
    assert_eq!(quake, with_id(&records, "us6000qy7q"));
    assert_eq!(quake, with_id(&records, "pr2025217000"));
    assert_eq!((quake.len(), quake[0].id.as_str()), (1, "pr2025217000"));
    assert_eq!(alerted.len(), 1, "no other event reached M 5");
}
