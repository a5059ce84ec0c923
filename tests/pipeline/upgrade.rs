//! Older databases: each version becomes exactly what a fresh one is, with its rows, and is kept as it was beside it.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::types::Value;
use throttler::store::{Claim, DeliveryStatus, Location, Store};
use throttler::subscriber::Excess;
use throttler::time::Span;

use crate::rig::{HOUR, Quake, Rig, limit, mailed, only_in_a_file};
use throttler::limiter::{Algorithm, Policy};

/// The migrations of a kind of database as files, in order.
pub fn migrations(database: &str) -> Vec<String> {
    let mut files: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(database))
        .expect("the migrations")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).expect("a migration")).collect()
}

/// All that makes the schema.
fn schema(path: &Path) -> Vec<(String, String, Option<String>)> {
    let connection = Connection::open(path).expect("opens");
    let mut read = connection.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").expect("sql");
    let rows = read.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("rows");
    rows.collect::<Result<_, _>>().expect("rows")
}

fn version(path: &Path) -> i64 {
    Connection::open(path).expect("opens").pragma_query_value(None, "user_version", |row| row.get(0)).expect("the version")
}

/// The names of what lies beside a database, copies and drafts, sorted.
fn beside(path: &Path) -> Vec<String> {
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    let entries = fs::read_dir(path.parent().expect("a directory")).expect("the directory");
    let names: BTreeSet<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.iter().filter_map(|found| Some(found.strip_prefix(name)?.to_owned())).filter(|end| end.starts_with(".before")).collect()
}

/// A subscriber who is told of everything, and one who is told of one event a day and in a digest of the rest, of which some
/// waits.
pub async fn lived_in() -> Rig {
    let mut limited = mailed("ben");
    limited.policy = Policy::plain(limit(Algorithm::TokenBucket, "1/d", Some(1)));
    limited.excess = Excess::Digest;
    let mut rig = Rig::with(&[mailed("anna"), limited]).await;
    rig.see(&[Quake::new(&rig, "us1", 5.1, 1), Quake::new(&rig, "us2", 5.2, 2)]).await;
    rig.pass(25 * HOUR);
    rig.see(&[]).await;
    rig.pass(25 * HOUR);
    rig.see(&[Quake::new(&rig, "us3", 5.3, 1), Quake::new(&rig, "us4", 5.4, 2)]).await;
    rig.open = None;
    rig
}

/// The rig's rows in the tables of an older version, in a file of this name.
fn as_version(rig: &Rig, version: usize, name: &str) -> PathBuf {
    let old = rig.path(name);
    let connection = Connection::open(&old).expect("opens");
    for migration in &migrations("sqlite")[..version] {
        connection.execute_batch(migration).expect("an applied migration");
    }
    connection.pragma_update(None, "foreign_keys", false).expect("tables in any order");
    connection.execute("ATTACH ?1 AS new", [rig.path("throttler.db").display().to_string()]).expect("attached");
    for table in [
        "installation",
        "events",
        "event_ids",
        "revisions",
        "subscribers",
        "limiters",
        "contents",
        "terms",
        "outbox",
        "decisions",
        "updates",
    ] {
        let sql = format!(
            "SELECT group_concat(old.name) FROM pragma_table_info('{table}', 'main') AS old
             JOIN pragma_table_info('{table}', 'new') AS new ON new.name = old.name"
        );
        let columns: Option<String> = connection.query_row(&sql, [], |row| row.get(0)).expect("columns");
        let Some(columns) = columns else { continue };
        // Since version 9 most messages are kept in pieces.
        let values: Vec<_> =
            columns.split(',').map(|name| if name == "alert" { "coalesce(alert, '{}')" } else { name }).collect();
        let values = if version < 9 { values.join(",") } else { columns.clone() };
        let copy = format!("INSERT INTO main.{table} ({columns}) SELECT {values} FROM new.{table}");
        connection.execute(&copy, []).expect(table);
    }
    if version < 9 {
        let limiters = "UPDATE main.subscribers AS s
                        SET limiter = (SELECT state FROM new.limiters AS l WHERE l.subscriber_key = s.subscriber_key)";
        connection.execute(limiters, []).expect("the limiters");
    }
    connection.pragma_update(Some("main"), "user_version", i64::try_from(version).expect("small")).expect("the version");
    old
}

/// Everything that an operator sees of it.
pub fn seen(at: impl Into<Location>) -> String {
    let store = Store::open_existing(at).expect("opens");
    let ledger = store.ledger(None, None).expect("the ledger");
    let subscribers = store.subscribers().expect("the subscribers");
    let counts: Vec<_> = subscribers.iter().map(|stored| store.counts(stored.key).expect("counts")).collect();
    format!("{ledger:#?}\n{subscribers:#?}\n{counts:#?}\n{:#?}", store.status().expect("the status"))
}

#[tokio::test]
async fn every_older_version_becomes_what_a_fresh_one_is_and_keeps_its_rows() {
    if only_in_a_file() {
        return;
    }
    let rig = lived_in().await;
    let fresh = rig.path("fresh.db");
    drop(Store::open(&fresh).expect("a fresh database"));
    assert_eq!(beside(&fresh), [""; 0], "nothing was there before it");
    let (expected, latest) = (seen(&rig.path("throttler.db")), migrations("sqlite").len());
    assert!(expected.contains("Pending") && expected.contains("Digested") && expected.contains("Alerted"), "{expected}");
    for older in 1..=latest {
        let path = as_version(&rig, older, &format!("version{older}.db"));
        let before = schema(&path);
        drop(Store::open(&path).unwrap_or_else(|fault| panic!("version {older}: {fault}")));
        assert_eq!(schema(&path), schema(&fresh), "version {older}");
        assert_eq!(version(&path), i64::try_from(latest).expect("small"), "every file is applied");
        assert_eq!(seen(&path), expected, "version {older}");
        let problems: String =
            Connection::open(&path).expect("opens").query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(problems, "ok");
        if older == latest {
            assert_eq!(beside(&path), [""; 0], "nothing changed");
            continue;
        }
        // As it was, in one file, for its owner alone.
        let end = format!(".before-{:04}", older + 1);
        assert_eq!(beside(&path), [end.as_str()]);
        let copy = rig.path(&format!("version{older}.db{end}"));
        assert_eq!((schema(&copy), version(&copy)), (before, i64::try_from(older).expect("small")));
        assert_eq!(fs::metadata(&copy).expect("the copy").permissions().mode() & 0o777, 0o600);
        // And a database to go back to.
        fs::rename(&copy, &path).expect("put in place");
        drop(Store::open(&path).expect("the copy opens"));
        assert_eq!(seen(&path), expected, "the copy of version {older}");
    }
}

#[tokio::test]
async fn a_copy_that_takes_the_databases_place_knows_that_it_is_one() {
    if only_in_a_file() {
        return;
    }
    let rig = lived_in().await;
    let path = as_version(&rig, 6, "old.db");
    drop(Store::open(&path).expect("opens"));
    let copy = Store::open_existing(&rig.path("old.db.before-0007")).expect("the copy opens");
    assert_eq!(copy.backup_at().expect("read"), Some(rig.clock_plus(0)), "its last poll");
    assert_eq!(Store::open_existing(&path).expect("opens").backup_at().expect("read"), None);
}

#[tokio::test]
async fn two_copies_are_kept() {
    if only_in_a_file() {
        return;
    }
    let rig = lived_in().await;
    let path = as_version(&rig, 5, "old.db");
    for name in ["old.db.before-0002", "old.db.before-0003", "old.db.before-0006.draft", "old.db.before-3", "old.db.before-old"] {
        fs::write(rig.path(name), "of long ago").expect("written");
    }
    drop(Store::open(&path).expect("opens"));
    // What an interrupted start left is gone, and what somebody else called alike is not.
    assert_eq!(beside(&path), [".before-0003", ".before-0006", ".before-3", ".before-old"]);
}

#[tokio::test]
async fn without_the_copy_nothing_is_changed() {
    if only_in_a_file() {
        return;
    }
    let rig = lived_in().await;
    let path = as_version(&rig, 4, "old.db");
    let before = schema(&path);
    fs::create_dir_all(rig.path("old.db.before-0005/in-the-way")).expect("a directory");
    let fault = Store::open(&path).err().expect("it is not opened").to_string();
    assert!(fault.contains("is not brought to the current schema, because it cannot be copied to"), "{fault}");
    assert!(fault.contains("old.db.before-0005"), "{fault}");
    assert_eq!((schema(&path), version(&path)), (before, 4));
    assert_eq!(beside(&path), [".before-0005"], "no draft is left");
    fs::remove_dir_all(rig.path("old.db.before-0005")).expect("removed");
    drop(Store::open(&path).expect("it is opened when it can be copied"));
}

#[tokio::test]
async fn an_older_database_may_be_opened_by_several_at_once() {
    if only_in_a_file() {
        return;
    }
    let rig = lived_in().await;
    let expected = seen(&rig.path("throttler.db"));
    for turn in 0..5 {
        let path = as_version(&rig, 1, &format!("old{turn}.db"));
        let open = |path: PathBuf| {
            let opened = Store::open(&path);
            drop(opened.unwrap_or_else(|fault| panic!("{fault}: {:?}", std::error::Error::source(&fault))));
        };
        let openers: Vec<_> = (0..6).map(|_| path.clone()).map(|path| std::thread::spawn(move || open(path))).collect();
        for opener in openers {
            opener.join().expect("it opened");
        }
        assert_eq!(seen(&path), expected);
        assert_eq!(beside(&path), [".before-0002"], "one of them made a copy, of what was there before");
        assert_eq!(version(&rig.path(&format!("old{turn}.db.before-0002"))), 1);
    }
}

/// A database as version 8 wrote it, with messages of every status, decisions of nearly every kind, and updates.
fn of_version_8(rig: &Rig) -> PathBuf {
    let path = rig.path("version8.db");
    let connection = Connection::open(&path).expect("opens");
    for migration in &migrations("sqlite")[..8] {
        connection.execute_batch(migration).expect("an applied migration");
    }
    connection.pragma_update(None, "foreign_keys", false).expect("tables in any order");
    connection.execute_batch(include_str!("version8.sql")).expect("the rows");
    connection.pragma_update(None, "user_version", 8).expect("the version");
    path
}

/// What a query answers, row by row.
fn rows(path: &Path, sql: &str) -> Vec<Vec<Value>> {
    let connection = Connection::open(path).expect("opens");
    let mut read = connection.prepare(sql).expect(sql);
    let columns = read.column_count();
    let rows = read.query_map([], |row| (0..columns).map(|at| row.get(at)).collect()).expect(sql);
    rows.collect::<Result<_, _>>().expect(sql)
}

#[tokio::test]
async fn messages_decisions_and_limiters_of_version_8_are_kept_to_the_letter() {
    let rig = Rig::fresh().await;
    let path = of_version_8(&rig);
    let same = [
        "SELECT * FROM decisions ORDER BY event_key, subscriber_key",
        "SELECT * FROM updates ORDER BY update_key",
        "SELECT * FROM events ORDER BY event_key",
        "SELECT delivery_key, subscriber_key, alert_id, channel, magnitude, alert, created_at, due_at, status, attempts, lease_owner,
                lease_until, settled_at, detail, retried_at, noticed FROM outbox ORDER BY delivery_key",
    ];
    let before = same.map(|sql| rows(&path, sql));
    assert!(before.iter().all(|rows| !rows.is_empty()));
    let limiters = rows(&path, "SELECT subscriber_key, limiter FROM subscribers WHERE limiter IS NOT NULL ORDER BY 1");
    let alerts: HashMap<i64, String> = Connection::open(&path)
        .expect("opens")
        .prepare("SELECT delivery_key, alert FROM outbox")
        .and_then(|mut read| read.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
        .expect("the messages");

    let mut store = Store::open(&path).expect("it is brought to today's schema");
    for (sql, before) in same.iter().zip(before) {
        assert_eq!(rows(&path, sql), before, "{sql}");
    }
    assert_eq!(rows(&path, "SELECT subscriber_key, state FROM limiters ORDER BY 1"), limiters);
    assert!(rows(&path, "SELECT * FROM pragma_foreign_key_check").is_empty());
    for status in DeliveryStatus::ALL {
        let listed = store.outbox(status, None, 100).expect("the outbox");
        assert!(!listed.is_empty() && listed.iter().all(|row| row.message.title.is_ok()), "{status}: {listed:?}");
    }
    // What waits is told in the words in which it was decided.
    let claim = Claim { owner: "me", most: 100, lease: Span::from_seconds(300), now: rig.clock_plus(30 * 24 * HOUR) };
    let claimed = store.claim(claim, |_| 100).expect("claimed");
    assert!(claimed.len() >= 8, "{claimed:?}");
    for claimed in claimed {
        let told = serde_json::to_string(&claimed.alert).expect("JSON");
        assert_eq!(Some(&told), alerts.get(&claimed.delivery_key));
    }
    // By its id each is still found.
    let dead = store.outbox(DeliveryStatus::Dead, None, 100).expect("the dead").remove(0).message.id;
    assert_eq!(store.retry_dead(&[dead], rig.clock_plus(0)).expect("put back").count, 1);
}
