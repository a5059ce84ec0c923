//! Fetching a catalogue from a service with the USGS's habits: every event once, oldest first, whatever goes wrong between.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tempfile::TempDir;
use throttler::clock::{Clock, SystemClock};
use throttler::event::Magnitude;
use throttler::feed::fdsn::{Download, Fdsn, Fetched, Question};
use throttler::feed::{FeedError, Settings};
use throttler::time::{Span, Timestamp};

use crate::server::install_provider;
use crate::support::{at, id, magnitude};
use crate::usgs::{HEADER, Listed, Service, Usgs, refusal};

fn now() -> Timestamp {
    SystemClock.now()
}

/// An event so many milliseconds into the year 2020.
fn listed(millis: u64) -> Listed {
    Listed::new(&format!("us{millis}"), at("2020-01-01").plus(Span::from_millis(millis)), 5.0 + (millis % 7) as f64 / 10.0)
}

/// A quiet year with one busy quarter of an hour, events on whole seconds and within them, and two at one instant.
fn uneven() -> Vec<Listed> {
    let quiet = (0..40).map(|day| listed(day * 9 * 86_400_000));
    let busy = (0..300).map(|n| listed(100 * 86_400_000 + n * 3_000 + n % 4 * 250));
    let mut twin = listed(100 * 86_400_000);
    twin.id = "twin".into();
    let mut all: Vec<Listed> = quiet.chain(busy).chain([twin]).collect();
    all.sort_by_key(|event| event.at);
    all
}

fn question() -> Question {
    Question { from: at("2020-01-01"), to: at("2021-01-01"), min_magnitude: Some(magnitude(5.0)), kinds: Vec::new() }
}

fn fdsn(usgs: &Usgs) -> Fdsn {
    install_provider();
    Fdsn::new(usgs.fdsn().parse().expect("a service"), &Settings { timeouts: Fdsn::TIMEOUTS, ..Settings::default() })
        .expect("a client")
}

async fn start(events: Vec<Listed>, limit: usize) -> Usgs {
    Usgs::start(Service { events, limit, ..Service::default() }).await
}

async fn fetch_to(usgs: &Usgs, output: &Path, question: &Question) -> Result<Fetched, FeedError> {
    let fdsn = fdsn(usgs);
    let mut download = Download::open(output, fdsn.url(), question)?;
    let fetched = fdsn.fetch(&mut download, &now, &|_| {}).await?;
    download.finish(&mut std::io::sink())?;
    Ok(fetched)
}

/// What a fetch into memory brings.
async fn brought(usgs: &Usgs, question: &Question) -> (String, Fetched) {
    let fdsn = fdsn(usgs);
    let mut download = Download::spooled(fdsn.url(), question).expect("a temporary file");
    let fetched = fdsn.fetch(&mut download, &now, &|_| {}).await.expect("a catalogue");
    let mut out = Vec::new();
    download.finish(&mut out).expect("memory");
    (String::from_utf8(out).expect("UTF-8"), fetched)
}

/// The file that these events make, oldest first.
fn catalogue(events: &[Listed]) -> String {
    std::iter::once(HEADER.to_owned()).chain(events.iter().map(Listed::row)).map(|row| row + "\n").collect()
}

#[tokio::test]
async fn every_event_comes_once_and_oldest_first_whatever_the_limit() {
    let events = uneven();
    for limit in [7, 20, 100, 341, 20_000] {
        let usgs = start(events.clone(), limit).await;
        let (text, fetched) = brought(&usgs, &question()).await;
        assert_eq!(text, catalogue(&events), "limit {limit}");
        assert!(fetched.is_complete(), "{fetched:?}");
        let (counts, queries) = usgs.service().asked.iter().fold((0, 0), |(counts, queries), asked| {
            if asked.contains("/count?") { (counts + 1, queries) } else { (counts, queries + 1) }
        });
        assert_eq!(counts + queries, fetched.requests);
        assert_eq!(counts, if queries == 1 { 1 } else { 2 }, "counted before, and after where the answers are several");
        assert!(queries <= 1 + 80 * events.len() as u64 / limit as u64, "limit {limit}: {queries} requests");
    }
}

#[tokio::test]
async fn the_span_is_half_open_and_the_rest_is_asked_of_the_service() {
    let mut events: Vec<Listed> = [0, 500, 999, 1_000, 1_500, 2_000, 2_001].map(listed).into();
    events[2].magnitude = 4.99;
    events[3].kind = "mine collapse".into();
    let usgs = start(events.clone(), 20_000).await;
    let to = |millis| at("2020-01-01").plus(Span::from_millis(millis));
    let of = |to, kinds: &[&str]| Question { to, kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(), ..question() };
    let ids = |text: &str| text.lines().skip(1).map(|row| row.split(',').nth(11).expect("an id").to_owned()).collect::<Vec<_>>();
    let (text, fetched) = brought(&usgs, &of(to(2_000), &[])).await;
    assert_eq!(ids(&text), ["us0", "us500", "us1000", "us1500"]);
    assert_eq!((fetched.events, fetched.received, fetched.counted), (4, 5, 5), "the service counts the last second, too");
    let (text, _) = brought(&usgs, &of(to(3_000), &["earthquake"])).await;
    assert_eq!(ids(&text), ["us0", "us500", "us1500", "us2000", "us2001"]);
    let (text, _) = brought(&usgs, &of(to(3_000), &["mine collapse", "landslide"])).await;
    assert_eq!(ids(&text), ["us1000"]);
}

#[tokio::test]
async fn nothing_that_matches_is_said_in_three_ways() {
    let nothing: [fn() -> Response; 3] =
        [|| format!("{HEADER}\n").into_response(), || StatusCode::NO_CONTENT.into_response(), || "".into_response()];
    for (answer, expected) in nothing.into_iter().zip([format!("{HEADER}\n"), String::new(), String::new()]) {
        let usgs = start(Vec::new(), 20_000).await;
        usgs.service().fault = Some(Box::new(move |_, _, url| url.path().ends_with("query").then(answer)));
        let (text, fetched) = brought(&usgs, &question()).await;
        assert_eq!((text, fetched.events, fetched.is_complete()), (expected, 0, true));
    }
}

/// The answer of every kind of passing trouble that feed.md of the service tells of.
fn trouble(number: usize) -> Option<Response> {
    let page = "<html><body>504 Gateway Time-out</body></html>";
    match number {
        0 => Some((StatusCode::SERVICE_UNAVAILABLE, "SQLSTATE[HY000]: General error").into_response()),
        2 => Some((StatusCode::GATEWAY_TIMEOUT, [(header::CONTENT_TYPE, "text/html")], page).into_response()),
        3 => Some(([(header::CONTENT_TYPE, "text/html")], page).into_response()),
        5 => Some(r#"{"metadata":{"status":503,"error":"busy"},"features":[]}"#.into_response()),
        6 => Some((StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "0")], "slow down").into_response()),
        8 => Some(format!("{HEADER}\n2020-01-01T00:00:00.000Z,1").into_response()),
        _ => None,
    }
}

#[tokio::test]
async fn what_passes_is_asked_again() {
    let events = uneven();
    let usgs = start(events.clone(), 100).await;
    usgs.service().fault = Some(Box::new(|_, number, _| trouble(number)));
    let (text, fetched) = brought(&usgs, &question()).await;
    assert_eq!(text, catalogue(&events));
    assert!(fetched.is_complete(), "{fetched:?}");
}

#[tokio::test]
async fn what_does_not_pass_is_given_up_and_told() {
    let told = |status: u16, retry_after: &'static str| async move {
        let usgs = start(uneven(), 100).await;
        usgs.service().fault = Some(Box::new(move |_, _, _| {
            let mut refused = refusal(status, "no");
            refused.headers_mut().insert(header::RETRY_AFTER, retry_after.parse().expect("a header"));
            Some(refused)
        }));
        let fdsn = fdsn(&usgs);
        let mut download = Download::spooled(fdsn.url(), &question()).expect("a temporary file");
        let fault = fdsn.fetch(&mut download, &now, &|_| {}).await.expect_err("a failure");
        let asked = usgs.service().asked.len();
        (asked, fault.to_string().split_once(" answered ").expect("a status").1.to_owned())
    };
    let (asked, message) = told(503, "0").await;
    assert_eq!(
        (asked, message.as_str()),
        (6, "503: expected 200 or 204; it says 'Error 503: Bad Request no Usage details are available from …'")
    );
    assert_eq!(told(503, "86400").await.0, 1, "nobody waits a day for it");
    assert_eq!(told(400, "0").await.0, 1, "a wrong question stays wrong");
}

#[tokio::test]
async fn a_second_with_too_many_events_is_told() {
    let crowd = (0..30).map(|n| Listed { id: format!("us{n}"), ..listed(500) }).collect();
    let usgs = start(crowd, 10).await;
    let fdsn = fdsn(&usgs);
    let mut download = Download::spooled(fdsn.url(), &question()).expect("a temporary file");
    let fault = fdsn.fetch(&mut download, &now, &|_| {}).await.expect_err("too many");
    assert!(matches!(fault, FeedError::SearchLimit { .. }), "{fault:?}");
}

#[tokio::test]
async fn a_service_that_cuts_off_in_silence_is_found_out() {
    let usgs = start(uneven(), 100).await;
    usgs.service().fault = Some(Box::new(|service, _, url| {
        let is_query = url.path().ends_with("query");
        let from = url.query_pairs().find(|(name, _)| name == "starttime").expect("a start").1.into_owned();
        let to = url.query_pairs().find(|(name, _)| name == "endtime").expect("an end").1.into_owned();
        let (from, to) = (at(&format!("{from}Z")), at(&format!("{to}Z")));
        let found = service.events.iter().filter(|event| event.at >= from && event.at <= to).take(100);
        let rows = std::iter::once(HEADER.to_owned()).chain(found.map(Listed::row)).map(|row| row + "\n");
        is_query.then(|| rows.collect::<String>().into_response())
    }));
    let (text, fetched) = brought(&usgs, &question()).await;
    assert_eq!(text, catalogue(&uneven()));
    assert!(fetched.is_complete());
}

#[tokio::test]
async fn events_that_come_or_change_meanwhile_are_noticed() {
    // One comes into what is still to be asked for: the file has what is counted at the end.
    let usgs = start(uneven(), 100).await;
    usgs.service().fault = Some(Box::new(|service, number, _| {
        if number == 2 {
            service.events.push(Listed { id: "late".into(), ..listed(364 * 86_400_000) });
        }
        None
    }));
    let (text, fetched) = brought(&usgs, &question()).await;
    assert!(text.contains(",late,") && fetched.is_complete(), "{fetched:?}");
    assert_eq!((fetched.counted, fetched.recounted, fetched.received), (341, Some(342), 342));

    // One comes into what was asked for already.
    let usgs = start(uneven(), 100).await;
    usgs.service().fault = Some(Box::new(|service, number, _| {
        if number == 3 {
            service.events.push(Listed { id: "late".into(), ..listed(1_000) });
        }
        None
    }));
    let (text, fetched) = brought(&usgs, &question()).await;
    assert!(!text.contains(",late,") && !fetched.is_complete(), "{fetched:?}");
    assert_eq!((fetched.recounted, fetched.received), (Some(342), 341));

    // One is revised so that it comes again: it stands there once.
    let usgs = start(uneven(), 100).await;
    usgs.service().fault = Some(Box::new(|service, number, _| {
        if number == 3 {
            service.events[0].at = at("2020-12-30");
        }
        None
    }));
    let (text, fetched) = brought(&usgs, &question()).await;
    assert_eq!(text.matches(",us0,").count(), 1);
    assert!(fetched.is_complete());
}

/// Lets the service fail for good at a random request, then fetches again.
#[tokio::test]
async fn an_interrupted_fetch_goes_on_where_it_was() {
    let (directory, events) = (TempDir::new().expect("a directory"), uneven());
    let output = directory.path().join("quakes.csv");
    fs::write(&output, "what was there before").expect("written");
    let usgs = start(events.clone(), 100).await;
    usgs.service().fault = Some(Box::new(|_, number, _| (number > 4).then(|| refusal(403, "no more"))));
    fetch_to(&usgs, &output, &question()).await.expect_err("refused");
    assert_eq!(fs::read_to_string(&output).expect("the file"), "what was there before");
    let part = directory.path().join("quakes.csv.part");
    let kept = fs::read_to_string(&part).expect("what came");
    assert!(catalogue(&events).starts_with(&kept) && kept.lines().count() > 1);
    let state = fs::read_to_string(directory.path().join("quakes.csv.part.json")).expect("the state");

    // A row that was not finished when the power failed.
    fs::write(&part, kept.clone() + "2020-13-99T").expect("written");
    usgs.service().fault = None;
    let fetched = fetch_to(&usgs, &output, &question()).await.expect("the rest");
    assert_eq!(fs::read_to_string(&output).expect("the file"), catalogue(&events));
    assert_eq!(fetched.resumed, kept.lines().count() as u64 - 1);
    assert!(fetched.is_complete());
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 1, "nothing is left beside it");

    // What does not fit is not used: another question, another service, less than was said, what is no catalogue.
    for (kept, state) in [
        (kept.clone(), state.replace("2021", "2022")),
        (kept.clone(), state.replace("fdsnws", "other")),
        (kept[..kept.len() - 1].to_owned(), state.clone()),
        ("x".repeat(kept.len()), state.clone()),
        (kept.clone(), String::new()),
    ] {
        fs::write(&part, kept).expect("written");
        fs::write(directory.path().join("quakes.csv.part.json"), state).expect("written");
        let fetched = fetch_to(&usgs, &output, &question()).await.expect("all");
        assert_eq!((fetched.resumed, fetched.is_complete()), (0, true));
        assert_eq!(fs::read_to_string(&output).expect("the file"), catalogue(&events));
    }
}

#[tokio::test]
async fn two_fetches_do_not_write_the_same_file() {
    let directory = TempDir::new().expect("a directory");
    let output = directory.path().join("quakes.csv");
    let url = "http://127.0.0.1:1/".parse().expect("a service");
    let first = Download::open(&output, &url, &question()).expect("the first");
    assert!(matches!(Download::open(&output, &url, &question()), Err(FeedError::PartLocked { .. })));
    drop(first);
    Download::open(&output, &url, &question()).expect("after the first");
    let nowhere = directory.path().join("none/quakes.csv");
    assert!(matches!(Download::open(&nowhere, &url, &question()), Err(FeedError::Part { .. })));
}

#[tokio::test]
async fn progress_is_told_slice_by_slice() {
    let usgs = start(uneven(), 100).await;
    let fdsn = fdsn(&usgs);
    let mut download = Download::spooled(fdsn.url(), &question()).expect("a temporary file");
    let seen = Mutex::new(Vec::new());
    fdsn.fetch(&mut download, &now, &|progress| seen.lock().expect("one thread").push(progress)).await.expect("a catalogue");
    let seen = seen.into_inner().expect("one thread");
    assert!(seen.windows(2).all(|pair| pair[0].events <= pair[1].events && pair[0].until < pair[1].until), "{seen:?}");
    assert_eq!(seen.last().map(|last| (last.events, last.of, last.until)), Some((341, 341, at("2021-01-01"))));
}

#[tokio::test]
async fn one_event_is_known_deleted_or_unknown() {
    let usgs = start(uneven(), 100).await;
    usgs.service().deleted.push("us7".into());
    let fdsn = fdsn(&usgs);
    let found = fdsn.event(&id("us0"), now()).await.expect("an answer").expect("the event");
    assert_eq!(found.events.len(), 1);
    assert_eq!(found.events[0].magnitude, Some(Magnitude::new(5.0).expect("five")));
    assert!(matches!(fdsn.event(&id("us7"), now()).await, Err(FeedError::Deleted { .. })));
    assert_eq!(fdsn.event(&id("us8"), now()).await.expect("an answer"), None);
    for (answer, deleted) in [
        (r#"{"metadata":{"status":409,"error":"deleted"},"features":[]}"#, true),
        (r#"{"metadata":{"status":404,"error":"none"},"features":[]}"#, false),
        ("", false),
    ] {
        usgs.service().fault = Some(Box::new(move |_, _, _| Some(answer.into_response())));
        let said = fdsn.event(&id("us0"), now()).await;
        assert_eq!(matches!(said, Err(FeedError::Deleted { .. })), deleted, "{answer}");
        assert!(deleted || matches!(said, Ok(None)), "{answer}");
    }
}
