//! `throttler outbox` beside a running daemon, and `throttler backup`.

use crate::daemon::{Daemon, number, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};
use crate::receiver::Receiver;

/// The messages of these statuses, as `STATUS SUBSCRIBER`.
fn listed(place: &Place, status: &str) -> Vec<String> {
    let listed = place.run(&["outbox", "list", "--status", status, "--format", "json"]).json();
    let rows = listed["deliveries"].as_array().expect("deliveries").iter();
    rows.map(|row| format!("{} {}", row["status"], row["subscriber"]).replace('"', "")).collect()
}

fn id(place: &Place, status: &str) -> String {
    let listed = place.run(&["outbox", "list", "--status", status, "--format", "json"]).json();
    listed["deliveries"][0]["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_daemon_takes_up_what_is_put_back() {
    let (place, receiver) = (place(), Receiver::start().await);
    for (name, status) in [("gone", 400), ("busy", 429)] {
        let hook = format!("http://127.0.0.1:{}/{name}", receiver.port);
        place.run(&["subscriber", "add", name, "--webhook", &hook]).ok();
        receiver.answer(&format!("/{name}"), status);
    }
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 6.2)]);
    wait_for("one is dead", || (listed(&place, "dead").len() == 1).then_some(()));
    wait_for("one is busy", || (!listed(&place, "due").is_empty()).then_some(()));

    let text = place.run(&["outbox", "list"]).ok();
    assert!(text.starts_with("0 leased, 1 due, 1 dead\n") || text.starts_with("1 leased, 0 due, 1 dead\n"), "{text}");
    for part in ["attempts", "last answer", "answered 400 Bad Request", "6.2", &format!("http://127.0.0.1:{}", receiver.port)] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(place.run(&["outbox", "list", "--subscriber", "busy", "--status", "dead"]).ok(), "0 dead\n");

    receiver.answer("/gone", 204);
    assert_eq!(place.run(&["outbox", "retry", &id(&place, "dead")]).ok(), "1 dead letter is put back.\n");
    wait_for("it is delivered", || (listed(&place, "delivered") == ["delivered gone"]).then_some(()));
    assert_eq!(place.run(&["outbox", "retry", "--all-dead"]).ok(), "There are no dead letters.\n");
    assert_eq!(daemon.stop().code(), Some(0));

    let busy = id(&place, "due");
    number(&place, "UPDATE outbox SET status = 'leased', lease_owner = 'x', lease_until = 1e15 WHERE status = 'due' RETURNING 1");
    let refused = place.run(&["outbox", "drop", &busy]);
    assert_eq!(refused.status, Some(1));
    assert!(refused.err.contains("is under way (leased until 2001-09-09T01:46:40.000Z at the latest)"), "{}", refused.err);
    number(
        &place,
        "UPDATE outbox SET status = 'due', lease_owner = NULL, lease_until = NULL WHERE status = 'leased' RETURNING 1",
    );
    assert_eq!(place.run(&["outbox", "drop", &busy, "--reason", "told by\ntelephone"]).ok(), "1 delivery is dropped.\n");
    assert_eq!(listed(&place, "all"), ["delivered gone", "dropped busy"]);
    let ledger = place.run(&["ledger", "--subscriber", "busy"]).ok();
    assert!(ledger.contains("dropped") && ledger.contains("; dropped by hand: told by telephone"), "{ledger}");
}

#[test]
fn what_cannot_be_asked_of_the_outbox() {
    let place = Place::new();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    assert_eq!(place.run(&["outbox", "list"]).ok(), "0 leased, 0 due, 0 dead\n");
    for (args, words) in [
        (
            vec!["outbox", "list", "--status", "late"],
            "--status: 'late' is not a status: expected leased, due, dead, delivered or dropped, or all",
        ),
        (vec!["outbox", "list", "--subscriber", "bob"], "there is no subscriber 'bob'"),
        (vec!["outbox", "retry", "x-1-2"], "there is no delivery 'x-1-2'; `throttler outbox list --status all` shows them"),
        (vec!["outbox", "drop", "x-1-2"], "there is no delivery 'x-1-2'"),
        (vec!["outbox", "retry"], "required"),
        (vec!["outbox", "retry", "x", "--all-dead"], "cannot be used with"),
        (vec!["outbox", "retry", "x", "--subscriber", "anna"], "cannot be used with"),
        (vec!["outbox", "retry", "--subscriber", "anna"], "required"),
    ] {
        let ran = place.run(&args);
        assert_eq!((ran.status, ran.out.as_str()), (Some(2), ""), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_a_running_daemon_is_restored_with_a_warning() {
    let (place, receiver) = (place(), Receiver::start().await);
    let hook = format!("http://127.0.0.1:{}/hook", receiver.port);
    place.run(&["subscriber", "add", "hook", "--webhook", &hook]).ok();
    receiver.answer("/hook", 429);
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 6.2)]);
    wait_for("an answer", || (!receiver.requests().is_empty()).then_some(()));
    let made = place.run(&["backup", "copy.db"]).ok();
    assert!(made.starts_with("copy.db is a backup of throttler.db as of 20") && made.contains(" bytes, checked.\n"), "{made}");

    // It takes no other file's place unasked, and never the database's own.
    let before = std::fs::read(place.path("copy.db")).expect("the backup");
    for (args, words) in [
        (vec!["backup", "copy.db"], "copy.db is there already: expected a new file, or --force"),
        (vec!["backup", "--force", "throttler.db"], "cannot write throttler.db: it is throttler.db, which is read"),
        (vec!["backup", "--database", "none.db", "other.db"], "there is no database none.db"),
    ] {
        let ran = place.run(&args);
        assert_eq!(ran.status, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
    }
    assert_eq!(place.run(&["backup", "no/such/place.db"]).status, Some(1));
    assert_eq!(std::fs::read(place.path("copy.db")).expect("the backup"), before);
    let forced = place.run(&["backup", "--force", "copy.db", "--format", "json"]).json();
    assert_eq!(forced["bytes"].as_u64(), std::fs::metadata(place.path("copy.db")).ok().map(|file| file.len()));

    receiver.answer("/hook", 204);
    assert_eq!(daemon.stop().code(), Some(0));
    for file in ["throttler.db", "throttler.db-wal", "throttler.db-shm"] {
        // The daemon's last word removed its log.
        let _ = std::fs::remove_file(place.path(file));
    }
    std::fs::copy(place.path("copy.db"), place.path("throttler.db")).expect("put in place");
    let listed = place.run(&["outbox", "list"]).ok();
    assert!(listed.starts_with("This database is a backup made at 20"), "{listed}");
    number(&place, "UPDATE outbox SET due_at = 0 RETURNING 1");
    let requests = receiver.requests();
    let daemon = Daemon::start(&place);
    wait_for("it is sent again", || (receiver.requests().len() > requests.len()).then_some(()));
    assert_eq!(receiver.requests().last().map(|request| &request.id), requests.last().map(|request| &request.id));
    let log = std::fs::read_to_string(place.path("log")).expect("the log");
    assert!(
        log.contains("this database is a backup made at") && log.contains("messages that were due then (1) may be sent"),
        "{log}"
    );
    wait_for("it is delivered", || (listed_none_due(&place)).then_some(()));
    assert_eq!(daemon.stop().code(), Some(0));
    assert!(place.run(&["outbox", "list"]).ok().starts_with("0 leased, 0 due, 0 dead\n"));
}

fn listed_none_due(place: &Place) -> bool {
    listed(place, "due,leased").is_empty()
}
