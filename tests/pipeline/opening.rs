//! Opening a database: ours, a newer one, another program's, none at all; and one daemon only. Older ones: `upgrade.rs`.

use std::error::Error;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;
use throttler::store::{DaemonLock, Store, StoreError};

use crate::rig::{mailed, start};
use crate::upgrade::migrations;

fn directory() -> TempDir {
    TempDir::new().expect("a directory")
}

/// The message with its causes, as the command line shows it.
fn message(fault: &StoreError) -> String {
    fault.source().map_or_else(|| fault.to_string(), |cause| format!("{fault}: {cause}"))
}

fn refused(path: &Path) -> String {
    match Store::open(path) {
        Ok(_) => panic!("{} opens", path.display()),
        Err(fault) => message(&fault),
    }
}

#[test]
fn a_newer_database_is_refused_and_left_as_it_is() {
    let directory = directory();
    let path = directory.path().join("throttler.db");
    Store::open(&path).expect("opens").add_subscribers(&[(mailed("anna"), None)], start()).expect("added");
    let connection = Connection::open(&path).expect("opens");
    connection.pragma_update(None, "user_version", 99).expect("the version");
    connection.pragma_update(None, "journal_mode", "DELETE").expect("one file");
    drop(connection);
    let before = fs::read(&path).expect("the file");
    let told = refused(&path);
    let expected = format!("schema version 99, but this program knows only up to {}", migrations("sqlite").len());
    assert!(told.contains(&expected) && told.contains("newer throttler"), "{told}");
    assert!(Store::open_existing(&path).is_err());
    assert_eq!(fs::read(&path).expect("the file"), before);
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 1, "no other file beside it");
}

#[test]
fn what_is_no_database_of_ours_is_refused_and_left_as_it_is() {
    let directory = directory();
    let garbage = directory.path().join("garbage.db");
    fs::write(&garbage, "time,latitude,longitude\n".repeat(100)).expect("written");
    let foreign = directory.path().join("foreign.db");
    Connection::open(&foreign)
        .expect("opens")
        .execute_batch("CREATE TABLE bookmarks (url TEXT); PRAGMA user_version = 1")
        .expect("sql");
    for (path, expected) in [(&garbage, "file is not a database"), (&foreign, "is another program's database")] {
        let before = fs::read(path).expect("the file");
        let told = refused(path);
        assert!(told.contains(expected) && told.contains(&path.display().to_string()), "{told}");
        assert_eq!(fs::read(path).expect("the file"), before);
    }
    let empty = directory.path().join("empty.db");
    fs::write(&empty, "").expect("written");
    Store::open(&empty).expect("an empty file is a new database");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let directory = directory();
    let told = refused(&directory.path().join("missing/throttler.db"));
    assert!(told.contains("cannot open the database") && told.contains("missing/throttler.db"), "{told}");
    assert!(refused(directory.path()).contains("cannot open the database"));
    assert!(matches!(Store::open_existing(&directory.path().join("none.db")), Err(StoreError::Open { .. })));
    assert!(!directory.path().join("none.db").exists(), "looking creates nothing");

    let path = directory.path().join("throttler.db");
    drop(Store::open(&path).expect("opens"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("permissions");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o500)).expect("permissions");
    if fs::write(directory.path().join("probe"), "").is_ok() {
        println!("skipped: this user may write where permissions forbid it (root)");
    } else {
        assert!(refused(&path).contains("cannot open the database"));
        assert!(refused(&directory.path().join("other.db")).contains("cannot open the database"));
        let told = message(&DaemonLock::acquire(&path).expect_err("no lock file can be made"));
        assert!(told.contains("cannot lock"), "{told}");
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).expect("permissions");
}

#[test]
fn a_fresh_database_may_be_opened_by_several_at_once() {
    for _ in 0..10 {
        let directory = directory();
        let path = directory.path().join("throttler.db");
        let openers: Vec<_> = (0..6)
            .map(|at| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let mut store = Store::open(&path).unwrap_or_else(|fault| panic!("{}", message(&fault)));
                    store.add_subscribers(&[(mailed(&format!("s{at}")), None)], start()).expect("added");
                })
            })
            .collect();
        for opener in openers {
            opener.join().expect("it opened");
        }
        assert_eq!(Store::open(&path).expect("opens").subscribers().expect("read").len(), 6);
        let keys: i64 = Connection::open(&path)
            .expect("opens")
            .query_row("SELECT count(*) FROM installation", [], |row| row.get(0))
            .expect("one");
        assert_eq!(keys, 1);
    }
}

#[test]
fn one_daemon_runs_on_a_database() {
    let directory = directory();
    let path = directory.path().join("throttler.db");
    let first = DaemonLock::acquire(&path).expect("the first");
    let told = message(&DaemonLock::acquire(&path).expect_err("the second"));
    assert!(told.contains(&format!("(process {})", std::process::id())) && told.contains("already runs"), "{told}");
    drop(first);
    DaemonLock::acquire(&path).expect("after the first has gone");
    DaemonLock::acquire(&directory.path().join("other.db")).expect("on another database");
}

#[test]
fn rows_that_contradict_themselves_cannot_be_written() {
    let directory = directory();
    let path = directory.path().join("throttler.db");
    Store::open(&path).expect("opens").add_subscribers(&[(mailed("anna"), None)], start()).expect("added");
    let connection = Connection::open(&path).expect("opens");
    connection
        .execute_batch(
            "PRAGMA foreign_keys = ON;
             INSERT INTO events (event_key, preferred_id, origin_at, body, first_seen_at, changed_at, fate) VALUES (1, 'us1', 0, '{}', 0, 0, 'open');
             INSERT INTO outbox (delivery_key, event_key, subscriber_key, alert_id, alert, created_at, due_at, status) VALUES (1, 1, 1, 'a', '{}', 0, 0, 'due');",
        )
        .expect("rows that are well formed");
    for sql in [
        "UPDATE events SET fate = 'merged'",
        "UPDATE events SET merged_into = 1",
        "UPDATE events SET fate = 'lost'",
        "UPDATE events SET fate = 'too-old', dispatch_from = 0",
        "UPDATE subscribers SET standing = 'disabled'",
        "UPDATE subscribers SET standing_reason = 'why'",
        "UPDATE subscribers SET standing = 'asleep'",
        "UPDATE outbox SET status = 'leased'",
        "UPDATE outbox SET status = 'leased', lease_owner = 'me'",
        "UPDATE outbox SET lease_until = 5, lease_owner = 'me'",
        "UPDATE outbox SET status = 'delivered'",
        "UPDATE outbox SET settled_at = 5",
        "UPDATE outbox SET status = 'sent'",
        "UPDATE outbox SET due_at = 'soon'",
        "INSERT INTO outbox (event_key, subscriber_key, alert_id, alert, created_at, due_at, status) VALUES (1, 1, 'a', '{}', 0, 0, 'due')",
        "INSERT INTO outbox (event_key, subscriber_key, alert_id, alert, created_at, due_at, status) VALUES (1, 7, 'b', '{}', 0, 0, 'due')",
        "INSERT INTO outbox (event_key, subscriber_key, alert_id, alert, created_at, due_at, status) VALUES (7, 1, 'b', '{}', 0, 0, 'due')",
        "INSERT INTO outbox (event_key, subscriber_key, alert_id, created_at, due_at, status) VALUES (1, 1, 'b', 0, 0, 'due')",
        "UPDATE outbox SET alert = NULL",
        "UPDATE outbox SET noticed = 2",
        "INSERT INTO limiters (subscriber_key, state) VALUES (7, x'00')",
        "INSERT INTO contents (event_key, content) VALUES (7, '{}')",
        "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused) VALUES (1, 1, 0, 'alerted', '', 0)",
        "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused, delivery_key) VALUES (1, 1, 0, 'withheld', '', 1, 1)",
        "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused) VALUES (1, 1, 0, 'lost', '', 1)",
        "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused) VALUES (1, 1, 0, 'withheld', '', 2)",
        "INSERT INTO installation (only, key) VALUES (2, 'x')",
        "INSERT INTO subscribers (name, settings, standing, created_at, active_since, interest_since) VALUES ('anna', '{}', 'active', 0, 0, 0)",
    ] {
        let fault = connection.execute(sql, []).expect_err(sql);
        assert!(fault.to_string().contains("constraint failed") || fault.to_string().contains("cannot store"), "{sql}: {fault}");
    }
    let decision = "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused) VALUES (1, 1, 0, 'withheld', '', 1)";
    connection.execute(decision, []).expect("one decision");
    connection.execute(decision, []).expect_err("and no second on the same event and subscriber");
}
