//! The daemon as systemd has it, with a socket of the test's own in systemd's place: readiness, signs of life, a line on how
//! things stand, reloads, the stop.

use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rusqlite::Connection;
use throttler::clock::{Clock, SystemClock};
use throttler::time::{Span, Timestamp};

use crate::daemon::{Daemon, log, mails, number, place, wait_for_first_poll};
use crate::gate::Gate;
use crate::place::{Place, quake, wait_for};
use crate::receiver;
use crate::smtp_server::{Script, Server};

/// The most messages that are heard in wait of one.
const PATIENCE: usize = 3_000;

/// In systemd's place: it takes every message when it comes, as nobody who notifies may be kept waiting.
struct Manager(Receiver<Vec<String>>);

impl Manager {
    fn listen(place: &Place) -> Manager {
        let socket = UnixDatagram::bind(place.path("notify")).expect("a socket");
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(length) = socket.recv(&mut buffer) {
                let text = std::str::from_utf8(&buffer[..length]).expect("UTF-8");
                if send.send(text.lines().map(str::to_owned).collect()).is_err() {
                    return;
                }
            }
        });
        Manager(receive)
    }

    /// A daemon that is to give this manager a sign of life five times a second.
    fn start(place: &Place) -> Daemon {
        Daemon::start_with(place, &[("NOTIFY_SOCKET", place.path("notify").as_os_str()), ("WATCHDOG_USEC", "200000".as_ref())])
    }

    /// The next message, in its lines.
    fn message(&self) -> Vec<String> {
        self.0.recv_timeout(Duration::from_mins(1)).expect("a message within a minute")
    }

    /// The messages up to the first with a line that begins so.
    fn hear(&self, word: &str) -> Vec<Vec<String>> {
        self.hear_until(word, |line| line.starts_with(word))
    }

    fn hear_until(&self, what: &str, is_it: impl Fn(&str) -> bool) -> Vec<Vec<String>> {
        let mut heard = Vec::new();
        while heard.len() < PATIENCE {
            heard.push(self.message());
            if heard.last().is_some_and(|message| message.iter().any(|line| is_it(line))) {
                return heard;
            }
        }
        panic!("{what} did not come: {heard:?}");
    }

    /// Lets go of what has come, and hears so many signs of life after it.
    fn hear_signs_of_life(&self, count: usize) {
        self.0.try_iter().for_each(drop);
        for _ in 0..count {
            self.hear("WATCHDOG=1");
        }
    }
}

/// The configuration with this in place of that.
fn reconfigure(place: &Place, before: &str, after: &str) {
    let text = std::fs::read_to_string(place.path("throttler.toml")).expect("the configuration");
    assert!(text.contains(before), "{text}");
    place.replace("throttler.toml", &text.replace(before, after));
}

#[test]
fn systemd_is_told_when_it_is_ready_how_things_stand_and_when_it_stops() {
    let place = place();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let manager = Manager::listen(&place);
    let mut daemon = Manager::start(&place);
    let first = manager.message();
    assert_eq!(first[0], "READY=1", "nothing before it: {first:?}");
    assert!(first[1].starts_with("STATUS=polls file://") && first[1].ends_with(" every 50ms"), "{first:?}");
    let said = |end: &str| {
        manager.hear_until(end, |line| line.starts_with("STATUS=feed fresh (polled 20") && line.ends_with(end));
    };
    said("Z), 0 to decide, 0 waiting, 1 subscriber");
    place.run(&["subscriber", "add", "ben", "--email", "ben@example.org"]).ok();
    said("Z), 0 to decide, 0 waiting, 2 subscribers");
    daemon.signal("INT");
    let last = manager.hear("STOPPING=1").pop().expect("a message");
    assert_eq!(last, ["STOPPING=1", "STATUS=stopping, 0 deliveries under way"]);
    assert_eq!(daemon.ended().code(), Some(0));
}

#[test]
fn it_gives_signs_of_life_also_when_there_is_nothing_to_do_polls_fail_or_the_database_does() {
    let place = place();
    reconfigure(&place, "poll = \"50ms\"", "poll = \"1h\"");
    let manager = Manager::listen(&place);
    let daemon = Manager::start(&place);
    manager.hear("READY=1");
    wait_for_first_poll(&place);
    // The next poll is in an hour.
    manager.hear_signs_of_life(5);
    assert_eq!(daemon.stop().code(), Some(0));

    // Polls fail, and the one after is in an hour or more.
    place.write("feed.geojson", "<html>");
    let daemon = Manager::start(&place);
    wait_for("a complaint", || log(&place).contains("an HTML page").then_some(()));
    manager.hear_signs_of_life(5);
    assert_eq!(daemon.stop().code(), Some(0));

    // A database that waits to be mended.
    reconfigure(&place, "poll = \"1h\"", "poll = \"50ms\"");
    place.feed(&[]);
    let daemon = Manager::start(&place);
    wait_for("it is up", || daemon.is_up().then_some(()));
    let other = Connection::open(place.path("throttler.db")).expect("opens");
    other.busy_timeout(Duration::from_secs(10)).expect("a timeout");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    place.feed(&[quake("us1", 7.0)]);
    wait_for("a complaint", || log(&place).contains("nothing is recorded until this is mended: ").then_some(()));
    manager.hear_until("a line about it", |line| line.starts_with("STATUS=") && line.contains("database is locked"));
    manager.hear_signs_of_life(1);
    other.execute_batch("ROLLBACK").expect("unlocked");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn nobody_is_given_signs_of_life_who_did_not_ask() {
    let place = place();
    let manager = Manager::listen(&place);
    let daemon = Daemon::start_with(&place, &[("NOTIFY_SOCKET", place.path("notify"))]);
    wait_for_first_poll(&place);
    assert_eq!(daemon.stop().code(), Some(0));
    let heard = manager.hear("STOPPING=1");
    assert!(!heard.iter().flatten().any(|line| line.starts_with("WATCHDOG")), "{heard:?}");
}

/// A reload: what was said until it had ended, and whether the protocol was kept.
fn reload(manager: &Manager, daemon: &Daemon) -> String {
    daemon.signal("HUP");
    let begin = manager.hear("RELOADING=1").pop().expect("a message");
    let at = begin[1].strip_prefix("MONOTONIC_USEC=").expect("the instant");
    assert!(begin.len() == 2 && at.parse::<u64>().is_ok_and(|at| at > 0), "{begin:?}");
    let end = manager.hear("READY=1").pop().expect("a message");
    end[1].strip_prefix("STATUS=").expect("a line").to_owned()
}

#[test]
fn a_reload_takes_over_a_good_configuration_and_refuses_a_bad_one() {
    let place = place();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let manager = Manager::listen(&place);
    let daemon = Manager::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 5.1)]);
    wait_for("the first message", || (mails(&place).len() == 1).then_some(()));

    // A bad one: the message names the place, and everything goes on as before.
    let good = std::fs::read_to_string(place.path("throttler.toml")).expect("the configuration");
    for (bad, fault) in [
        ("[feed]\npoll = \"often\"\n", "throttler.toml:2: poll: 'often' is not a duration: expected"),
        ("[fed]\n", "throttler.toml: unknown key 'fed'; the nearest known one is 'feed'"),
        ("[email]\nsmtp = \"smtp://mail.example.org\"\n", "throttler.toml: email.from: expected a sender"),
        ("[web]\nlisten = \"0.0.0.0:80\"\n", "throttler.toml: web.listen: 0.0.0.0:80 is not a loopback address"),
    ] {
        place.replace("throttler.toml", bad);
        let status = reload(&manager, &daemon);
        assert!(status.starts_with("feed fresh (polled ") && status.contains(" is refused: "), "{status}");
        assert!(status.contains(fault), "{status}");
        assert!(log(&place).contains(&format!("the configuration is refused, and the one before stays: {fault}")), "{fault}");
    }
    place.feed(&[quake("us2", 5.2), quake("us1", 5.1)]);
    wait_for("the second message", || (mails(&place).len() == 2).then_some(()));

    // A good one: other mail, another feed, other rules, at once; what takes a restart is named, and the rest holds.
    let other = good
        .replace("/mail\"", "/letters\"")
        .replace("feed.geojson", "other.geojson")
        .replace("min_magnitude = 4.5", "min_magnitude = 6.0");
    place.replace("throttler.toml", &format!("database = \"other.db\"\n{other}[web]\nlisten = \"127.0.0.1:1\"\n"));
    std::fs::copy(place.path("feed.geojson"), place.path("other.geojson")).expect("another feed");
    let status = reload(&manager, &daemon);
    assert!(!status.contains("refused"), "{status}");
    for key in ["database", "web.listen"] {
        let line = format!("changed, and takes a restart: the old value stays until then key=\"{key}\"");
        assert!(log(&place).contains(&line), "{line}: {}", log(&place));
    }
    assert!(!place.path("other.db").exists());
    let quakes = [quake("us4", 6.4), quake("us3", 5.3), quake("us2", 5.2), quake("us1", 5.1)];
    place.feed(&quakes);
    std::fs::rename(place.path("feed.geojson"), place.path("other.geojson")).expect("as a writer does it");
    let letters = || std::fs::read_dir(place.path("letters")).map_or(0, Iterator::count);
    wait_for("the message in the new place", || (letters() == 1).then_some(()));
    assert_eq!(number(&place, "SELECT count(*) FROM events"), Some(3), "the third is too small for the new rules");
    let about = &place.run(&["status", "--format", "json", "--database", "throttler.db"]).json()["daemon"];
    assert_eq!(about["reload"]["applied"], true, "{about}");
    assert_eq!(about["reload"]["detail"], "a restart is needed for database, web.listen", "{about}");
    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!((letters(), mails(&place).len()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_in_the_middle_of_deliveries_lose_and_double_nothing() {
    const SUBSCRIBERS: usize = 40;
    let (place, receiver) = (place(), receiver::Receiver::start().await);
    for at in 0..SUBSCRIBERS {
        let url = format!("http://127.0.0.1:{}/s{at}", receiver.port);
        place.run(&["subscriber", "add", &format!("s{at}"), "--webhook", &url]).ok();
    }
    let manager = Manager::listen(&place);
    let daemon = Manager::start(&place);
    wait_for_first_poll(&place);
    let quakes: Vec<_> = (0..5).map(|at| quake(&format!("us{at}"), 5.5)).collect();
    for shown in 1..=quakes.len() {
        place.feed(&quakes[..shown]);
        // Some find attempts under way, some a poll, some nothing; with a limit on what leaves, and without.
        for limit in ["max_per_second_per_host = 500\n", ""] {
            reconfigure(&place, "allow_private = true\n", &format!("allow_private = true\n{limit}"));
            reload(&manager, &daemon);
            reconfigure(&place, &format!("allow_private = true\n{limit}"), "allow_private = true\n");
        }
    }
    let all = SUBSCRIBERS * quakes.len();
    wait_for("all are delivered", || {
        number(&place, "SELECT count(*) FROM outbox WHERE status = 'delivered'")
            .filter(|done| *done == i64::try_from(all).expect("few"))
    });
    assert_eq!(daemon.stop().code(), Some(0));
    let mut ids: Vec<String> = receiver.requests().into_iter().map(|request| request.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), receiver.requests().len()), (all, all), "each once");
    assert_eq!(number(&place, "SELECT count(*) FROM outbox WHERE attempts <> 1 OR status <> 'delivered'"), Some(0));
    assert_eq!(log(&place).matches("the configuration was read again and holds from now on").count(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_reads_the_password_beside_the_configuration_again() {
    let server = Server::start(Script { login: Some(("alerts", "s3cret")), ..Script::default() }).await;
    let place = place();
    let mail = format!("smtp = \"file://{}\"", place.path("mail").display());
    let relay =
        format!("smtp = \"smtp://127.0.0.1:{}\"\nsmtp_username = \"alerts\"\nsmtp_password_file = \"password\"", server.port);
    reconfigure(&place, &mail, &relay);
    place.write("password", "mistyped\n");
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us1", 5.1)]);
    wait_for("the refused login", || log(&place).contains("refused the login").then_some(()));
    place.replace("password", "s3cret\n");
    daemon.signal("HUP");
    wait_for("the reload", || log(&place).contains("the configuration was read again").then_some(()));
    place.feed(&[quake("us2", 5.2), quake("us1", 5.1)]);
    wait_for("a mail", || (!server.mails().is_empty()).then_some(()));
    assert_eq!(daemon.stop().code(), Some(0));
    assert!(!log(&place).contains("s3cret") && !log(&place).contains("mistyped"), "{}", log(&place));
}

/// A feed without earthquakes that was made then.
fn feed_of(made: Timestamp) -> String {
    format!(r#"{{"type":"FeatureCollection","metadata":{{"generated":{},"status":200}},"features":[]}}"#, made.millis())
}

/// A place whose feed is behind this gate.
fn polling(gate: &Gate) -> Place {
    let place = place();
    let file = format!("file://{}", place.path("feed.geojson").display());
    reconfigure(&place, &file, &format!("http://127.0.0.1:{}/feed.geojson", gate.port));
    place
}

/// The daemon under this manager, by a clock that the test moves.
fn start_by_clock(place: &Place, now: Timestamp) -> Daemon {
    place.replace("clock", &now.to_string());
    let (socket, clock) = (place.path("notify"), place.path("clock"));
    let variables = [
        ("NOTIFY_SOCKET", socket.as_os_str()),
        ("WATCHDOG_USEC", "200000".as_ref()),
        ("THROTTLER_TEST_CLOCK", clock.as_os_str()),
    ];
    Daemon::start_with(place, &variables)
}

/// Moves the clock, and waits until a stage has been at a turn and has noted it.
fn move_clock(place: &Place, now: Timestamp) {
    place.replace("clock", &now.to_string());
    wait_for("a turn at that time", || {
        let note = std::fs::read_to_string(place.path("throttler.db.daemon.json")).ok()?;
        note.contains(&format!("\"noted_at\": \"{now}\"")).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_hangs_holds_up_no_stop() {
    let gate = Gate::start(feed_of(SystemClock.now())).await;
    let place = polling(&gate);
    let manager = Manager::listen(&place);
    let mut daemon = Manager::start(&place);
    manager.hear("READY=1");
    wait_for("a poll is under way", || (!gate.came().is_empty()).then_some(()));
    daemon.signal("TERM");
    manager.hear("STOPPING=1");
    assert_eq!(daemon.ended().code(), Some(0));
    assert!(!log(&place).contains("the next poll comes in"), "it was waited for: {}", log(&place));
    assert_eq!(number(&place, "SELECT count(*) FROM installation WHERE polled_at IS NOT NULL"), Some(0));

    // The next start polls anew.
    gate.open();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    assert_eq!(daemon.stop().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_that_hangs_ends_the_signs_of_life_although_the_others_go_on() {
    let start = SystemClock.now();
    let after = |seconds| start.plus(Span::from_seconds(seconds));
    let gate = Gate::start(feed_of(start)).await;
    let place = polling(&gate);
    let manager = Manager::listen(&place);
    let daemon = start_by_clock(&place, start);
    manager.hear("READY=1");
    wait_for("a poll is under way", || (!gate.came().is_empty()).then_some(()));
    manager.hear("WATCHDOG=1");
    // Nine minutes are as long as a poll may take; ten are a poll that hangs.
    move_clock(&place, after(540));
    manager.hear("WATCHDOG=1");
    move_clock(&place, after(601));
    move_clock(&place, after(700));
    let silent_from = manager.0.try_iter().count();
    for seconds in [800, 900, 1_000] {
        move_clock(&place, after(seconds));
    }
    let heard: Vec<String> = manager.0.try_iter().flatten().collect();
    assert!(!heard.iter().any(|line| line.starts_with("WATCHDOG")), "after {silent_from} messages: {heard:?}");
    // Had it only been slow, all would be well.
    gate.open();
    manager.hear("WATCHDOG=1");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn a_decision_under_way_at_a_stop_is_made_once() {
    let place = place();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let manager = Manager::listen(&place);
    let mut daemon = Manager::start(&place);
    wait_for_first_poll(&place);
    let other = Connection::open(place.path("throttler.db")).expect("opens");
    // Counting to two millions for a decision takes long enough to be interrupted.
    other.busy_timeout(Duration::from_secs(10)).expect("a timeout");
    other
        .execute_batch(
            "CREATE TABLE steps (n INTEGER);
             INSERT INTO steps WITH RECURSIVE step (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM step LIMIT 1500) SELECT n FROM step;
             CREATE TRIGGER slowly BEFORE INSERT ON decisions BEGIN SELECT sum(a.n * b.n) FROM steps AS a, steps AS b; END;",
        )
        .expect("a slow database");
    other.busy_timeout(Duration::ZERO).expect("no patience");
    place.feed(&[quake("us1", 5.1)]);
    wait_for("the decision is under way", || {
        let is_known = number(&place, "SELECT count(*) FROM events") == Some(1);
        let is_busy = is_known && other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err();
        is_busy.then_some(())
    });
    daemon.signal("TERM");
    manager.hear("STOPPING=1");
    assert_eq!(daemon.ended().code(), Some(0));
    let decided = |place: &Place| number(place, "SELECT count(*) FROM decisions");
    assert_eq!(number(&place, "SELECT count(*) FROM outbox"), decided(&place), "both or neither");

    other.execute_batch("DROP TRIGGER slowly; DROP TABLE steps").expect("mended");
    let daemon = Daemon::start(&place);
    let done = "SELECT count(*) FROM outbox WHERE status = 'delivered' AND attempts = 1";
    wait_for("the receipt", || number(&place, done).filter(|count| *count == 1));
    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!((decided(&place), mails(&place).len()), (Some(1), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_under_way_at_a_stop_is_handed_back_and_told_by_the_next_start() {
    let now = SystemClock.now();
    let (place, gate) = (place(), Gate::start(String::new()).await);
    place.replace("feed.geojson", &feed_of(now.minus(Span::from_seconds(7_200))));
    place.write("secret", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\n");
    let operator = format!("[operator]\nwebhook = \"http://127.0.0.1:{}/ops\"\nwebhook_secret_file = \"secret\"\n", gate.port);
    reconfigure(&place, "[email]", &format!("{operator}[email]"));
    let manager = Manager::listen(&place);
    let mut daemon = start_by_clock(&place, now);
    wait_for("it is noticed", || number(&place, "SELECT change_key FROM changes"));
    let later = now.plus(Span::from_seconds(61));
    move_clock(&place, later);
    wait_for("a notice is under way", || (!gate.came().is_empty()).then_some(()));
    daemon.signal("TERM");
    let stopping = manager.hear("STOPPING=1").pop().expect("a message");
    assert_eq!(stopping[1], "STATUS=stopping, 1 deliveries under way");
    assert_eq!(daemon.ended().code(), Some(0));
    let handed_back = "SELECT count(*) FROM notices WHERE status = 'due' AND detail LIKE 'cut off by a stop of the daemon%'";
    assert_eq!(number(&place, handed_back), Some(1));

    gate.open();
    let daemon = start_by_clock(&place, later);
    wait_for("it is told", || number(&place, "SELECT 1 FROM notices WHERE status = 'delivered'"));
    assert_eq!(daemon.stop().code(), Some(0));
    let came = gate.came();
    assert!(came.len() == 2 && came[0] == came[1] && came[0].ends_with("-notice-1-webhook"), "{came:?}");
}
