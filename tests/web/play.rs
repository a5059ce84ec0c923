//! "What if" and the laboratory without script: an address is a question, and its answer has the numbers of the command line.

use throttler::clock::Clock;
use throttler::web::Limits;

use crate::numbers::{DAYS, history, replayed, simulated};
use crate::rig::{Quake, Rig};
use crate::site::{Answer, Site};

/// The cells of the table's rows, without their tags.
fn cells(answer: &Answer) -> Vec<Vec<String>> {
    let Some((_, rows)) = answer.body.split_once("<tbody>") else { return Vec::new() };
    let rows = rows.split_once("</tbody>").expect("an end").0;
    let text = |cell: &str| cell.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect::<String>();
    let of_row = |row: &str| {
        let cells = row.split("<td").flat_map(|part| part.split("<th")).skip(1);
        cells.map(|cell| text(&format!("<{cell}")).trim().to_owned()).collect()
    };
    rows.split("<tr").skip(1).map(of_row).collect()
}

fn columns(answer: &Answer, columns: &[usize]) -> Vec<Vec<String>> {
    cells(answer).into_iter().map(|row| columns.iter().map(|column| row[*column].clone()).collect()).collect()
}

#[tokio::test]
async fn an_address_is_a_question_to_history() {
    let mut rig = Rig::fresh().await;
    let site = Site::with_history(&mut rig, history()).await;
    let some = ["--limiter", "leaky-bucket", "--limiter", "fixed-window"];
    for (query, flags) in [
        ("", DAYS.to_vec()),
        ("?days=m8.8&rate=100%2F60s&bucket=", [&DAYS[..], &["--rate", "100/60s"]].concat()),
        ("?counter-rule=fits&bucket=74", [&DAYS[..], &["--counter-rule", "fits", "--bucket", "74"]].concat()),
        ("?limiter=leaky-bucket&limiter=fixed-window", [&DAYS[..], &some].concat()),
        ("?days=all&rate=1/2d", vec!["--rate", "1/2d"]),
        ("?days=all&min-magnitude=6.05", vec!["--min-magnitude", "6.05"]),
        ("?from=2020-01-01&to=2020-02-01T12:30:00%2B02:00", vec!["--from", "2020-01-01", "--to", "2020-02-01T12:30:00+02:00"]),
        ("?days=last-30&from=2020-01-01", vec!["--from", "2025-10-11", "--to", "2025-11-10"]),
    ] {
        let answer = site.get(&format!("/what-if{query}")).await;
        assert_eq!(answer.status, 200, "{query}");
        assert_eq!(columns(&answer, &[0, 1, 2, 3, 4, 5, 6]), replayed(&flags), "{query}");
    }
    let none = site.get("/what-if?from=1900-01-01&to=1900-01-02").await;
    assert!(none.body.contains("No event matches.") && cells(&none).is_empty(), "{}", none.body);
    site.stop().await;
}

#[tokio::test]
async fn an_address_is_an_experiment() {
    let mut rig = Rig::fresh().await;
    let site = Site::start(&mut rig).await;
    for (query, flags) in [
        ("", vec!["--preset", "steady-overload", "--policy", "fail-open"]),
        ("?preset=quiet-then-burst&policy=fail-closed", vec!["--preset", "quiet-then-burst", "--policy", "fail-closed"]),
        (
            "?preset=window-edges&policy=local-share&limit=9&window=500ms&bucket=3&instances=7&down-from=0s&down-to=1m",
            vec![
                "--preset",
                "window-edges",
                "--policy",
                "local-share",
                "--rate",
                "9/500ms",
                "--bucket",
                "3",
                "--instances",
                "7",
                "--down-from",
                "0s",
                "--down-to",
                "1m",
            ],
        ),
    ] {
        let answer = site.get(&format!("/laboratory{query}")).await;
        assert_eq!(answer.status, 200, "{query}");
        assert_eq!(columns(&answer, &[0, 2, 3, 4, 5]), simulated(&flags), "{query}");
    }
    site.stop().await;
}

#[tokio::test]
async fn the_daemon_s_own_events_are_history_too() {
    let mut rig = Rig::fresh().await;
    let quakes: Vec<Quake> = (0..9).map(|n| Quake::new(&rig, &format!("q{n}"), 6.0, 600 + 60 * n)).collect();
    rig.see(&quakes).await;
    let site = Site::start(&mut rig).await;
    let admitted = |answer: &Answer| cells(answer).into_iter().map(|row| row[2].clone()).collect::<Vec<_>>();
    assert_eq!(admitted(&site.get("/what-if?rate=5/d&bucket=7&limiter=token-bucket").await), ["7"]);
    assert!(site.get("/what-if").await.body.contains("9 events of what this daemon has seen"));

    // What is withdrawn did not happen; for a minute what was read is taken for what is known.
    let mut quakes = quakes;
    quakes[0].status = "deleted";
    quakes[0].updated_at = rig.clock.now();
    rig.pass(30);
    rig.see(&quakes).await;
    assert!(site.get("/what-if").await.body.contains("9 events"));
    rig.pass(30);
    assert!(site.get("/what-if").await.body.contains("8 events of what this daemon has seen"));
    site.stop().await;
}

#[tokio::test]
async fn nothing_known_is_no_fault() {
    let mut rig = Rig::fresh().await;
    let site = Site::start(&mut rig).await;
    let answer = site.get("/what-if").await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("no event of what this daemon has seen yet") && answer.body.contains("No event matches."));
    site.stop().await;
}

#[tokio::test]
async fn questions_that_mean_no_good_are_harmless() {
    let mut rig = Rig::fresh().await;
    let site = Site::with_history(&mut rig, history()).await;
    let script = "%22%3E%3C/script%3E%3Cscript%3Ealert(1)%3C/script%3E";
    let fields = [
        "days",
        "from",
        "to",
        "limiter",
        "rate",
        "bucket",
        "min-magnitude",
        "counter-rule",
        "preset",
        "policy",
        "limit",
        "window",
        "instances",
        "down-from",
        "down-to",
        "other",
    ];
    let everywhere: Vec<String> = fields.iter().map(|field| format!("{field}={script}")).collect();
    let long = format!("rate={}", "9".repeat(7_000));
    let many = "limiter=token-bucket&".repeat(300);
    for query in [
        everywhere.join("&").as_str(),
        &long,
        &many,
        "%00&=&&&%FF%FE=%80&rate",
        "rate=%00&bucket=%E2%80%AE",
        "bucket=18446744073709551616&rate=1000000000/3653d&days=all",
        "bucket=1000000000&rate=1000000000/1ms&days=all&min-magnitude=-10",
        "rate=1/3653d&bucket=1000000000&days=all",
        "min-magnitude=nan&from=0001-01-01&to=9999-12-31T23:59:60Z",
        "limit=1000000000&window=3653d&bucket=1000000000&instances=1000&preset=runaway&policy=local-share&down-from=0s&down-to=60s",
        "limit=1000000000&window=1ms&instances=4294967295",
        "limit=18446744073709551616&window=999999999999w&down-from=99999999999999999w",
    ] {
        for page in ["/what-if", "/laboratory"] {
            let answer = site.get(&format!("{page}?{query}")).await;
            assert_eq!(answer.status, 200, "{page}?{query}");
            assert!(!answer.body.contains("<script>alert") && !answer.body.contains('\u{0}'), "{page}?{query}");
            assert!(answer.body.contains("id=\"result\""), "{page}?{query}: {}", answer.body);
            let policy = answer.header("content-security-policy").expect("a policy");
            assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
        }
    }
    site.stop().await;
}

#[tokio::test]
async fn the_pages_are_for_the_operator_and_change_nothing() {
    let mut rig = Rig::fresh().await;
    let site = Site::with_limits(&mut rig, Limits::default()).await;
    for page in ["/what-if", "/laboratory"] {
        let elsewhere = site.raw(&format!("GET {page} HTTP/1.1\r\nHost: example.org\r\n\r\n")).await;
        assert_eq!(elsewhere.status, 403, "{page}");
        let posted = site.raw(&format!("POST {page} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")).await;
        assert_eq!(posted.status, 405, "{page}");
        let head = site.raw(&format!("HEAD {page} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await;
        assert_eq!((head.status, head.body.as_str()), (200, ""));
    }
    site.stop().await;
}
