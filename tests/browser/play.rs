//! "What if" and the laboratory: what is chosen changes the numbers at once, by keyboard too, and they are those of the command line.

use serde_json::json;

use crate::chromium::Chromium;
use crate::numbers::{DAYS, catalogue, history, refused, replayed, simulated};
use crate::rig::Rig;
use crate::site::Site;

/// The cells of the result's table, a list a row.
const CELLS: &str =
    "Array.from(document.querySelectorAll('#result tbody tr'), (row) => Array.from(row.cells, (cell) => cell.textContent))";
/// The widths that pages are made for, and what is looked at of each.
const WIDTHS: [u32; 3] = [360, 768, 1280];

/// The cells of these columns.
fn columns(browser: &mut Chromium, columns: &[usize]) -> Vec<Vec<String>> {
    let rows: Vec<Vec<String>> = serde_json::from_value(browser.ask(CELLS)).expect("cells");
    rows.into_iter().map(|row| columns.iter().map(|column| row[*column].clone()).collect()).collect()
}

fn what_if(browser: &mut Chromium) -> Vec<Vec<String>> {
    columns(browser, &[0, 1, 2, 3, 4, 5, 6])
}

fn laboratory(browser: &mut Chromium) -> Vec<Vec<String>> {
    columns(browser, &[0, 2, 3, 4, 5])
}

/// Does something, and waits until the result is another one.
fn changed(browser: &mut Chromium, does: impl FnOnce(&mut Chromium)) {
    browser
        .ask("window.shown = new Promise((done) => document.addEventListener('shown', () => done(true), { once: true })); true");
    does(browser);
    assert_eq!(browser.ask("window.shown"), json!(true));
    let said = "document.getElementById('said').textContent === document.getElementById('result').dataset.said";
    assert_eq!(browser.ask(said), json!(true), "a screen reader is told");
}

fn focus(browser: &mut Chromium, id: &str) {
    browser.ask(&format!("document.getElementById('{id}').focus()"));
}

/// At every width, in light and dark, nothing goes wrong and nothing is wider than the window.
fn looks(browser: &mut Chromium, site: &Site, path: &str, name: &str) {
    for width in WIDTHS {
        for (dark, scheme) in [(false, "light"), (true, "dark")] {
            browser.set_size(width, 900);
            browser.set_dark(dark);
            browser.open(&format!("http://localhost:{}{path}", site.address.port()));
            assert_eq!(browser.ask("document.documentElement.scrollWidth"), json!(width), "{path} at {width}");
            assert_eq!(browser.complaints(), Vec::<String>::new(), "{path} at {width}");
            browser.photograph(&format!("{name}-{width}-{scheme}.png"));
        }
    }
    browser.set_dark(false);
    browser.set_size(1_280, 900);
}

async fn site(rig: &mut Rig) -> Site {
    Site::with_history(rig, history()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_if_is_the_replay() {
    let Some(mut browser) = Chromium::start() else { return };
    let mut rig = Rig::fresh().await;
    let site = site(&mut rig).await;
    looks(&mut browser, &site, "/what-if", "what-if");
    browser.open(&format!("http://localhost:{}/what-if", site.address.port()));
    assert_eq!(browser.ask("document.title"), json!("What if - throttler"));
    assert_eq!(what_if(&mut browser), replayed(&DAYS));

    changed(&mut browser, |browser| browser.write("rate", "20/h"));
    assert_eq!(what_if(&mut browser), replayed(&[&DAYS[..], &["--rate", "20/h"]].concat()));
    changed(&mut browser, |browser| browser.write("bucket", "7"));
    changed(&mut browser, |browser| browser.press("ArrowUp"));
    assert_eq!(what_if(&mut browser), replayed(&[&DAYS[..], &["--rate", "20/h", "--bucket", "8"]].concat()));
    changed(&mut browser, |browser| browser.write("min-magnitude", "5.5"));
    let flags = [&DAYS[..], &["--rate", "20/h", "--bucket", "8", "--min-magnitude", "5.5"]].concat();
    assert_eq!(what_if(&mut browser), replayed(&flags));
    changed(&mut browser, |browser| {
        focus(browser, "limiter-fixed-window");
        browser.press(" ");
    });
    assert_eq!(what_if(&mut browser), replayed(&flags)[1..]);
    changed(&mut browser, |browser| {
        focus(browser, "days-m8.8");
        browser.press("ArrowRight");
    });
    let last = ["--from", "2025-11-08", "--to", "2025-11-10", "--rate", "20/h", "--bucket", "8", "--min-magnitude", "5.5"];
    assert_eq!(what_if(&mut browser), replayed(&last)[1..]);

    // The address is the question: whoever opens it sees the same.
    let (address, cells) = (browser.ask("location.href"), browser.ask(CELLS));
    browser.open(address.as_str().expect("an address"));
    assert_eq!(browser.ask(CELLS), cells);
    assert_eq!(browser.ask("document.getElementById('limiter-fixed-window').checked"), json!(false));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hint_is_the_bucket_that_loses_nothing() {
    let Some(mut browser) = Chromium::start() else { return };
    let mut rig = Rig::fresh().await;
    let site = site(&mut rig).await;
    browser.open(&format!("http://localhost:{}/what-if?days=all", site.address.port()));
    assert_eq!(browser.ask("document.querySelector('#bucket-hint a').textContent"), json!("74"));
    assert_eq!(what_if(&mut browser), replayed(&[]));
    assert_eq!(browser.ask("document.querySelectorAll('.figures title').length"), json!(0), "columns tell nothing each");
    browser.photograph("what-if-everything.png");
    browser.follow("document.querySelector('#bucket-hint a')");
    assert_eq!(what_if(&mut browser), replayed(&["--bucket", "74"]));
    assert_eq!(browser.ask("document.querySelectorAll('#result tbody tr')[3].cells[3].textContent"), json!("0"));
    changed(&mut browser, |browser| browser.write("rate", "10/h"));
    assert_eq!(
        browser.ask("document.querySelector('#bucket-hint a').textContent"),
        json!("49"),
        "what is beside fields is new as well"
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_told_where_it_stands() {
    let Some(mut browser) = Chromium::start() else { return };
    let mut rig = Rig::fresh().await;
    let site = site(&mut rig).await;
    let catalogue = catalogue();
    let catalogue = catalogue.as_str();
    for (path, field, text, flags) in [
        ("/what-if", "rate", "5/fortnight", vec!["replay", catalogue, "--rate", "5/fortnight"]),
        ("/what-if", "bucket", "0", vec!["replay", catalogue, "--bucket", "0"]),
        ("/what-if", "min-magnitude", "big", vec!["replay", catalogue, "--min-magnitude", "big"]),
        ("/what-if?days=chosen", "from", "yesterday", vec!["replay", catalogue, "--from", "yesterday"]),
        ("/what-if?from=2025-01-02", "to", "2025-01-01", vec!["replay", catalogue, "--from", "2025-01-02", "--to", "2025-01-01"]),
        ("/laboratory", "limit", "0", vec!["simulate", "outage", "--rate", "0/s"]),
        ("/laboratory", "bucket", "0", vec!["simulate", "outage", "--bucket", "0"]),
        ("/laboratory", "instances", "1001", vec!["simulate", "outage", "--instances", "1001"]),
        ("/laboratory", "down-from", "soon", vec!["simulate", "outage", "--down-from", "soon"]),
        ("/laboratory", "down-to", "61s", vec!["simulate", "outage", "--down-to", "61s"]),
    ] {
        browser.open(&format!("http://localhost:{}{path}", site.address.port()));
        let kept = "Array.from(document.querySelectorAll('form input:checked, form input[type=number]'), (input) => input.id)";
        let (before, cells) = (browser.ask(kept), browser.ask(CELLS));
        changed(&mut browser, |browser| browser.write(field, text));
        let fault = browser.ask(&format!("document.getElementById('{field}-fault').textContent"));
        let fault = fault.as_str().expect("a text");
        let expected = refused(&flags);
        assert!(!fault.is_empty() && expected.contains(fault), "{path}: {fault:?} in {expected:?}");
        assert_eq!(browser.ask(&format!("document.getElementById('{field}').getAttribute('aria-invalid')")), json!("true"));
        assert_eq!(browser.ask(CELLS), json!([]), "{path}: no numbers for what was not asked");
        assert_eq!(browser.ask(kept), before, "{path}: the rest stays");
        browser.photograph(&format!("fault-{field}.png"));
        changed(&mut browser, |browser| browser.write(field, ""));
        assert_eq!(browser.ask(&format!("document.getElementById('{field}-fault').textContent")), json!(""), "{path}: {field}");
        assert_eq!(browser.ask(CELLS), cells, "{path}: what is usual");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_laboratory_is_the_simulation() {
    let Some(mut browser) = Chromium::start() else { return };
    let mut rig = Rig::fresh().await;
    let site = site(&mut rig).await;
    looks(&mut browser, &site, "/laboratory?preset=runaway&policy=local-full&limit=7&instances=3", "laboratory");
    browser.open(&format!("http://localhost:{}/laboratory", site.address.port()));
    assert_eq!(browser.ask("document.title"), json!("Laboratory - throttler"));
    let flags = |preset, policy| vec!["--preset", preset, "--policy", policy];
    assert_eq!(laboratory(&mut browser), simulated(&flags("steady-overload", "fail-open")));
    let drawn = "Array.from(document.querySelectorAll('.figures figure svg'), (svg) => svg.getAttribute('aria-label'))";
    let label = "fail-open: token-bucket 20: 688 passed, 212 refused; most in any second: 15; in the outage 150 of 150 passed";
    assert_eq!(browser.ask(drawn)[1], json!(label));

    changed(&mut browser, |browser| {
        focus(browser, "policy-fail-open");
        browser.press("ArrowRight");
    });
    assert_eq!(laboratory(&mut browser), simulated(&flags("steady-overload", "fail-closed")));
    changed(&mut browser, |browser| {
        focus(browser, "preset-steady-overload");
        browser.press("ArrowRight");
    });
    assert_eq!(laboratory(&mut browser), simulated(&flags("runaway", "fail-closed")));
    changed(&mut browser, |browser| {
        focus(browser, "limiter-token-bucket");
        browser.press("ArrowLeft");
    });
    assert!(browser.ask(drawn)[1].as_str().is_some_and(|label| label.starts_with("fail-closed: sliding-counter (fits): ")));
    assert_eq!(browser.ask("document.querySelectorAll('tr[aria-current]').length"), json!(2));
    changed(&mut browser, |browser| {
        focus(browser, "limit");
        browser.press("ArrowUp");
    });
    let mut all = [&flags("runaway", "fail-closed")[..], &["--rate", "11/s"]].concat();
    assert_eq!(laboratory(&mut browser), simulated(&all));
    for (field, text, flag) in [
        ("bucket", "40", "--bucket"),
        ("instances", "9", "--instances"),
        ("down-from", "5s", "--down-from"),
        ("down-to", "45s", "--down-to"),
    ] {
        changed(&mut browser, |browser| browser.write(field, text));
        all.extend([flag, text]);
        assert_eq!(laboratory(&mut browser), simulated(&all), "{all:?}");
    }
    changed(&mut browser, |browser| {
        focus(browser, "counter-rule-fits");
        browser.press("ArrowRight");
    });
    all.extend(["--counter-rule", "below"]);
    assert_eq!(laboratory(&mut browser), simulated(&all));
    changed(&mut browser, |browser| browser.write("window", "2s"));
    *all.iter_mut().find(|word| **word == "11/s").expect("the rate") = "11/2s";
    assert_eq!(laboratory(&mut browser), simulated(&all));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
