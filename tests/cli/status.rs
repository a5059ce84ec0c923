//! `throttler status`: the same numbers whether the daemon runs or not.

use throttler::clock::{Clock, SystemClock};
use throttler::time::Span;

use crate::daemon::{Daemon, mails, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};

#[test]
fn it_tells_of_a_running_daemon_its_feed_and_what_it_did() {
    let place = place();
    for name in ["anna", "ben", "clara"] {
        place.run(&["subscriber", "add", name, "--email", &format!("{name}@example.org")]).ok();
    }
    place.run(&["subscriber", "pause", "clara"]).ok();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 5.5)]);
    wait_for("both mails", || (mails(&place).len() == 2).then_some(()));
    let delivered = || {
        let found = place.run(&["status", "--format", "json"]).json();
        (found["outbox"]["due"] == 0 && found["outbox"]["leased"] == 0).then_some(found)
    };
    let found = wait_for("the receipts", delivered);
    assert_eq!(found["daemon"], serde_json::json!({ "running": true, "process": daemon.id().to_string() }));
    assert_eq!(found["subscribers"], serde_json::json!({ "active": 2, "paused": 1, "disabled": 0 }));
    assert_eq!((&found["events"]["known"], &found["events"]["undecided"]), (&1.into(), &0.into()));
    assert_eq!((&found["outbox"]["dead"], &found["outbox"]["oldest_due_at"]), (&0.into(), &serde_json::Value::Null));
    assert_eq!((&found["feed"]["stale"], &found["feed"]["stale_since"]), (&false.into(), &serde_json::Value::Null));
    assert!(found["feed"]["polled_at"].is_string() && found["feed"]["generated_at"].is_string(), "{found}");
    let text = place.run(&["status"]).ok();
    assert!(text.starts_with(&format!("The daemon runs (process {}); the feed is fresh.\n", daemon.id())), "{text}");
    assert!(daemon.stop().success());
    assert!(place.run(&["status"]).ok().starts_with("The daemon does not run; the feed is fresh.\n"));
}

#[test]
fn it_tells_of_a_stale_feed() {
    let place = place();
    let made = SystemClock.now().minus(Span::from_seconds(7_200));
    place.write("feed.geojson", &format!(r#"{{"metadata":{{"generated":{}}},"features":[]}}"#, made.millis()));
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    assert!(daemon.stop().success());
    let text = place.run(&["status"]).ok();
    let stale = "The daemon does not run; the feed is stale: its service has made nothing new since ";
    assert!(text.starts_with(stale), "{text}");
    let feed = &place.run(&["status", "--format", "json"]).json()["feed"];
    assert_eq!((&feed["stale"], &feed["stale_since"]), (&true.into(), &feed["generated_at"]), "{feed}");
}

#[test]
fn without_a_database_there_is_nothing_to_tell() {
    let place = Place::new();
    let refused = place.run(&["status"]);
    assert_eq!(refused.status, Some(2), "{refused:?}");
    assert!(refused.err.contains("throttler.db"), "{refused:?}");
    assert!(place.files().is_empty(), "asking makes none");
}
