//! A database on a server: what is wrong with one, and moving an installation there and back.

use serde_json::Value;

use crate::place::Place;
use crate::server::{ask, missing, server};

/// What a command says that fails.
fn refused(place: &Place, args: &[&str], status: i32) -> String {
    let ran = place.run(args);
    assert_eq!((ran.status, ran.out.as_str()), (Some(status), ""), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    ran.err
}

#[test]
fn what_is_wrong_with_a_server_is_said_in_one_line_at_start_and_by_the_check() {
    let place = Place::new();
    place.write("throttler.toml", "[feed]\nurl = \"file:///dev/null\"\n");
    for command in [&["run"][..], &["config", "check"]] {
        let with = |url: &str, status| refused(&place, &[command, &["--database", url]].concat(), status);
        let told = with("postgres://nobody@127.0.0.1:1/none", 1);
        assert!(told.contains("cannot reach the database postgres://nobody@127.0.0.1:1/none: "), "{told}");
        let told = with("postgres://me:secret@127.0.0.1/none", 2);
        assert!(told.contains("the password of postgres://me@127.0.0.1/none does not belong into the address"), "{told}");
        assert!(!told.contains("secret"), "{told}");
        let told = with("postgres://127.0.0.1", 2);
        assert!(
            told.contains("is not the address of a database: without a database; expected postgres://USER@HOST/DATABASE"),
            "{told}"
        );
    }
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let url = server().schema();
    place.run(&["subscriber", "add", "anna", "--email", "a@example.org", "--database", &url]).ok();
    place.run(&["config", "check", "--database", &url]).ok();
    ask(&url, "UPDATE throttler_schema SET version = 99");
    for command in [&["run"][..], &["config", "check"], &["subscriber", "list"]] {
        let told = refused(&place, &[command, &["--database", &url]].concat(), 1);
        assert!(told.contains("has schema version 99, but this program knows only up to 2: it was written by a newer"), "{told}");
    }
    let url = server().schema();
    ask(&url, "CREATE TABLE events (another_programs text)");
    let told = refused(&place, &["run", "--database", &url], 1);
    assert!(told.contains("is another program's database"), "{told}");
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
