//! A database that does not work for a while: the daemon says so in one line, decides nothing without its memory, and goes on
//! when it is mended, as if nothing had happened.

use std::process::Command;

use rusqlite::Connection;

use crate::daemon::{Daemon, mails, number, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};

fn log(place: &Place) -> String {
    std::fs::read_to_string(place.path("log")).expect("the log")
}

/// A place with a subscriber who gets two alerts and no third.
fn limited() -> Place {
    let place = place();
    let limit = ["--rate", "1/520w", "--bucket", "2", "--excess", "drop"];
    place.run(&[&["subscriber", "add", "anna", "--email", "anna@example.org"][..], &limit].concat()).ok();
    place
}

/// The trouble was told once by a stage, and its end; and the limit held.
fn check_recovery(place: &Place, daemon: Daemon, cause: &str) {
    wait_for("the second message", || (mails(place).len() == 2).then_some(()));
    wait_for("all is decided", || number(place, "SELECT count(*) FROM decisions").filter(|count| *count == 3));
    wait_for("all is settled", || number(place, "SELECT count(*) FROM outbox WHERE status <> 'delivered'").filter(|n| *n == 0));
    assert_eq!(daemon.stop().code(), Some(0));
    let log = log(place);
    let told: Vec<&str> = log.lines().filter(|line| line.contains("until this is mended: ")).collect();
    assert!(!told.is_empty() && told.iter().all(|line| line.contains(cause)), "{told:?}");
    for stage in ["recorded", "decided", "delivered"] {
        assert!(told.iter().filter(|line| line.contains(&format!("nothing is {stage}"))).count() <= 1, "{told:?}");
    }
    assert_eq!(mails(place).len(), 2, "the limiter forgot nothing: {log}");
    assert_eq!(number(place, "SELECT count(*) FROM decisions WHERE outcome = 'withheld'"), Some(1));
}

/// Allows the daemon's files this many bytes, or any number.
fn allow(daemon: &Daemon, bytes: Option<u64>) {
    let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
    let status =
        Command::new("prlimit").args(["--pid", &daemon.id().to_string(), &format!("--fsize={limit}:unlimited")]).status();
    assert!(status.expect("prlimit").success());
}

#[test]
fn a_full_disk() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        println!("skipped: there is no prlimit to fill a disk with");
        return;
    }
    let place = limited();
    // The signal that comes with a file too large is ignored, and the write fails as on a full disk.
    let daemon = Daemon::start_under(&place, "trap '' XFSZ; exec \"$0\" \"$@\"");
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 7.0)]);
    wait_for("the first message", || (mails(&place).len() == 1).then_some(()));
    wait_for("it is settled", || number(&place, "SELECT count(*) FROM outbox WHERE status = 'delivered'").filter(|n| *n == 1));
    // Smaller than the log of the database is already, larger than that of the daemon.
    allow(&daemon, Some(std::fs::metadata(place.path("throttler.db-wal")).expect("its log").len() / 2));
    place.feed(&[quake("us3", 6.0), quake("us2", 6.5), quake("us1", 7.0)]);
    wait_for("a complaint", || log(&place).contains("nothing is recorded until this is mended: ").then_some(()));
    assert_eq!(number(&place, "SELECT count(*) FROM events"), Some(1), "nothing is half recorded");
    allow(&daemon, None);
    check_recovery(&place, daemon, "");
}

#[test]
fn a_database_that_another_process_keeps_locked() {
    let place = limited();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 7.0)]);
    wait_for("the first message", || (mails(&place).len() == 1).then_some(()));
    let other = Connection::open(place.path("throttler.db")).expect("opens");
    other.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    place.feed(&[quake("us3", 6.0), quake("us2", 6.5), quake("us1", 7.0)]);
    wait_for("a complaint", || log(&place).contains("nothing is recorded until this is mended: ").then_some(()));
    other.execute_batch("ROLLBACK").expect("unlocked");
    check_recovery(&place, daemon, "database is locked");
    assert!(log(&place).contains("the database works again: what was not recorded is now"), "{}", log(&place));
}

#[test]
fn a_page_that_is_damaged() {
    let place = limited();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 7.0)]);
    wait_for("the first message", || (mails(&place).len() == 1).then_some(()));
    assert_eq!(daemon.stop().code(), Some(0));
    // The page that holds the subscriber and what its limiter spent.
    let path = place.path("throttler.db");
    let root = number(&place, "SELECT rootpage FROM sqlite_schema WHERE name = 'subscribers'").expect("a page");
    let size = number(&place, "SELECT page_size FROM pragma_page_size").expect("a size");
    let sound = std::fs::read(&path).expect("the database");
    let mut damaged = sound.clone();
    let (at, size) = (usize::try_from((root - 1) * size).expect("small"), usize::try_from(size).expect("small"));
    damaged[at..at + size].fill(0xA5);
    std::fs::write(&path, &damaged).expect("damaged");
    let daemon = Daemon::start(&place);
    place.feed(&[quake("us3", 6.0), quake("us2", 6.5), quake("us1", 7.0)]);
    wait_for("a complaint", || log(&place).contains("nothing is decided until this is mended: ").then_some(()));
    assert!(log(&place).contains("database disk image is malformed"), "{}", log(&place));
    daemon.kill();
    assert_eq!(mails(&place).len(), 1, "nothing is decided without memory");
    // Mended from a copy; what the feed showed meanwhile is still there.
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(place.path(&format!("throttler.db{end}")));
    }
    std::fs::write(&path, &sound).expect("mended");
    let daemon = Daemon::start(&place);
    check_recovery(&place, daemon, "malformed");
}

#[test]
fn a_database_that_may_not_be_written() {
    let place = limited();
    let path = place.path("throttler.db");
    let mut permissions = std::fs::metadata(&path).expect("the database").permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).expect("read only");
    if std::fs::File::options().append(true).open(&path).is_ok() {
        println!("skipped: this user may write where permissions forbid it (root)");
        return;
    }
    let ran = place.run(&["run"]);
    assert_eq!(ran.status, Some(1), "{}", ran.err);
    assert!(ran.err.contains("readonly database") && ran.err.lines().count() == 1, "{}", ran.err);
}
