//! The daemon's web listener as its operator and a recipient have it.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::daemon::{Daemon, mails, number, place, wait_for_first_poll};
use crate::place::{Place, quake, wait_for};

/// A place with more in its configuration.
fn with(more: &str) -> Place {
    let place = place();
    let before = fs::read_to_string(place.path("throttler.toml")).expect("the configuration");
    place.write("throttler.toml", &format!("{before}{more}"));
    place
}

/// Where the daemon says that it answers.
pub fn address(place: &Place) -> String {
    wait_for("it listens", || {
        let log = fs::read_to_string(place.path("log")).ok()?;
        let (_, rest) = log.rsplit_once("answers on http://")?;
        Some(rest.lines().next()?.trim().to_owned())
    })
}

pub fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_letter_leads_to_a_click_and_the_click_ends_the_letters() {
    let place = with("[web]\nlisten = \"127.0.0.1:0\"\nbase_url = \"https://alerts.example.org\"\n");
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    let first = quake("first", 6.0);
    place.feed(std::slice::from_ref(&first));
    wait_for("the letter", || (mails(&place).len() == 1).then_some(()));
    let letter = fs::read_dir(place.path("mail")).expect("mail").next().expect("a letter").expect("an entry").path();
    let letter = fs::read_to_string(letter).expect("the letter");
    let header = |name: &str| letter.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
    assert_eq!(header("List-Unsubscribe-Post: "), "List-Unsubscribe=One-Click", "{letter}");
    let list = header("List-Unsubscribe: ");
    let path = list.strip_prefix("<https://alerts.example.org").and_then(|rest| rest.split_once('>')).expect("a link").0;
    assert!(list.ends_with(">, <mailto:alerts@example.org?subject=unsubscribe%20anna>"), "{list}");

    // Another daemon, with the same key: the link still leads there.
    assert!(daemon.stop().success());
    fs::remove_file(place.path("log")).expect("the log");
    let daemon = Daemon::start(&place);
    let address = address(&place);
    assert!(ask(&address, "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").ends_with("\r\n\r\nok\n"));
    let body = "List-Unsubscribe=One-Click";
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 26";
    let answer = ask(&address, &format!("POST {path} HTTP/1.1\r\nHost: test\r\n{form}\r\n\r\n{body}"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let shown = place.run(&["subscriber", "show", "anna"]).ok();
    assert!(shown.contains("disabled: unsubscribed by its recipient at "), "{shown}");
    let listed = place.run(&["subscriber", "list", "--format", "json"]).json();
    assert!(listed["subscribers"][0]["unsubscribed_at"].is_string(), "{listed}");
    place.feed(&[first, quake("second", 7.5)]);
    let decided = "SELECT count(*) FROM events WHERE dispatch_from IS NULL HAVING count(*) = 2";
    wait_for("the second event is decided", || number(&place, decided));
    assert_eq!(mails(&place).len(), 1);

    let refused = place.run(&["subscriber", "resume", "anna"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.err.contains("--despite-unsubscribe"), "{}", refused.err);
    assert_eq!(place.run(&["subscriber", "resume", "anna", "--despite-unsubscribe"]).ok(), "anna is resumed.\n");
    assert!(daemon.stop().success());
}

#[test]
fn the_dashboard_of_a_daemon_is_for_whoever_has_its_token() {
    let place = with("[web]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"token\"\n");
    for (token, expected) in [
        (None, "cannot read the token of the pages from token: "),
        (Some("too short\n"), "throttler.toml: web.token_file: expected a token of 16 to 512 visible ASCII characters"),
    ] {
        if let Some(token) = token {
            place.write("token", token);
        }
        for command in [&["run"][..], &["config", "check"]] {
            let ran = place.run(command);
            assert_eq!(ran.status, Some(2), "{}", ran.err);
            assert!(ran.err.contains(expected) && !ran.err.contains("too short"), "{}", ran.err);
        }
    }
    place.write("token", "correct-horse-battery\n");
    let checked = place.run(&["config", "check"]).ok();
    assert!(checked.contains("127.0.0.1:0, pages for whoever has the token, no links to unsubscribe"), "{checked}");
    place.run(&["subscriber", "add", "anna", "--email", "anna@example.org"]).ok();
    let daemon = Daemon::start(&place);
    wait_for_first_poll(&place);
    let address = address(&place);
    let get = |headers: &str| ask(&address, &format!("GET / HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n"));
    assert!(get("").starts_with("HTTP/1.1 401 "));
    let page = get("Authorization: Bearer correct-horse-battery\r\n");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<h1>Dashboard</h1>") && page.contains(">anna</a>"), "{page}");
    assert!(daemon.stop().success());
    let log = fs::read_to_string(place.path("log")).expect("the log");
    assert!(!log.contains("correct-horse"), "{log}");
}

#[test]
fn what_cannot_listen_says_so_at_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address");
    let ran = with(&format!("[web]\nlisten = \"{address}\"\n")).run(&["run"]);
    assert_eq!(ran.status, Some(1));
    let last = ran.err.lines().last().unwrap_or_default();
    assert!(last.starts_with(&format!("throttler: throttler.toml: web.listen: cannot listen on {address}: ")), "{}", ran.err);
    for (more, expected) in [
        ("listen = \"0.0.0.0:8080\"", "web.listen: 0.0.0.0:8080 is not a loopback address"),
        ("base_url = \"https://example.org\"", "web.listen: expected an address, since web.base_url is set"),
        (
            "listen = \"127.0.0.1:0\"\nbase_url = \"http://example.org\"",
            "web.base_url: 'http://example.org' is not where pages can be",
        ),
    ] {
        for command in [&["run"][..], &["config", "check"]] {
            let ran = with(&format!("[web]\n{more}\n")).run(command);
            assert_eq!(ran.status, Some(2), "{more}: {}", ran.err);
            assert!(ran.err.contains(expected), "{}", ran.err);
        }
    }
}

#[test]
fn the_pages_history_is_read_at_the_start_or_is_an_error() {
    let listen = "[web]\nlisten = \"127.0.0.1:0\"\n";
    let head = "time,mag,id\n2025-01-01T00:00:00Z,5,a\n";
    for (rows, name, status, expected) in [
        ("", "none.csv", 1, "none.csv"),
        ("2025-01-02T00:00:00Z,big,b\n", "quakes.csv", 3, "quakes.csv, line 3, column"),
        ("yesterday,5,b\n", "quakes.csv", 3, "quakes.csv, line 3, column"),
    ] {
        let place = with(&format!("{listen}catalogue = \"{name}\"\n"));
        place.write("quakes.csv", &format!("{head}{rows}"));
        for command in [&["run"][..], &["config", "check"]] {
            let ran = place.run(command);
            assert_eq!(ran.status, Some(status), "{rows}: {}", ran.err);
            assert!(ran.err.contains(expected), "{}", ran.err);
            assert!(!place.path("throttler.db").exists(), "before anything is touched");
        }
    }
    let nowhere = with("[web]\ncatalogue = \"quakes.csv\"\n").run(&["config", "check"]);
    assert_eq!(nowhere.status, Some(2));
    assert!(nowhere.err.contains("web.listen: expected an address, since web.catalogue is set"), "{}", nowhere.err);

    let place = with(&format!("{listen}catalogue = [\"quakes.csv\", \"more.csv\"]\n"));
    place.write("quakes.csv", head);
    place.write("more.csv", &format!("{head}2025-02-01T00:00:00Z,,c\n"));
    let checked = place.run(&["config", "check"]).ok();
    assert!(checked.contains("2 events of the catalogue, 2025-01-01 to 2025-02-01"), "{checked}");
    let daemon = Daemon::start(&place);
    let page = ask(&address(&place), "GET /what-if?days=all HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(page.contains("Known: 2 events of the catalogue, 2025-01-01 to 2025-02-01."), "{page}");
    assert!(daemon.stop().success());
}
