//! Moving an installation from a file to a server and back.

use std::collections::BTreeSet;
use std::process::Stdio;

use rusqlite::Connection;
use serde_json::Value;
use throttler::store::{ServerUrl, Store};

use crate::daemon::{Daemon, mails, number, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};
use crate::server::{Asker, ask, missing, server};

/// What a command says that fails.
fn refused(place: &Place, args: &[&str], status: i32) -> String {
    let ran = place.run(args);
    assert_eq!((ran.status, ran.out.as_str()), (Some(status), ""), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    ran.err
}

/// There and back again, and what each copy says of its tables.
pub fn copies(place: &Place, from: &str) {
    let copy = |from: &str, to: &str| -> Value {
        place.run(&["database", "copy", "--from", from, "--to", to, "--format", "json"]).json()["tables"].clone()
    };
    let (second, third) = (server().schema(), server().schema());
    let there = copy(from, "sqlite:there.db");
    assert!(there.as_array().is_some_and(|tables| tables.iter().all(|table| table["checksum"].is_string())), "{there}");
    assert_eq!(copy("sqlite:there.db", &second), there, "and back");
    assert_eq!(copy(&second, &third), there, "and on");
    let told = refused(place, &["database", "copy", "--from", "sqlite:there.db", "--to", &second], 1);
    assert!(told.contains("holds something already, in its table events: expected an empty database"), "{told}");
}

/// A place with a database in which a daemon has left decisions, messages, and something changed.
fn populated() -> Place {
    let place = crate::daemon::place();
    for (name, limit) in [("anna", "5/h"), ("ben", "1/h"), ("clara", "2/d")] {
        let address = format!("{name}@example.org");
        place.run(&["subscriber", "add", name, "--email", &address, "--rate", limit, "--bucket", "2"]).ok();
    }
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    let mut quakes: Vec<Value> = Vec::new();
    for (id, magnitude) in [("us1", 5.5), ("us2", 6.1), ("us3", 5.2)] {
        quakes.insert(0, quake(id, magnitude));
        place.feed(&quakes);
        let decided = format!("SELECT count(*) = {} FROM decisions", 3 * quakes.len());
        wait_for("the decisions", || number(&place, &decided).filter(|done| *done == 1));
    }
    wait_for("the mails", || (mails(&place).len() >= 6).then_some(()));
    assert!(daemon.stop().success());
    place
}

/// The tables of a file, and how many rows each has.
fn tables(place: &Place, file: &str) -> Vec<(String, i64)> {
    let connection = Connection::open(place.path(file)).expect(file);
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name";
    let mut statement = connection.prepare(names).expect(names);
    let names: Vec<String> = statement.query_map([], |row| row.get(0)).expect("names").collect::<Result<_, _>>().expect("names");
    let count = |name: &String| connection.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get(0)).expect(name);
    names.into_iter().map(|name| (name.clone(), count(&name))).collect()
}

#[test]
fn an_installation_moves_to_a_server_and_back_with_every_row() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let (place, url) = (populated(), server().schema());
    let copy = |from: &str, to: &str| place.run(&["database", "copy", "--from", from, "--to", to, "--format", "json"]).json();
    let there = copy("sqlite:throttler.db", &url);
    assert_eq!((&there["from"], &there["to"]), (&"throttler.db".into(), &url.clone().into()));
    let copied: Vec<(String, i64)> = there["tables"]
        .as_array()
        .expect("tables")
        .iter()
        .map(|table| (table["table"].as_str().expect("a name").to_owned(), table["rows"].as_i64().expect("a count")))
        .collect();
    // Not one is forgotten.
    let expected = tables(&place, "throttler.db");
    assert_eq!(copied.iter().collect::<BTreeSet<_>>(), expected.iter().collect());
    assert!(expected.contains(&("decisions".to_owned(), 9)), "{expected:?}");
    // What the server itself counts, and what commands show.
    for (table, rows) in &expected {
        assert_eq!(ask(&url, &format!("SELECT count(*) FROM {table}")), [[rows.to_string()]], "{table}");
    }
    let counted = "SELECT reltuples FROM pg_class WHERE oid = 'decisions'::regclass";
    assert_eq!(ask(&url, counted), [["9"]], "it plans by what is there");
    for command in
        [&["ledger"][..], &["subscriber", "list"], &["subscriber", "export", "--secrets"], &["outbox", "list", "--status", "all"]]
    {
        let shown = |database: &str| place.run(&[command, &["--database", database]].concat()).ok();
        assert_eq!(shown(&url), shown("throttler.db"), "{command:?}");
    }
    // However soon a server ends sessions that wait: it waits while the file is written, and read again.
    let back = copy(&format!("{url}%20-cidle_in_transaction_session_timeout%3D1"), "sqlite:back.db");
    assert_eq!(back["tables"], there["tables"]);
    assert_eq!(tables(&place, "back.db"), expected);
    let text = place.run(&["database", "copy", "--from", "sqlite:back.db", "--to", &server().schema()]).ok();
    let rows: i64 = expected.iter().map(|(_, rows)| rows).sum();
    assert!(text.contains(&format!(" holds all {rows} rows of back.db, the same by count and checksum.\n")), "{text}");
    // It goes on there: new rows get numbers of their own.
    let configuration = std::fs::read_to_string(place.path("throttler.toml")).expect("a configuration");
    place.replace("throttler.toml", &format!("database = \"{url}\"\n{configuration}"));
    place.run(&["subscriber", "add", "dora", "--email", "dora@example.org"]).ok();
    let daemon = Daemon::start(&place);
    wait_for("the daemon is up", || daemon.is_up().then_some(()));
    let refused = refused(&place, &["database", "copy", "--from", &url, "--to", "sqlite:live.db"], 1);
    assert_eq!(refused, format!("throttler: a daemon runs on {url}: expected none while it is copied\n"));
    place.feed(&[quake("us4", 7.0), quake("us3", 5.2)]);
    wait_for("decisions on the server", || (ask(&url, "SELECT count(*) FROM decisions") == [["13"]]).then_some(()));
    assert!(daemon.stop().success());
}

#[test]
fn what_holds_something_or_has_another_schema_is_not_copied_into() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let (place, url) = (Place::new(), server().schema());
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    place.run(&["subscriber", "add", "ben", "--email", "ben@example.org", "--database", &url]).ok();
    place.run(&["subscriber", "add", "ben", "--email", "ben@example.org", "--database", "other.db"]).ok();
    for (from, to, at) in [("sqlite:throttler.db", url.as_str(), url.as_str()), (&url, "sqlite:other.db", "other.db")] {
        let told = refused(&place, &["database", "copy", "--from", from, "--to", to], 1);
        let expected = "holds something already, in its table subscribers: expected an empty database to copy into";
        assert_eq!(told, format!("throttler: {at} {expected}\n"));
    }
    let listed = |database: &str| place.run(&["subscriber", "list", "--database", database]).ok();
    for database in [url.as_str(), "other.db"] {
        assert!(listed(database).contains("ben") && !listed(database).contains("anna"), "it is as it was");
    }

    let newer = "has schema version 99, but this program knows only up to ";
    ask(&url, "UPDATE throttler_schema SET version = 99");
    Connection::open(place.path("other.db")).and_then(|file| file.pragma_update(None, "user_version", 99)).expect("a version");
    let empty = server().schema();
    for (from, to) in [
        ("sqlite:throttler.db", url.as_str()),
        (&url, "sqlite:new.db"),
        ("sqlite:throttler.db", "sqlite:other.db"),
        ("sqlite:other.db", &empty),
    ] {
        let told = refused(&place, &["database", "copy", "--from", from, "--to", to], 1);
        assert!(told.contains(newer), "{from} to {to}: {told}");
    }
    let told = refused(&place, &["database", "copy", "--from", "sqlite:none.db", "--to", &empty], 2);
    assert_eq!(told, "throttler: there is no database none.db\n");
    let told = refused(&place, &["database", "copy", "--from", "throttler.db", "--to", &empty], 2);
    assert!(
        told.contains("--from: 'throttler.db' is no database: expected sqlite:FILE or postgres://USER@HOST/DATABASE"),
        "{told}"
    );
    assert_eq!(ask(&empty, "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace"), [["0"]]);
}

/// Starts a copy, has it wait for the last table, which somebody holds on this server, and kills it.
fn interrupted(place: &Place, url: &str, from: &str, to: &str) {
    let mut holder = Asker::new(url);
    holder.rows("BEGIN; LOCK TABLE noticing").expect("an answer");
    let mut command = place.command(&["database", "copy", "--from", from, "--to", to]);
    let mut copying = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'noticing'::regclass";
    wait_for("the last table", || (ask(url, waits) == [["1"]]).then_some(()));
    copying.kill().expect("killed");
    copying.wait().expect("its end");
    holder.rows("ROLLBACK").expect("an answer");
    let sessions = "SELECT count(*) FROM pg_locks WHERE relation IN ('noticing'::regclass, 'outbox'::regclass)";
    wait_for("its session ends", || (ask(url, sessions) == [["0"]]).then_some(()));
}

#[test]
fn a_copy_that_is_killed_leaves_its_target_empty() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let (place, url) = (populated(), server().schema());
    let location: ServerUrl = url.parse().expect("an address");
    drop(Store::open(location).expect("an empty database"));
    interrupted(&place, &url, "sqlite:throttler.db", &url);
    for table in ["events", "subscribers", "limiters", "decisions", "outbox", "contents"] {
        assert_eq!(ask(&url, &format!("SELECT count(*) FROM {table}")), [["0"]], "{table}");
    }
    place.run(&["database", "copy", "--from", "sqlite:throttler.db", "--to", &url]).ok();

    interrupted(&place, &url, &url, "sqlite:back.db");
    let left = tables(&place, "back.db");
    assert!(left.iter().all(|(table, rows)| *rows == 0 || ["installation", "noticing"].contains(&table.as_str())), "{left:?}");
    place.run(&["database", "copy", "--from", &url, "--to", "sqlite:back.db"]).ok();
    assert_eq!(tables(&place, "back.db"), tables(&place, "throttler.db"));
}
