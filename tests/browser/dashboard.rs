//! The dashboard as an operator has it: from a phone's width to a desktop's, light and dark, by keyboard, with the numbers of the
//! command line.

use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use throttler::clock::Clock;
use throttler::web::{Access, Limits};

use crate::chromium::Chromium;
use crate::days;
use crate::rig::Rig;
use crate::site::{FEED, Site};

/// What the command line says of the same database.
fn told(rig: &Rig, arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_throttler"))
        .args(arguments)
        .args(["--format", "json", "--database"])
        .arg(rig.path("throttler.db"))
        .current_dir(rig.path(""))
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The texts of the cells of a table, row after row.
fn table(browser: &mut Chromium, id: &str) -> Vec<Vec<String>> {
    let cells = format!(
        "[...document.querySelectorAll('#{id} tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
    );
    serde_json::from_value(browser.ask(&cells)).expect("texts")
}

/// The numbers of a list of tiles by what they count.
fn tile(browser: &mut Chromium, id: &str, label: &str) -> String {
    let value = browser.ask(&format!(
        "[...document.querySelectorAll('#{id} li')].find((tile) => tile.querySelector('span').textContent === '{label}')\
         .querySelector('b').textContent"
    ));
    value.as_str().expect(label).to_owned()
}

fn assert_in_order(browser: &mut Chromium, what: &str) {
    assert_eq!(browser.complaints(), Vec::<String>::new(), "{what}");
    assert_eq!(browser.ask("document.documentElement.scrollWidth <= innerWidth"), json!(true), "{what} fits the window");
    assert_eq!(browser.ask("document.querySelectorAll('h1').length"), json!(1), "{what}");
    let names = "[...document.querySelectorAll('input,button,summary')].every((field) => (field.labels && field.labels.length) || field.textContent.trim())";
    assert_eq!(browser.ask(names), json!(true), "{what}: every field has a name");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_days_on_a_phone_a_tablet_and_a_desk() {
    let Some(mut browser) = Chromium::start() else { return };
    let mut rig = days::lived().await;
    rig.sql().execute("UPDATE installation SET feed_url = ?1", [FEED]).expect("the feed's name");
    let site = Site::start(&mut rig).await;
    let url = format!("http://{}/?days=7", site.address);
    for dark in [false, true] {
        browser.set_dark(dark);
        for (width, height) in [(360, 740), (768, 1024), (1280, 900)] {
            browser.set_size(width, height);
            browser.open(&url);
            let what = format!("dashboard-{width}-{}", if dark { "dark" } else { "light" });
            browser.photograph(&format!("{what}.png"));
            assert_in_order(&mut browser, &what);
        }
    }
    browser.set_dark(false);
    browser.open(&url);
    as_report_says(&rig, &mut browser);
    as_status_says(&rig, &mut browser);
    as_the_ledger_says(&rig, &mut browser, &url);
    no_destination_is_shown(&mut browser);
    by_keyboard(&mut browser, &url);
    while_it_is_typed(&mut browser, &url);
    assert_in_order(&mut browser, "at the end");
}

fn as_report_says(rig: &Rig, browser: &mut Chromium) {
    let now = rig.clock.now().to_string();
    let report = told(rig, &["report", "--days", "7", "--to", &now]);
    let expected: Vec<Vec<String>> = report["subscribers"]
        .as_array()
        .expect("subscribers")
        .iter()
        .map(|row| {
            let outcome = |name: &str| row["outcomes"][name].as_u64().expect(name);
            let share = format!("{:.0} %", 100.0 * row["share_refused"].as_f64().expect("a share"));
            vec![
                row["subscriber"].as_str().expect("a name").to_owned(),
                row["matched"].to_string(),
                (outcome("alerted") + outcome("digested")).to_string(),
                row["refused"].to_string(),
                share,
            ]
        })
        .collect();
    let shown: Vec<Vec<String>> =
        table(browser, "subscribers").iter().map(|row| [0, 2, 3, 4, 5].map(|at| row[at].clone()).into()).collect();
    assert_eq!(shown, expected);
    assert_eq!(shown.len(), 8);
    let dead: Vec<String> = table(browser, "subscribers").iter().filter(|row| row[7] != "-").map(|row| row[0].clone()).collect();
    let expected: Vec<_> =
        report["dead_destinations"].as_array().expect("dead").iter().map(|row| row["subscriber"].clone()).collect();
    assert_eq!(json!(dead), json!(expected));
    assert_eq!(dead, ["gone"]);
    let sums = browser.ask("document.getElementById('sums').textContent");
    let sums = sums.as_str().expect("the sums").replace(',', "");
    assert!(
        sums.starts_with(&format!("{} decisions for 8 subscribers {} refused", report["matched"], report["refused"])),
        "{sums}"
    );
}

fn as_status_says(rig: &Rig, browser: &mut Chromium) {
    let status = told(rig, &["status"]);
    for (label, expected) in [
        ("events known", &status["events"]["known"]),
        ("events to decide", &status["events"]["undecided"]),
        ("active subscribers", &status["subscribers"]["active"]),
        ("paused", &status["subscribers"]["paused"]),
        ("disabled", &status["subscribers"]["disabled"]),
        ("messages due", &status["outbox"]["due"]),
        ("dead", &status["outbox"]["dead"]),
    ] {
        assert_eq!(tile(browser, "standing", label), expected.to_string(), "{label}");
    }
    assert_eq!(tile(browser, "standing", "events known"), "189");
    assert_eq!(browser.ask("document.getElementById('feed').textContent"), json!("the feed is fresh"));
}

/// Every subscriber's scene has a mark for each decision, and the busiest window of its messages.
fn as_the_ledger_says(rig: &Rig, browser: &mut Chromium, url: &str) {
    for (name, expected) in [("anna", "38 within 1h"), ("ben", "5 within 1h"), ("carla", "9 within 1h"), ("ops", "6 within 1h")] {
        browser.open(&format!("{url}&subscriber={name}"));
        assert_in_order(browser, name);
        let ledger = told(rig, &["ledger", "--subscriber", name]);
        let decisions = ledger["decisions"].as_array().expect("decisions");
        let count = |outcome: &str| decisions.iter().filter(|row| row["outcome"] == outcome).count().to_string();
        assert_eq!(tile(browser, "chosen", "matched"), decisions.len().to_string(), "{name}");
        assert_eq!(tile(browser, "chosen", "alerted"), count("alerted"), "{name}");
        assert_eq!(tile(browser, "chosen", "in digests"), count("digested"), "{name}");
        let marks = "document.querySelectorAll('[aria-labelledby=scene] .marks path').length";
        assert_eq!(browser.ask(marks), json!(decisions.len()), "{name}: a mark for each decision");
        let spots = "document.querySelectorAll('[aria-labelledby=where] .spots .unmatched').length";
        assert_eq!(browser.ask(spots), json!(0), "{name}: everything matched");
        let bracket = browser.ask("document.querySelector('[aria-labelledby=scene] .count').textContent.trim()");
        assert!(bracket.as_str().is_some_and(|text| text.starts_with(expected)), "{name}: {bracket}");
    }
    browser.open(&format!("{url}&subscriber=anna"));
    browser.point_at("document.querySelector('[aria-labelledby=scene] .marks path')");
    let told_there = browser.ask("document.getElementById('told').textContent");
    let told_there = told_there.as_str().expect("it is told");
    for part in ["M 8.8", "us6000qw60", "alerted: within the limit", "; delivered"] {
        assert!(told_there.contains(part), "{part}: {told_there}");
    }
}

fn no_destination_is_shown(browser: &mut Chromium) {
    let text = browser.ask("document.documentElement.outerHTML");
    let text = text.as_str().expect("the page");
    for secret in ["anna@example.org", "/gone", "/ops"] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert!(text.contains("http://127.0.0.1:") && text.contains("M 8.8"));
}

/// The first stop leads past everything to the content, and every stop can be seen.
fn by_keyboard(browser: &mut Chromium, url: &str) {
    browser.open(url);
    let focused = "document.activeElement.tagName + ' ' + (document.activeElement.id || document.activeElement.textContent.trim().slice(0, 20))";
    let mut stops = Vec::new();
    for _ in 0..14 {
        browser.tab();
        stops.push(browser.ask(focused).as_str().expect("a stop").to_owned());
        let seen = "(() => { const box = document.activeElement.getBoundingClientRect(); const style = getComputedStyle(document.activeElement); \
                    return box.width > 0 && box.bottom > 0 && style.outlineStyle !== 'none'; })()";
        assert_eq!(browser.ask(seen), json!(true), "{stops:?}");
    }
    let expected =
        ["A Skip to the content", "A Dashboard", "A What if", "A Laboratory", "INPUT ", "INPUT subscriber", "INPUT name"];
    assert_eq!(stops[..7], expected);
    assert!(stops[7].starts_with("SUMMARY") && stops[8].starts_with("BUTTON"), "{stops:?}");
    // A mark is told of without a pointer.
    browser.ask("document.querySelector('[aria-labelledby=scene] figure').focus()");
    browser.press("Home");
    let told_there = browser.ask("document.getElementById('told').textContent");
    assert!(told_there.as_str().is_some_and(|told| told.contains("2025-07-29T12:04:25.042Z")), "{told_there}");
    browser.press("Escape");
}

/// The pages are only for this machine, or for whoever has the token; a browser asks for it as a password.
#[tokio::test(flavor = "multi_thread")]
async fn with_a_token_the_browser_is_let_in() {
    let Some(mut browser) = Chromium::start() else { return };
    let mut rig = Rig::fresh().await;
    rig.see(&[]).await;
    let token = "correct-horse-battery";
    let access = Access::new("127.0.0.1:80".parse().expect("an address"), Some(token.parse().expect("a token")));
    let site = Site::with(&mut rig, Limits::default(), access).await;
    let url = format!("http://{}/", site.address);
    let status = "performance.getEntriesByType('navigation')[0].responseStatus";
    browser.set_headers(&json!({ "Authorization": format!("Basic {}", STANDARD.encode(format!("anybody:{token}"))) }));
    browser.open(&url);
    assert_eq!(browser.ask(status), json!(200));
    assert_in_order(&mut browser, "an empty database");
    let text = browser.ask("document.getElementById('result').textContent");
    let text = text.as_str().expect("a text");
    for part in ["There are no subscribers yet", "No message was made yet", "0 earthquakes with origins in these days"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// The result follows the form without a new page, the address with it, and a screen reader is told.
fn while_it_is_typed(browser: &mut Chromium, url: &str) {
    browser.open(url);
    browser.ask("window.mine = true; document.getElementById('subscriber').select()");
    browser.ask("document.getElementById('subscriber').focus()");
    browser.type_text("ben");
    browser.wait_until("document.getElementById('scene').textContent.startsWith('ben, ')");
    assert_eq!(browser.ask("location.search"), json!("?days=7&subscriber=ben"));
    assert_eq!(browser.ask("window.mine"), json!(true), "it is the same page");
    let said = browser.ask("document.getElementById('said').textContent");
    assert!(said.as_str().is_some_and(|said| said.contains("what became of them for ben")), "{said}");
    // Figures that came later tell as well.
    browser.point_at("document.querySelector('[aria-labelledby=scene] .marks path')");
    assert_eq!(browser.ask("document.getElementById('told').hidden"), json!(false));

    browser.click("document.querySelector('input[name=days][value=\"1\"]')");
    browser.wait_until("document.getElementById('scene').textContent === 'ben, the last day'");
    browser.ask("document.getElementById('subscriber').select()");
    browser.type_text("<b>nobody</b>");
    browser.wait_until("document.getElementById('result').textContent.includes(\"There is no subscriber '<b>nobody</b>'.\")");
    assert_in_order(browser, "a name that nobody has");

    // The link in the table leads to a scene, by a page of its own.
    browser.open(url);
    browser.follow("[...document.querySelectorAll('#subscribers a')].find((link) => link.textContent === 'dora')");
    assert_eq!(browser.ask("document.getElementById('scene').textContent"), json!("dora, the last 7 days"));
    assert_eq!(browser.ask("document.querySelector('tr.chosen th').textContent"), json!("dora"));
}
