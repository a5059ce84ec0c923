//! A backup of a database at work, and what follows when it is put in the place of the original.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use throttler::store::{FromBackup, Store};

use crate::rig::{MINUTE, Quake, Rig, mailed, only_in_a_file};

fn ids(rig: &Rig) -> Vec<String> {
    rig.receiver.requests().into_iter().map(|request| request.id).collect()
}

/// The copy takes the database's place, as an operator does it.
async fn restore(rig: &mut Rig, copy: &str) -> Option<FromBackup> {
    rig.open = None;
    for end in ["-wal", "-shm"] {
        // The last to close the database has removed them, as a rule.
        let _ = fs::remove_file(rig.path(&format!("throttler.db{end}")));
    }
    fs::copy(rig.path(copy), rig.path("throttler.db")).expect("put in place");
    rig.restart().await;
    rig.parts().database.with(Store::begin_from_backup).await.expect("begun")
}

#[tokio::test]
async fn a_restored_backup_says_what_may_be_repeated_and_uses_no_id_for_anything_else() {
    if only_in_a_file() {
        return;
    }
    let mut rig = Rig::with(&[]).await;
    rig.add(&[rig.hooked("anna")]);
    let first = Quake::new(&rig, "us1", 5.5, MINUTE);
    rig.pass(1);
    rig.show(std::slice::from_ref(&first));
    rig.poll().await;
    rig.dispatch().await;
    // One message is under way when the backup is made.
    rig.run("UPDATE outbox SET status = 'leased', lease_owner = 'x', lease_until = 0");
    let made_at = rig.clock_plus(0);
    rig.store().backup(&rig.path("copy.db"), made_at, |_| {}).expect("copied");
    assert_eq!(rig.store().backup_at().expect("read"), None, "the original is none");
    rig.deliver().await;
    // After the backup another event is decided and told.
    rig.pass(MINUTE);
    let second = Quake::new(&rig, "us2", 6.5, 1);
    rig.see(&[second, first.clone()]).await;
    let before = ids(&rig);
    assert_eq!(before.len(), 2);

    let from = restore(&mut rig, "copy.db").await;
    assert_eq!(from, Some(FromBackup { made_at, may_repeat: 1 }));
    let note: String = rig.text("SELECT detail FROM outbox");
    assert!(note.contains("may have been sent already") && note.contains(&made_at.to_string()), "{note}");
    rig.deliver().await;
    assert_eq!(ids(&rig)[2..], before[..1], "the repeat has the same id");
    // A third event takes the place that the second had: it is not taken for it.
    rig.pass(MINUTE);
    let third = Quake::new(&rig, "us3", 7.0, 1);
    rig.see(&[third, first]).await;
    let all = ids(&rig);
    assert_eq!(all.len(), 4);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 3, "{all:?}");
    assert_eq!(rig.parts().database.with(Store::begin_from_backup).await.expect("asked again"), None, "said once");
    rig.check_books();
}

#[tokio::test]
async fn a_backup_is_of_one_moment_however_much_is_written_meanwhile() {
    if only_in_a_file() {
        return;
    }
    let mut rig = Rig::with(&[]).await;
    let all: Vec<_> = (0..1_500).map(|at| mailed(&format!("s{at}"))).collect();
    rig.add(&all);
    rig.pass(1);
    rig.show(&[Quake::new(&rig, "us1", 5.5, MINUTE)]);
    rig.poll().await;
    rig.dispatch().await;
    let (path, stop) = (rig.path("throttler.db"), AtomicBool::new(false));
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let connection = Connection::open(&path).expect("opens");
            connection.busy_timeout(std::time::Duration::from_secs(10)).expect("a timeout");
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) {
                // Both at once: a copy of one moment has them equal.
                connection.execute_batch("BEGIN; UPDATE outbox SET attempts = attempts + 1; UPDATE events SET first_seen_at = first_seen_at + 1; COMMIT").expect("written");
                written += 1;
            }
            written
        });
        let mut parts = 0;
        for copy in 0..5 {
            rig.store().backup(&rig.path(&format!("copy{copy}.db")), rig.clock_plus(0), |_| parts += 1).expect("copied");
        }
        stop.store(true, Ordering::Relaxed);
        (writer.join().expect("the writer"), parts)
    });
    assert!(written.0 > 0, "{written:?}");
    let first_seen_at = rig.number("SELECT first_seen_at - (SELECT max(attempts) FROM outbox) FROM events");
    for copy in 0..5 {
        let path = rig.path(&format!("copy{copy}.db"));
        let connection = Connection::open(&path).expect("opens");
        let sql = "SELECT count(DISTINCT attempts) = 1 AND max(attempts) = (SELECT first_seen_at FROM events) - ?1 FROM outbox";
        assert!(connection.query_row(sql, [first_seen_at], |row| row.get::<_, bool>(0)).expect("a row"), "{copy}");
        assert!(!rig.path(&format!("copy{copy}.db-wal")).exists(), "one file");
    }
}
