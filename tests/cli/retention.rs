//! `ledger_days`: what the daemon prunes, and what the commands say of it.

use rusqlite::Connection;
use throttler::clock::{Clock, SystemClock};
use throttler::time::Span;

use crate::daemon::{Daemon, number, place, wait_for_first_poll};
use crate::place::{Place, wait_for};

const DAY: u64 = 86_400;

/// A subscriber with one decision of so many days ago.
fn with_a_decision(days: u64) -> Place {
    let place = place();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let at = SystemClock.now().minus(Span::from_seconds(days * DAY)).ticks();
    Connection::open(place.path("throttler.db"))
        .expect("opens")
        .execute_batch(&format!(
            "UPDATE subscribers SET created_at = 0;
             INSERT INTO events (event_key, preferred_id, origin_at, body, first_seen_at, changed_at, fate)
                 VALUES (1, 'us1', {at}, '{{}}', {at}, {at}, 'open');
             INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused)
                 VALUES (1, 1, {at}, 'withheld', 'the limit is reached', 1)"
        ))
        .expect("a decision");
    place
}

fn set(place: &Place, days: u32) {
    let config = std::fs::read_to_string(place.path("throttler.toml")).expect("the configuration");
    place.write("throttler.toml", &format!("ledger_days = {days}\n{config}"));
}

#[test]
fn the_daemon_prunes_what_is_older_and_the_commands_say_so() {
    let place = with_a_decision(91);
    place.feed(&[]);
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    wait_for("the decision goes", || number(&place, "SELECT count(*) FROM decisions").filter(|count| *count == 0));
    let told = || std::fs::read_to_string(place.path("log")).expect("the log");
    let line = "pruned from the ledger, which is kept for 90d decisions=1 ";
    wait_for("the log tells of it", || told().contains(line).then_some(()));
    assert_eq!(daemon.stop().code(), Some(0));

    let json = place.run(&["ledger", "--format", "json"]).json();
    let from = json["ledger_from"].as_str().expect("a time").to_owned();
    let told = format!("0 decisions, 0 of them refused by the limiter; the ledger reaches back to {from}\n");
    assert_eq!(place.run(&["ledger"]).ok(), told);
    assert_eq!(place.run(&["report", "--format", "json"]).json()["ledger_from"], from.as_str());
    assert!(!place.run(&["report"]).ok().contains("reaches back"), "it has the last seven days");
    let report = place.run(&["report", "--days", "365"]).ok();
    assert!(report.contains(&format!("The ledger reaches back to {from}: what was decided before is not counted.")), "{report}");
    assert_eq!(place.run(&["subscriber", "show", "anna", "--format", "json"]).json()["ledger_from"], from.as_str());
    let shown = place.run(&["subscriber", "show", "anna"]).ok();
    assert!(shown.ends_with(&format!("Decisions and messages since {from}: so far the ledger reaches back.\n")), "{shown}");
}

#[test]
fn nothing_is_pruned_where_the_ledger_is_kept_for_ever() {
    let place = with_a_decision(4_000);
    set(&place, 0);
    assert!(place.run(&["config", "check"]).ok().contains("kept for ever"));
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!(number(&place, "SELECT count(*) FROM decisions"), Some(1));
    assert_eq!(place.run(&["report", "--format", "json"]).json()["ledger_from"], serde_json::Value::Null);
}

#[test]
fn a_ledger_shorter_than_what_may_be_news_is_refused() {
    let place = place();
    set(&place, 1);
    for command in [&["config", "check"][..], &["run"]] {
        let ran = place.run(command);
        assert_eq!(ran.status, Some(2));
        let expected = "throttler.toml: ledger_days: 1 is too short for feed.max_age: expected at least 2, or 0 for ever";
        assert!(ran.err.contains(expected), "{}", ran.err);
    }
    assert!(!place.path("throttler.db").exists());
}
