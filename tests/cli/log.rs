//! The daemon's log: for systemd's journal and for a file, by level and target, a line an event whoever wrote what is in it.

use std::os::unix::fs::MetadataExt;

use crate::daemon::{Daemon, log, mails, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};

/// A quake whose name was made by somebody who means no good to a log.
fn hostile() -> serde_json::Value {
    let mut quake = quake("us1", 5.5);
    quake["properties"]["place"] = "here\n<0>kernel: panic\r\n\u{1b}[31mred\u{202e}\u{0}".into();
    quake
}

/// What a daemon with these variables logs while it tells one subscriber of that quake.
fn logged(place: &Place, variables: &[(&str, String)]) -> Vec<String> {
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let daemon = Daemon::start_with(place, variables);
    wait_for_first_poll(place);
    place.feed(&[hostile()]);
    wait_for("the message", || (mails(place).len() == 1).then_some(()));
    place.write("feed.geojson", "<html>");
    wait_for("a failed poll", || log(place).contains("an HTML page").then_some(()));
    daemon.signal("TERM");
    wait_for("its end", || log(place).contains("throttler stopped").then_some(()));
    let log = log(place);
    assert!(!log.contains(['\u{1b}', '\r', '\0', '\u{202e}']), "{log:?}");
    log.lines().map(str::to_owned).collect()
}

/// The log's file as systemd names a stream to the journal, made before the daemon.
fn stream(place: &Place) -> String {
    place.write("log", "");
    let about = std::fs::metadata(place.path("log")).expect("the log");
    format!("{}:{}", about.dev(), about.ino())
}

#[test]
fn the_journal_gets_levels_and_no_times() {
    let place = place();
    let lines = logged(&place, &[("JOURNAL_STREAM", stream(&place))]);
    for line in &lines {
        let rest = ["<3>", "<4>", "<6>", "<7>"].iter().find_map(|level| line.strip_prefix(level)).expect(line);
        assert!(rest.starts_with("throttler::"), "{line}");
    }
    for line in [
        "<6>throttler::daemon::ingest: the feed brought news new=1 revised=0 merged=0 withdrawn=0 to_dispatch=1",
        "<6>throttler::daemon::dispatch: decided: M 5.5 - here <0>kernel: panic [31mred event=us1 alerted=1 withheld=0",
        "<6>throttler::daemon::service: throttler stopped",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}: {lines:#?}");
    }
    assert!(lines.iter().any(|line| line.starts_with("<3>throttler::daemon::ingest: ") && line.contains("an HTML page")));
    assert!(lines.iter().any(|line| line.starts_with("<7>throttler::daemon::ingest: nothing new in the feed")));
}

#[test]
fn a_stream_that_was_redirected_gets_times_and_levels_in_words() {
    let place = place();
    let lines = logged(&place, &[("JOURNAL_STREAM", format!("{}0", stream(&place)))]);
    for line in &lines {
        let (time, rest) = line.trim_start().split_once(' ').expect(line);
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        let level = rest.trim_start().split(' ').next().expect("a level");
        assert!(["ERROR", "WARN", "INFO", "DEBUG"].contains(&level), "{line}");
    }
}

#[test]
fn each_target_has_a_level_of_its_own() {
    let place = place();
    let filter = "off,throttler::daemon::deliver=info,throttler::daemon::ingest=error";
    let lines = {
        place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
        let daemon = Daemon::start_with(&place, &[("THROTTLER_LOG", filter.to_owned()), ("JOURNAL_STREAM", stream(&place))]);
        wait_for_first_poll(&place);
        place.feed(&[hostile()]);
        wait_for("the message", || (mails(&place).len() == 1).then_some(()));
        place.write("feed.geojson", "<html>");
        wait_for("a failed poll", || log(&place).contains("an HTML page").then_some(()));
        wait_for("the receipt", || log(&place).contains("delivered: ").then_some(()));
        daemon.kill();
        log(&place)
    };
    for line in lines.lines() {
        let is_receipt = line.starts_with("<6>throttler::daemon::deliver: delivered: ");
        let is_fault = line.starts_with("<3>throttler::daemon::ingest: ");
        assert!(is_receipt || is_fault, "{line}");
    }
    let wrong = {
        let mut command = place.command(&["run"]);
        command.env("THROTTLER_LOG", "throttler=loud").output().expect("the program")
    };
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("$THROTTLER_LOG is 'throttler=loud'"), "{wrong:?}");
}
