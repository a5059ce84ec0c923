//! A program that brings a large older database to the current schema, on a full disk, and killed in the middle.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rusqlite::Connection;

use crate::place::Place;

/// Decisions in the old database: some megabytes.
const DECISIONS: i64 = 30_000;

/// A database of the first version with so many decisions on one event.
fn old_database(place: &Place, decisions: i64) {
    let first =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/sqlite/0001_first.sql")).expect("a migration");
    let connection = Connection::open(place.path("old.db")).expect("opens");
    connection.execute_batch(&first).expect("the first version");
    let numbers = format!("WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {decisions})");
    connection
        .execute_batch(&format!(
            "BEGIN;
             INSERT INTO installation (only, key) VALUES (1, 'k');
             INSERT INTO events (event_key, preferred_id, origin_at, body, first_seen_at, changed_at, fate)
                 VALUES (1, 'us1', 0, '{{}}', 0, 0, 'open');
             {numbers} INSERT INTO subscribers (name, settings, standing, created_at, active_since, interest_since)
                 SELECT 's' || n, '{{}}', 'active', 0, 0, 0 FROM number;
             {numbers} INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused)
                 SELECT 1, n, 0, 'withheld', 'the limit is reached; the next may pass at 2025-08-05T09:00:00Z', 1 FROM number;
             PRAGMA user_version = 1;
             COMMIT;"
        ))
        .expect("rows");
}

fn number(path: &Path, sql: &str) -> i64 {
    Connection::open(path).expect("opens").query_row(sql, [], |row| row.get(0)).expect(sql)
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |about| about.len())
}

/// Its version, how many rows it has, and whether it is sound.
fn state(path: &Path) -> (i64, i64, String) {
    let connection = Connection::open(path).expect("opens");
    let problems = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).expect("a check");
    drop(connection);
    (number(path, "SELECT user_version FROM pragma_user_version"), number(path, "SELECT count(*) FROM decisions"), problems)
}

#[test]
fn a_program_that_is_killed_while_it_upgrades_leaves_the_old_database() {
    let place = Place::new();
    old_database(&place, DECISIONS);
    let database = place.path("throttler.db");
    let (draft, log) = (place.path("throttler.db.before-0002.draft"), place.path("throttler.db-wal"));
    let mut in_the_middle = 0;
    for (what, file, bytes) in
        [("copying", &draft, 1), ("copying", &draft, 1_000_000), ("upgrading", &log, 1), ("upgrading", &log, 1_000_000)]
    {
        for end in ["", "-wal", "-shm", ".before-0002"] {
            let _ = fs::remove_file(place.path(&format!("throttler.db{end}")));
        }
        fs::copy(place.path("old.db"), &database).expect("copied");
        let mut child = place.command(&["status"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program");
        let ended = loop {
            if size(file) >= bytes {
                break false;
            }
            if child.try_wait().expect("its status").is_some() {
                break true;
            }
            std::thread::sleep(Duration::from_micros(200));
        };
        child.kill().expect("killed");
        child.wait().expect("its end");
        let (version, rows, problems) = state(&database);
        assert_eq!((rows, problems.as_str()), (DECISIONS, "ok"), "killed while {what}");
        assert!(version == 1 || ended || version > 1 && what == "upgrading", "killed while {what}: version {version}");
        in_the_middle += i32::from(version == 1);
        // The next start goes on as if nothing had been.
        place.run(&["status"]).ok();
        let (version, rows, problems) = state(&database);
        assert!(version > 1 && rows == DECISIONS && problems == "ok", "{version}, {rows}, {problems}");
        assert_eq!(state(&place.path("throttler.db.before-0002")), (1, DECISIONS, "ok".into()));
        assert!(!draft.exists());
    }
    assert!(in_the_middle > 0, "no kill came before the end");
}

#[test]
fn a_disk_without_room_for_the_copy() {
    let place = Place::new();
    old_database(&place, 20_000);
    let database = place.path("throttler.db");
    fs::copy(place.path("old.db"), &database).expect("copied");
    assert!(size(&database) > 1_000_000);
    // Files of at most 512 KiB; the signal that comes with larger ones is ignored, and the write fails as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 1024 && exec \"$0\" \"$@\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_throttler"), "status"]).current_dir(place.path("."));
    let output = limited.output().expect("the program");
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{told}");
    let expected = "the database throttler.db is not brought to the current schema, because it cannot be copied to \
                    throttler.db.before-0002 before: ";
    assert!(told.contains(expected), "{told}");
    assert_eq!(state(&database), (1, 20_000, "ok".into()));
    assert!(!place.path("throttler.db.before-0002").exists() && !place.path("throttler.db.before-0002.draft").exists());
    place.run(&["status"]).ok();
    assert_eq!(state(&place.path("throttler.db.before-0002")), (1, 20_000, "ok".into()));
}
