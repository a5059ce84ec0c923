//! Several daemons on one server: what is told of them, and whose time it is.

use std::ffi::OsString;

use throttler::clock::{Clock, SystemClock};

use crate::daemon::{Daemon, log};
use crate::place::{Place, quake, wait_for};
use crate::server::{ask, missing, server};

/// A schema of which the server's clock can be set, and its address.
fn schema() -> String {
    let url = server().schema() + "%2Cpg_catalog";
    set_ahead(&url, 0);
    url
}

/// The server's clock goes so many minutes ahead: a function of the schema's stands before its own.
fn set_ahead(url: &str, minutes: i64) {
    ask(
        url,
        &format!(
            "CREATE OR REPLACE FUNCTION clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
             $$SELECT pg_catalog.clock_timestamp() + interval '{minutes} min'$$"
        ),
    );
}

/// Where a daemon has its files, with the feed in the first one's, and mail in its own.
fn place(url: &str, feed: Option<&Place>) -> Place {
    let place = Place::new();
    let feed = feed.unwrap_or(&place).path("feed.geojson");
    place.write(
        "throttler.toml",
        &format!(
            "database = \"{url}\"\n[feed]\nurl = \"file://{}\"\npoll = \"50ms\"\nmin_magnitude = 4.5\n[email]\n\
             from = \"Alerts <alerts@example.org>\"\nsmtp = \"file://{}\"\n",
            feed.display(),
            place.path("mail").display()
        ),
    );
    place
}

fn number(url: &str, sql: &str) -> i64 {
    ask(url, sql)[0][0].parse().expect(sql)
}

#[test]
fn status_tells_of_all_of_them_from_wherever_it_is_asked() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let url = schema();
    let first = place(&url, None);
    first.feed(&[]);
    let (second, third) = (place(&url, Some(&first)), place(&url, Some(&first)));
    let elsewhere = place(&url, Some(&first));
    let refused = elsewhere.run(&["status"]);
    assert!(refused.status == Some(1) && refused.err.contains(" has no database of throttler's yet; "), "{refused:?}");

    let unknown = server().schema();
    elsewhere.run(&["subscriber", "add", "anna", "--email", "anna@example.org", "--database", &unknown]).ok();
    let told = elsewhere.run(&["status", "--database", &unknown]).ok();
    let size = told.lines().find_map(|line| line.strip_prefix("  database ")).expect("the database").trim();
    insta::assert_snapshot!(
        "status_without_daemons",
        told.replace(size, "ADDRESS, … bytes").replace(&first.path("").display().to_string(), "…/")
    );
    assert_eq!(elsewhere.run(&["status", "--format", "json", "--database", &unknown]).json()["daemons"], serde_json::json!([]));

    let status = || elsewhere.run(&["status", "--format", "json"]).json();
    let one = Daemon::start(&first);
    wait_for("there is something", || (elsewhere.run(&["status"]).status == Some(0)).then_some(()));
    // Of each process: its state, and whether it polls.
    let daemons = |told: &serde_json::Value| -> Vec<(String, String, bool)> {
        let all = told["daemons"].as_array().expect("daemons").iter();
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        let mut all: Vec<_> =
            all.map(|one| (text(&one["process"]), text(&one["state"]), one["polls"].as_bool().expect("yes or no"))).collect();
        all.sort();
        all
    };
    let expect = |expected: &[(u32, &str, bool)]| {
        let mut expected: Vec<_> =
            expected.iter().map(|(process, state, polls)| (process.to_string(), (*state).to_owned(), *polls)).collect();
        expected.sort();
        wait_for(&format!("{expected:?}"), || (daemons(&status()) == expected).then_some(()));
    };
    expect(&[(one.id(), "running", true)]);
    let (two, three) = (Daemon::start(&second), Daemon::start(&third));
    let ids = [one.id(), two.id(), three.id()];
    expect(&[(ids[0], "running", true), (ids[1], "running", false), (ids[2], "running", false)]);
    let told = status();
    let about = told["daemons"].as_array().and_then(|all| all.iter().find(|about| about["polls"] == true)).expect("one polls");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert_eq!((&about["host"], &about["files"]), (&host.trim().into(), &first.path("throttler").display().to_string().into()));
    assert_eq!(about["version"], env!("CARGO_PKG_VERSION"));
    assert!(about["noted_ago_s"].is_number() && about["status"].is_string() && about["stopped_at"].is_null(), "{about}");
    assert_eq!(told["daemon"]["running"], false, "none runs where it was asked");
    let text = elsewhere.run(&["status"]).ok();
    assert!(text.starts_with("3 of 3 daemons run; "), "{text}");
    let row = |id: u32, rest: &str| {
        let found = text.lines().any(|line| line.contains(&format!("{}, process {id}: {rest}, told ", host.trim())));
        assert!(found, "{id} {rest}: {text}");
    };
    row(ids[0], "polls, decides and delivers");
    row(ids[1], "decides and delivers");

    // One dies, and another takes over what it alone did; one stops in order.
    one.kill();
    assert!(three.stop().success(), "{}", log(&third));
    wait_for("another polls", || {
        let now = daemons(&status());
        now.contains(&(ids[1].to_string(), "running".to_owned(), true)).then_some(())
    });
    // Half a minute later, by the server's clock, nobody has heard of the first.
    set_ahead(&url, 1);
    expect(&[(ids[0], "silent", false), (ids[1], "running", true), (ids[2], "stopped", false)]);
    let text = elsewhere.run(&["status"]).ok();
    assert!(text.starts_with("1 of 3 daemons run; "), "{text}");
    assert!(text.contains(&format!("process {}: silent since ", ids[0])), "{text}");
    assert!(text.contains(&format!("process {}: stopped ", ids[2])), "{text}");
    assert!(two.stop().success(), "{}", log(&second));
}

/// A daemon whose own clock goes so much ahead, as far as there is a library to have it do so.
fn skewed(place: &Place, skew: &str) -> Daemon {
    let directories = std::fs::read_dir("/usr/lib").expect("libraries").map(|entry| entry.expect("an entry").path());
    let Some(library) = directories.map(|path| path.join("faketime/libfaketime.so.1")).find(|library| library.exists()) else {
        println!("skipped: there is no libfaketime, so that the clocks of daemons differ only from the server's");
        return Daemon::start(place);
    };
    // Only what anybody may set: how much time passes is the same.
    let variables = [("FAKETIME", skew), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("DONT_FAKE_MONOTONIC", "1")];
    let variables = variables.map(|(name, value)| (name, value.into())).into_iter();
    Daemon::start_with::<OsString>(place, &variables.chain([("LD_PRELOAD", library.into_os_string())]).collect::<Vec<_>>())
}

#[test]
fn decisions_have_the_servers_time_however_the_clocks_of_daemons_differ() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let url = schema();
    // Whoever took its own time for the server's would be seen.
    set_ahead(&url, 20);
    let time = || number(&url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8");
    let first = place(&url, None);
    first.feed(&[]);
    let second = place(&url, Some(&first));
    let began = time();
    first.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    assert!((began..=time()).contains(&number(&url, "SELECT created_at FROM subscribers")), "commands too");
    let mut quakes = Vec::new();
    let mut before = time();
    let polled = || number(&url, "SELECT coalesce(max(polled_at), 0) FROM installation");
    // In turns, so that by their own clocks every second decision would be twelve minutes before the one before.
    for (turn, (place, skew)) in [(&first, "+7m"), (&second, "-5m"), (&first, "+7m"), (&second, "-5m")].into_iter().enumerate() {
        let daemon = skewed(place, skew);
        wait_for("a poll", || (polled() > before).then_some(()));
        quakes.insert(0, quake(&format!("us{turn}"), 5.5));
        first.feed(&quakes);
        let delivered = "SELECT count(*) FROM outbox WHERE status = 'delivered'";
        wait_for("the message", || (number(&url, delivered) > i64::try_from(turn).expect("small")).then_some(()));
        let after = time();
        for sql in [
            "SELECT max(decided_at) FROM decisions",
            "SELECT max(created_at) FROM outbox",
            "SELECT max(settled_at) FROM outbox",
            "SELECT max(first_seen_at) FROM events",
        ] {
            let at = number(&url, sql);
            assert!((before..=after).contains(&at), "{sql} with {skew}: {at}, expected {before} to {after}");
        }
        before = after;
        assert!(daemon.stop().success(), "{}", log(place));
        let note = place.run(&["status", "--format", "json"]).json()["daemon"]["stopped_at"].clone();
        let note: throttler::time::Timestamp = note.as_str().expect("an instant").parse().expect("an instant");
        assert!((before..=time()).contains(&note.ticks()), "{note}");
    }
    let decided = ask(&url, "SELECT decided_at FROM decisions ORDER BY event_key");
    assert!(decided.len() == 4 && decided.is_sorted_by_key(|row| row[0].parse::<i64>().expect("ticks")), "{decided:?}");
    assert!(number(&url, "SELECT min(decided_at) FROM decisions") > SystemClock.now().ticks(), "it is the server's");
}
