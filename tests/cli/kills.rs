//! SIGKILL at random moments while the feed grows: the end is that of a run without.

use std::collections::BTreeSet;

use crate::daemon::{Daemon, mails, number, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};
use crate::receiver::Receiver;

const KILLS: usize = 20;
const EVENTS: usize = 2 * KILLS;
const SEED: u64 = 88;

/// Chance that a seed repeats: splitmix64 (Steele, Lea and Flood, 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// Events that come one after the other, each smaller than all before: largest first is then the order in which they came,
/// however many a poll finds.
fn events() -> Vec<serde_json::Value> {
    (0..EVENTS).map(|at| quake(&format!("us{at:02}"), 9.0 - 0.05 * at as f64)).collect()
}

async fn prepared() -> (Place, Receiver) {
    let (place, receiver) = (place(), Receiver::start().await);
    let hook = format!("http://127.0.0.1:{}/hook", receiver.port);
    // Limits that refill nothing while the test runs.
    place
        .run(&[
            "subscriber",
            "add",
            "drop",
            "--email",
            "drop@example.org",
            "--rate",
            "1/520w",
            "--bucket",
            "10",
            "--excess",
            "drop",
        ])
        .ok();
    place
        .run(&["subscriber", "add", "digest", "--email", "digest@example.org", "--limiter", "sliding-log", "--rate", "7/520w"])
        .ok();
    let webhook = [
        "subscriber",
        "add",
        "hook",
        "--webhook",
        &hook,
        "--limiter",
        "sliding-counter",
        "--rate",
        "12/520w",
        "--excess",
        "delay",
    ];
    place.run(&webhook).ok();
    (place, receiver)
}

/// What is left: the messages, the requests' ids, the decisions, and what each limiter still allows.
#[derive(Debug, PartialEq)]
struct Left {
    mails: Vec<String>,
    hooks: BTreeSet<String>,
    decisions: Vec<String>,
    remaining: Vec<(u64, u64)>,
}

/// Lets the daemon finish, and looks.
fn finished(place: &Place, receiver: &Receiver, daemon: Daemon) -> Left {
    let all = i64::try_from(3 * EVENTS).expect("small");
    wait_for("all is decided", || number(place, "SELECT count(*) FROM decisions").filter(|count| *count == all));
    wait_for("all is delivered", || number(place, "SELECT count(*) FROM outbox WHERE status <> 'delivered'").filter(|n| *n == 0));
    assert_eq!(daemon.stop().code(), Some(0));
    let ledger = place.run(&["ledger", "--format", "json"]).json();
    let mut decisions: Vec<_> = ledger["decisions"]
        .as_array()
        .expect("decisions")
        .iter()
        .map(|row| format!("{} {} {} {}", row["subscriber"], row["event"]["id"], row["outcome"], row["delivery"]))
        .collect();
    decisions.sort();
    let remaining = ["drop", "digest", "hook"].map(|name| {
        let shown = place.run(&["subscriber", "show", name, "--format", "json"]).json();
        (shown["remaining"].as_u64().expect("a count"), shown["decisions"]["alerted"].as_u64().expect("a count"))
    });
    let local = |id: &str| id.split_once('-').expect("an installation's key").1.to_owned();
    Left {
        mails: mails(place),
        hooks: receiver.requests().iter().map(|request| local(&request.id)).collect(),
        decisions,
        remaining: remaining.to_vec(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_it_ends_as_if_nothing_had_happened() {
    let (undisturbed, receiver) = prepared().await;
    let daemon = Daemon::start(&undisturbed);
    wait_for_first_poll(&undisturbed);
    undisturbed.feed(&events());
    let expected = finished(&undisturbed, &receiver, daemon);
    assert_eq!((expected.mails.len(), expected.hooks.len()), (10 + 7, 12), "{expected:#?}");
    assert_eq!(expected.remaining, [(0, 10), (0, 7), (0, 12)]);

    let (place, receiver) = prepared().await;
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    daemon.kill();
    let (events, mut chance) = (events(), Chance(SEED));
    let lines = |place: &Place| std::fs::read_to_string(place.path("log")).expect("the log").lines().count() as u64;
    for kill in 0..KILLS {
        place.feed(&events[..=2 * kill]);
        let before = lines(&place);
        let daemon = Daemon::start(&place);
        // A moment is so many lines of the log, and a little more.
        let first = before + 1 + chance.below(10);
        wait_for("some lines of log", || (lines(&place) >= first).then_some(()));
        place.feed(&events[..2 * kill + 2]);
        let second = first + chance.below(12);
        wait_for("more lines of log", || (lines(&place) >= second).then_some(()));
        std::thread::sleep(std::time::Duration::from_micros(chance.below(5_000)));
        daemon.kill();
    }
    let daemon = Daemon::start(&place);
    let left = finished(&place, &receiver, daemon);
    assert_eq!(left, expected, "seed {SEED}");
    let check = number(&place, "SELECT (SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok')");
    assert_eq!(check, Some(0));
    let requests = receiver.requests();
    for request in &requests {
        let times = requests.iter().filter(|other| other.id == request.id).count();
        assert!(times <= KILLS + 1, "{} came {times} times: more than once in the life of one daemon", request.id);
    }
    let drafts = std::fs::read_dir(place.path("mail")).expect("the mail").filter(|entry| {
        entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "eml"))
            && std::fs::read_to_string(entry.as_ref().expect("an entry").path())
                .is_ok_and(|text| !text.contains("\nMIME-Version: 1.0"))
    });
    assert_eq!(drafts.count(), 0, "every message is whole");
}
