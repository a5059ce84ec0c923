//! `throttler run` as a process: files and receivers around it, signals, systemd.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use throttler::clock::{Clock, SystemClock};
use throttler::time::Span;

use crate::place::{Place, quake, wait_for};
use crate::receiver::Receiver;

/// A daemon that does not outlive its test.
pub struct Daemon {
    child: Child,
    log: PathBuf,
    /// How often daemons of this log had come up before.
    before: usize,
}

/// How often the log tells that a daemon has come up and listens for signals.
fn starts(log: &Path) -> usize {
    std::fs::read_to_string(log).map_or(0, |text| text.matches(" runs feed=").count())
}

impl Daemon {
    /// Starts it with the configuration `throttler.toml` of the place, its log in `log`.
    pub fn start(place: &Place) -> Daemon {
        Daemon::start_with::<&str>(place, &[])
    }

    /// The same with these variables in its environment.
    pub fn start_with<V: AsRef<std::ffi::OsStr>>(place: &Place, variables: &[(&str, V)]) -> Daemon {
        let mut command = place.command(&["run"]);
        command.env("THROTTLER_LOG", "throttler=debug,warn").envs(variables.iter().map(|(name, value)| (name, value)));
        Daemon::spawn(place, command)
    }

    /// The same, where this command before it has it run.
    pub fn start_within<V: AsRef<std::ffi::OsStr>>(place: &Place, within: Option<&str>, variables: &[(&str, V)]) -> Daemon {
        let Some(within) = within else { return Daemon::start_with(place, variables) };
        let script = format!("exec {within} \"$0\" \"$@\"");
        let mut command = Daemon::under(place, &script);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Daemon::spawn(place, command)
    }

    /// The same, started by a shell that has the program and its arguments as `$0` and `$@`.
    pub fn start_under(place: &Place, script: &str) -> Daemon {
        Daemon::spawn(place, Daemon::under(place, script))
    }

    fn under(place: &Place, script: &str) -> Command {
        let program = place.command(&["run"]);
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(program.get_program()).args(program.get_args()).current_dir(place.path("."));
        command.env("THROTTLER_LOG", "throttler=debug,warn");
        command
    }

    fn spawn(place: &Place, mut command: Command) -> Daemon {
        let log = place.path("log");
        let before = starts(&log);
        let file = File::options().create(true).append(true).open(&log).expect("a log");
        command.env("NO_COLOR", "1").stderr(file);
        Daemon { child: command.spawn().expect("the daemon"), log, before }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: &str) {
        let command = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &command]).status().expect("a shell").success());
    }

    /// Whether it has come up and listens for signals.
    pub fn is_up(&self) -> bool {
        starts(&self.log) > self.before
    }

    /// Stops it in order.
    pub fn stop(mut self) -> ExitStatus {
        wait_for("it listens for signals", || self.is_up().then_some(()));
        self.signal("TERM");
        self.ended()
    }

    pub fn ended(&mut self) -> ExitStatus {
        wait_for("the daemon ends", || self.status())
    }

    /// With what it has ended, if it has.
    pub fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("its status")
    }

    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("its end");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A place with an empty feed, a directory for mail, webhooks to this machine, and polls twenty times a second.
pub fn place() -> Place {
    let place = Place::new();
    let (feed, mail) = (place.path("feed.geojson"), place.path("mail"));
    place.write(
        "throttler.toml",
        &format!(
            "[feed]\nurl = \"file://{}\"\npoll = \"50ms\"\nmin_magnitude = 4.5\n[email]\nfrom = \"Alerts <alerts@example.org>\"\n\
             smtp = \"file://{}\"\n[webhook]\nallow_private = true\n",
            feed.display(),
            mail.display()
        ),
    );
    place.feed(&[]);
    place
}

/// A number out of the daemon's database, as soon as there is one.
pub fn number(place: &Place, sql: &str) -> Option<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let connection = Connection::open_with_flags(place.path("throttler.db"), flags).ok()?;
    connection.busy_timeout(Duration::from_secs(10)).ok()?;
    connection.query_row(sql, [], |row| row.get(0)).ok()
}

/// Until the daemon has read the feed once.
pub fn wait_for_first_poll(place: &Place) {
    wait_for("the first poll", || number(place, "SELECT polled_at FROM installation"));
}

/// The names of the messages in the directory, without the part that differs between installations, sorted.
pub fn mails(place: &Place) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(place.path("mail")) else { return Vec::new() };
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"));
    let mut names: Vec<_> = names.filter_map(|name| Some(name.strip_suffix(".eml")?.split_once('-')?.1.to_owned())).collect();
    names.sort();
    names
}

pub fn log(place: &Place) -> String {
    std::fs::read_to_string(place.path("log")).expect("the log")
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_feeds_file_to_mail_and_webhook_and_an_orderly_stop() {
    let (place, receiver) = (place(), Receiver::start().await);
    let hook = format!("http://127.0.0.1:{}/hook", receiver.port);
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    place.run(&["subscriber", "add", "hook", "--webhook", &hook, "--min-magnitude", "6"]).ok();
    place.feed(&[quake("us0", 6.6)]);
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.feed(&[quake("us2", 6.2), quake("us1", 5.1), quake("us0", 6.6)]);
    wait_for("two messages", || (mails(&place).len() == 2).then_some(()));
    wait_for("one request", || (!receiver.requests().is_empty()).then_some(()));

    // A subscriber that comes while it runs hears of the next event, and one that is paused does not.
    place.run(&["subscriber", "add", "late", "--email", "late@example.org"]).ok();
    place.run(&["subscriber", "pause", "hook"]).ok();
    place.feed(&[quake("us3", 7.3), quake("us2", 6.2), quake("us1", 5.1), quake("us0", 6.6)]);
    wait_for("a message more to both", || (mails(&place).len() == 4).then_some(()));
    wait_for("all is delivered", || {
        number(&place, "SELECT count(*) FROM outbox WHERE status <> 'delivered'").filter(|n| *n == 0)
    });
    assert_eq!(daemon.stop().code(), Some(0), "{}", log(&place));
    assert!(log(&place).contains("throttler stopped"), "{}", log(&place));

    assert_eq!(receiver.requests().len(), 1);
    assert_eq!(receiver.requests()[0].body["title"], "M 6.2 - near us2");
    let ledger = place.run(&["ledger", "--format", "json"]).json();
    let rows: Vec<String> = ledger["decisions"]
        .as_array()
        .expect("decisions")
        .iter()
        .map(|row| {
            format!("{} {} {} {}", row["subscriber"], row["event"]["id"], row["outcome"], row["delivery"]).replace('"', "")
        })
        .collect();
    let mut sorted = rows.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        [
            "anna us1 alerted delivered",
            "anna us2 alerted delivered",
            "anna us3 alerted delivered",
            "hook us2 alerted delivered",
            "late us3 alerted delivered",
        ]
    );
    let of_anna = place.run(&["ledger", "--subscriber", "anna", "--event", "us2"]).ok();
    assert!(of_anna.starts_with("1 decision, 0 of them refused"), "{of_anna}");
    assert!(of_anna.contains("anna") && of_anna.contains("within the limit"), "{of_anna}");
    let shown = place.run(&["subscriber", "show", "anna", "--format", "json"]).json();
    assert_eq!(
        (&shown["remaining"], &shown["decisions"]["alerted"], &shown["messages"]["delivered"]),
        (&71.into(), &3.into(), &3.into())
    );

    // It starts again where it stopped.
    let daemon = Daemon::start(&place);
    place.feed(&[quake("us4", 5.4), quake("us3", 7.3), quake("us2", 6.2)]);
    wait_for("the fourth", || (mails(&place).len() == 6).then_some(()));
    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!(receiver.requests().len(), 1);
}

#[test]
fn a_second_daemon_on_the_same_database_refuses_to_start() {
    let place = place();
    let first = Daemon::start(&place);
    wait_for_first_poll(&place);
    let second = place.run(&["run"]);
    assert_eq!(second.status, Some(1));
    let expected =
        format!("another throttler daemon (process {}) already runs on this database: throttler.db.lock", first.child.id());
    assert!(second.err.contains(&expected), "{}", second.err);
    assert_eq!(first.stop().code(), Some(0), "the first is not disturbed");
    assert_eq!(Daemon::start(&place).stop().code(), Some(0), "and leaves its place to the next");
}

#[test]
fn a_test_clock_that_tells_no_time_is_refused() {
    let place = place();
    place.write("clock", "noon");
    for (file, fault) in [("clock", "'noon'"), ("none", "No such file")] {
        let mut command = place.command(&["run"]);
        let output = command.env("THROTTLER_TEST_CLOCK", place.path(file)).output().expect("the program");
        let told = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("$THROTTLER_TEST_CLOCK: cannot read the time from ") && told.contains(fault), "{told}");
    }
    assert!(!place.path("throttler.db").exists(), "nothing was touched");
}

#[test]
fn a_feed_that_is_broken_for_a_while_stops_nothing() {
    let place = place();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    place.write("feed.geojson", "<html>");
    wait_for("a complaint", || log(&place).contains("an HTML page").then_some(()));
    place.feed(&[quake("us1", 5.1)]);
    wait_for("the message", || (mails(&place).len() == 1).then_some(()));
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn what_changes_and_what_is_withdrawn_is_told_and_the_ledger_knows_the_history() {
    let place = place();
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    let mut gone = quake("us1", 5.8);
    gone["properties"]["status"] = "deleted".into();
    for (version, mut feature) in [quake("us1", 5.1), quake("us1", 5.8), gone].into_iter().enumerate() {
        // A later version says so.
        let updated = feature["properties"]["updated"].as_i64().expect("a time");
        feature["properties"]["updated"] = updated.saturating_add_unsigned(version as u64).into();
        place.feed(&[feature]);
        wait_for("the message", || (mails(&place).len() == version + 1).then_some(()));
        wait_for("the receipt", || {
            number(&place, "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE status <> 'delivered')")
        });
    }
    assert!(daemon.stop().success());
    let text = place.run(&["ledger", "--event", "us1"]).ok();
    for part in [
        "1 decision, 0 of them refused",
        "update      sent",
        "withdrawal  sent",
        "magnitude changed; within the limit",
        "withdrawn",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = place.run(&["ledger", "--event", "us1", "--format", "json"]).json();
    let updates = json["updates"].as_array().expect("updates");
    assert_eq!(updates.iter().map(|row| row["kind"].clone()).collect::<Vec<_>>(), ["update", "withdrawal"]);
    assert_eq!((json["decisions"].as_array().map(Vec::len), json["history"].as_array().map(Vec::len)), (Some(1), Some(3)));
    assert!(place.run(&["subscriber", "show", "anna"]).ok().contains("  updates    major: 2 sent\n"));
}

#[test]
fn a_stale_feed_is_told_of_once_and_so_is_its_recovery() {
    let place = place();
    let config = std::fs::read_to_string(place.path("throttler.toml")).expect("the configuration");
    place.write("throttler.toml", &config.replace("[feed]\n", "[feed]\nstale_after = \"10m\"\n"));
    let made = SystemClock.now().minus(Span::from_seconds(3_600));
    place.write("feed.geojson", &format!(r#"{{"metadata":{{"generated":{}}},"features":[]}}"#, made.millis()));
    let daemon = Daemon::start(&place);
    let told = |what: &str| log(&place).lines().filter(|line| line.contains(what)).count();
    let stale = "WARN throttler::daemon::ingest: the feed is stale: its service has made nothing new since ";
    wait_for("it tells of the stale feed", || (told(stale) > 0).then_some(()));
    let polls = told("nothing new in the feed");
    wait_for("more polls", || (told("nothing new in the feed") > polls + 2).then_some(()));
    place.feed(&[]);
    wait_for("it tells of the recovery", || (told("the feed is fresh again, for the first time since ") > 0).then_some(()));
    assert_eq!(daemon.stop().code(), Some(0));
    assert_eq!((told(stale), told("the feed is fresh again")), (1, 1), "{}", log(&place));
}
