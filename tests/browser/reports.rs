//! The reports of the replay and of the laboratory: they load without complaint, tell about what the pointer is on, and hide
//! what is switched off.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::chromium::Chromium;

/// The days of the M8.8.
const DAYS: [&str; 4] = ["--from", "2025-07-29T12:00:00Z", "--to", "2025-07-31T12:00:00Z"];
/// What the report says about the mark that the pointer is on, or nothing.
const TOLD: &str = "document.getElementById('told').hidden ? null : document.getElementById('told').textContent";

/// A directory of a test's own, and the program run in it.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(TempDir::new().expect("a directory"))
    }

    /// Runs the program, and gives the page that it wrote.
    fn page(&self, arguments: &[&str]) -> PathBuf {
        let path = self.0.path().join("report.html");
        self.run(&[arguments, &["--html", path.to_str().expect("UTF-8")]].concat());
        path
    }

    fn run(&self, arguments: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_throttler"));
        let output = command.args(arguments).current_dir(self.0.path()).env_remove("STATE_DIRECTORY").output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

fn catalogue() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/quakes_2015_2025.csv").display().to_string()
}

fn assert_in_order(browser: &mut Chromium, what: &str) {
    assert_eq!(browser.complaints(), Vec::<String>::new(), "{what}");
    assert_eq!(
        browser.ask("document.querySelectorAll('figure title').length"),
        json!(0),
        "{what}: the script took the tooltips over"
    );
    assert!(browser.ask("document.documentElement.scrollWidth").as_f64() <= Some(1200.0), "{what} fits the window");
}

/// Whether the panel or line of this class takes part in the layout.
fn is_shown(browser: &mut Chromium, class: &str) -> bool {
    browser.ask(&format!("document.querySelector('.{class}').getClientRects().length > 0")) == json!(true)
}

/// What the other tests rely on.
#[test]
fn a_page_that_complains_is_noticed() {
    let Some(mut browser) = Chromium::start() else { return };
    let place = Place::new();
    let page = place.0.path().join("page.html");
    for (body, expected) in [
        ("<script>console.error('wrong')</script>", "wrong"),
        ("<script>missing()</script>", "ReferenceError"),
        ("<img src='none.png'>", "ERR_FILE_NOT_FOUND"),
        (
            "<meta http-equiv='Content-Security-Policy' content=\"script-src 'none'\"><script>1</script>",
            "Content Security Policy",
        ),
    ] {
        std::fs::write(&page, body).expect("a page");
        browser.open_file(&page);
        let complaints = browser.complaints();
        assert!(complaints.iter().any(|complaint| complaint.contains(expected)), "{body}: {complaints:?}");
    }
    std::fs::write(&page, "<p>all is well</p>").expect("a page");
    browser.open_file(&page);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_replay_s_report() {
    let Some(mut browser) = Chromium::start() else { return };
    let place = Place::new();
    browser.open_file(&place.page(&[&["replay", &catalogue(), "--rate", "5/h", "--bucket", "5"], &DAYS[..]].concat()));
    assert_in_order(&mut browser, "the replay");

    assert_eq!(browser.ask(TOLD), json!(null));
    browser.point_at("document.querySelectorAll('.panel-3 .marks path')[0]");
    let told = browser.ask(TOLD);
    let told = told.as_str().expect("the largest event is drawn first, and told");
    for part in ["M 8.8", "Kamchatka Peninsula", "2025-07-29T23:24:52.483Z", "us6000qw60", "passed, with room for"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    browser.point_at("document.querySelector('h1')");
    assert_eq!(browser.ask(TOLD), json!(null), "beside the marks nothing is told");

    browser.ask("document.querySelector('.panel-0').focus({ preventScroll: true })");
    browser.press("Home");
    let first = browser.ask(TOLD);
    assert!(first.as_str().is_some_and(|told| told.contains("2025-07-29T12:04:25.042Z")), "{first}");
    browser.press("ArrowRight");
    assert_ne!(browser.ask(TOLD), first);
    browser.press("Escape");
    assert_eq!(browser.ask(TOLD), json!(null));

    assert!(is_shown(&mut browser, "panel-1"));
    browser.click("document.getElementById('show-panel-1')");
    assert!(!is_shown(&mut browser, "panel-1") && is_shown(&mut browser, "panel-2"));
    browser.click("document.getElementById('show-panel-1')");
    assert!(is_shown(&mut browser, "panel-1"));
    assert_in_order(&mut browser, "the replay at the end");
}

#[test]
fn eleven_years_and_stored_subscribers() {
    let Some(mut browser) = Chromium::start() else { return };
    let place = Place::new();
    browser.open_file(&place.page(&["replay", &catalogue(), "--bucket", "5"]));
    assert_in_order(&mut browser, "eleven years");
    browser.point_at("document.querySelectorAll('.panel-0 .marks path')[0]");
    let told = browser.ask(TOLD);
    assert!(told.as_str().is_some_and(|told| told.contains("the largest: M 8.8")), "{told}");

    for (name, excess) in [("anna", "digest"), ("bruno", "delay"), ("carla", "drop")] {
        place.run(&["subscriber", "add", name, "--email", "a@example.org", "--bucket", "5", "--excess", excess]);
    }
    browser.open_file(&place.page(&[&["replay", &catalogue(), "--all-subscribers"], &DAYS[..]].concat()));
    assert_in_order(&mut browser, "subscribers");
    for (panel, class, told_there) in
        [(0, "digested", "in a digest of"), (1, "delayed", "delayed until"), (2, "refused", "withheld: ")]
    {
        browser.point_at(&format!("document.querySelector('.panel-{panel} .marks .{class}')"));
        let told = browser.ask(TOLD);
        assert!(told.as_str().is_some_and(|told| told.contains(told_there)), "{class}: {told}");
    }
}

/// A text from outside that got through as markup would run, load or complain.
#[test]
fn a_hostile_place_stays_text() {
    let Some(mut browser) = Chromium::start() else { return };
    let place = Place::new();
    let hostile = "</title></svg></script><script>document.title='taken'</script><img src=x onerror=alert(1)>";
    let rows =
        format!("time,latitude,longitude,depth,mag,place,type,id\n2020-01-01T00:00:00Z,1,2,3,6.0,\"{hostile}\",earthquake,us1\n");
    std::fs::write(place.0.path().join("hostile.csv"), rows).expect("a catalogue");
    browser.open_file(&place.page(&["replay", "hostile.csv"]));
    assert_in_order(&mut browser, "a hostile place");
    assert_eq!(browser.ask("document.title"), json!("1 events, and what passed"));
    assert_eq!(browser.ask("document.querySelectorAll('script').length + document.images.length"), json!(1));
    browser.point_at("document.querySelector('.marks path')");
    let told = browser.ask(TOLD);
    assert!(told.as_str().is_some_and(|told| told.contains("</title></svg>")), "{told}");
}

#[test]
fn the_laboratory_s_reports() {
    let Some(mut browser) = Chromium::start() else { return };
    let place = Place::new();
    let short = ["--runs", "2", "--length", "100m"];
    for (command, told_there) in [
        (vec!["attack"], "promised at most"),
        (vec!["patterns"], "passed, "),
        (vec!["outage", "--preset", "steady-overload"], "from 0 s to 0.2 s"),
        ([&["lockout", "--load", "25", "--tries", "1,10"], &short[..]].concat(), "load 25 %, m = "),
        ([&["split", "--servers", "1,4"], &short[..]].concat(), "servers: "),
        ([&["clients", "--shape", "page-loads", "--load", "30,80"], &short[..]].concat(), "busiest window"),
    ] {
        let what = format!("{command:?}");
        browser.open_file(&place.page(&[&["simulate"], &command[..]].concat()));
        assert_in_order(&mut browser, &what);
        browser.point_at("document.querySelector('figure .marks path:not(.line)')");
        let told = browser.ask(TOLD);
        assert!(told.as_str().is_some_and(|told| told.contains(told_there)), "{what}: {told}");
        // Each box hides what it names.
        let boxes = browser.ask("[...document.querySelectorAll('input')].map((box) => box.id)");
        let boxes: Vec<String> = serde_json::from_value(boxes).expect("names");
        assert!(!boxes.is_empty(), "{what}");
        for name in boxes.iter().take(3) {
            let class = name.strip_prefix("show-").expect("a box");
            assert!(is_shown(&mut browser, class), "{what}: {class}");
            browser.click(&format!("document.getElementById('{name}')"));
            assert!(!is_shown(&mut browser, class), "{what}: {class}");
        }
    }
}

/// Text must be readable on its background, whichever the reader prefers.
#[test]
fn dark_and_light() {
    let Some(mut browser) = Chromium::start() else { return };
    let place = Place::new();
    browser.open_file(&place.page(&["simulate", "attack", "--phases", "4"]));
    let colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.paper')).fill, \
                   getComputedStyle(document.querySelector('svg text')).fill]";
    browser.set_dark(false);
    assert_eq!(browser.ask(colours), json!(["rgb(255, 255, 255)", "rgb(255, 255, 255)", "rgb(31, 35, 40)"]));
    browser.set_dark(true);
    assert_eq!(browser.ask(colours), json!(["rgb(20, 24, 28)", "rgb(20, 24, 28)", "rgb(230, 233, 236)"]));
}
