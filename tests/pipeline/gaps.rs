//! Outages longer than the feed reaches back: what came and went meanwhile is asked for once, told late, and not told twice.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use throttler::clock::Clock;
use throttler::daemon::Dispatched;
use throttler::freshness::{Cause, Freshness};
use throttler::time::Span;

use crate::rig::{HOUR, MINUTE, Rig, start};
use crate::usgs::{Listed, Service, Usgs};

const DAY: u64 = 24 * HOUR;

/// A rig whose feed is that of a service, polled once while it showed nothing.
async fn rig(usgs: &Usgs, feed: &str, max_age: u64) -> Rig {
    let mut rig = Rig::fresh().await;
    rig.rules.max_age = Span::from_seconds(max_age);
    rig.feed_url = Some(usgs.feed(feed));
    rig.fdsn = Some(usgs.fdsn());
    let mut anna = rig.hooked("anna");
    anna.policy = throttler::limiter::Policy::plain(crate::rig::limit(throttler::limiter::Algorithm::TokenBucket, "100/h", None));
    rig.add(&[anna]);
    rig.restart().await;
    poll(&mut rig, usgs).await;
    rig
}

async fn usgs() -> Usgs {
    Usgs::start(Service { now: Some(start()), limit: 20_000, ..Service::default() }).await
}

/// The service makes its feeds anew, and all that follows from it happens.
async fn poll(rig: &mut Rig, usgs: &Usgs) {
    usgs.service().now = Some(rig.clock.now());
    rig.poll().await;
    rig.settle().await;
}

/// An event so many hours after the start.
fn quake(id: &str, hours: u64, magnitude: f64) -> Listed {
    Listed::new(id, start().plus(Span::from_seconds(hours * HOUR)), magnitude)
}

/// The last parts of the addresses that were asked, without those before.
fn asked(usgs: &Usgs) -> Vec<String> {
    let asked = std::mem::take(&mut usgs.service().asked);
    asked.iter().map(|url| url.rsplit('/').next().expect("a path").split('?').next().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn after_an_outage_of_30_hours_the_week_closes_the_gap() {
    let usgs = usgs().await;
    let mut rig = rig(&usgs, "4.5_day", 7 * DAY).await;
    usgs.service().events = vec![quake("a", 1, 5.1), quake("b", 2, 6.8), quake("c", 20, 5.5), quake("d", 29, 6.0)];
    rig.pass(30 * HOUR);
    asked(&usgs);
    usgs.service().now = Some(rig.clock.now());
    rig.poll().await;
    assert_eq!(asked(&usgs), ["4.5_day.geojson", "4.5_week.geojson"]);
    let decided = rig.dispatch().await.into_iter().filter_map(|step| match step {
        Dispatched::Decided { event, .. } => Some(event.id.to_string()),
        _ => None,
    });
    assert_eq!(decided.collect::<Vec<_>>(), ["b", "d", "c", "a"], "the largest first");
    rig.deliver().await;
    let told = rig.receiver.requests().into_iter().map(|request| {
        let event = &request.body["event"]["id"];
        (event.as_str().expect("an id").to_owned(), request.body["late"].clone())
    });
    let late = ["a", "b", "c", "d"].map(|id| (id.to_owned(), (id != "d").into()));
    assert_eq!(told.collect::<BTreeMap<_, _>>(), BTreeMap::from(late), "more than an hour after the origin it is late");

    // Neither again nor twice, also after a restart.
    for _ in 0..3 {
        rig.pass(MINUTE);
        rig.restart().await;
        poll(&mut rig, &usgs).await;
    }
    assert_eq!(asked(&usgs), ["4.5_day.geojson"; 3]);
    assert_eq!(rig.hooks("anna").len(), 4);
    rig.check_books();
}

#[tokio::test]
async fn what_is_too_old_is_recorded_and_not_alerted() {
    let usgs = usgs().await;
    let mut rig = rig(&usgs, "4.5_day", DAY).await;
    usgs.service().events = vec![quake("a", 2, 7.0), quake("b", 7, 5.5)];
    rig.pass(30 * HOUR);
    poll(&mut rig, &usgs).await;
    assert_eq!(rig.outcomes("anna"), ["b alerted"]);
    assert_eq!(rig.number("SELECT count(*) FROM events WHERE fate = 'too-old' AND preferred_id = 'a'"), 1);
}

#[tokio::test]
async fn after_6_days_the_month_does_where_the_week_is_too_short_and_the_service_where_no_feed_does() {
    for (feed, outage, expected) in [
        ("4.5_day", 6 * DAY, "4.5_week.geojson"),
        ("4.5_hour", 2 * HOUR, "4.5_day.geojson"),
        ("4.5_week", 8 * DAY, "4.5_month.geojson"),
        ("4.5_day", 40 * DAY, "query"),
        ("4.5_month", 31 * DAY, "query"),
    ] {
        let usgs = usgs().await;
        let mut rig = rig(&usgs, feed, 100 * DAY).await;
        usgs.service().events = vec![quake("a", 1, 5.1), quake("b", 1, 4.4)];
        rig.pass(outage);
        asked(&usgs);
        poll(&mut rig, &usgs).await;
        assert_eq!(asked(&usgs), [&format!("{feed}.geojson"), expected], "{feed}");
        assert_eq!(rig.outcomes("anna"), ["a alerted"], "{feed}");
    }
}

#[tokio::test]
async fn the_service_is_asked_for_what_changed_since() {
    let usgs = usgs().await;
    let mut rig = rig(&usgs, "4.5_day", 100 * DAY).await;
    // One that lay before the outage and came late, one that was known long before.
    let late = Listed { at: start().minus(Span::from_seconds(HOUR)), ..quake("late", 2, 6.0) };
    let old = Listed {
        at: start().minus(Span::from_seconds(5 * HOUR)),
        updated_at: start().minus(Span::from_seconds(4 * HOUR)),
        ..quake("old", 0, 7.0)
    };
    usgs.service().events = vec![late, old];
    rig.pass(40 * DAY);
    asked(&usgs);
    poll(&mut rig, &usgs).await;
    assert_eq!(rig.outcomes("anna"), ["late alerted"]);
}

#[tokio::test]
async fn a_shorter_outage_asks_nobody_else() {
    for (feed, outage) in [("4.5_day", 23 * HOUR), ("4.5_hour", 39 * MINUTE), ("4.5_week", 6 * DAY), ("4.5_month", 29 * DAY)] {
        let usgs = usgs().await;
        let mut rig = rig(&usgs, feed, DAY).await;
        rig.pass(outage);
        asked(&usgs);
        poll(&mut rig, &usgs).await;
        assert_eq!(asked(&usgs), [format!("{feed}.geojson")]);
    }
}

#[tokio::test]
async fn a_gap_that_cannot_be_closed_yet_stays_until_it_is() {
    let usgs = usgs().await;
    let mut rig = rig(&usgs, "4.5_day", 7 * DAY).await;
    usgs.service().events = vec![quake("a", 1, 6.0), quake("b", 29, 5.5)];
    usgs.service().fault = Some(Box::new(|_, _, url| {
        url.path().ends_with("week.geojson").then(|| (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "600")]).into_response())
    }));
    rig.pass(30 * HOUR);
    asked(&usgs);
    poll(&mut rig, &usgs).await;
    assert_eq!(rig.outcomes("anna"), ["b alerted"], "the feed itself is read all the same");
    rig.pass(MINUTE);
    poll(&mut rig, &usgs).await;
    assert_eq!(asked(&usgs), ["4.5_day.geojson", "4.5_week.geojson", "4.5_day.geojson"], "it asked to be left alone");

    // The gap is known after a restart, too, and as long as it was.
    rig.restart().await;
    poll(&mut rig, &usgs).await;
    usgs.service().fault = None;
    rig.pass(2 * HOUR);
    poll(&mut rig, &usgs).await;
    assert_eq!(rig.outcomes("anna"), ["b alerted", "a alerted"]);
    asked(&usgs);
    rig.pass(MINUTE);
    poll(&mut rig, &usgs).await;
    assert_eq!(asked(&usgs), ["4.5_day.geojson"]);
    assert_eq!(rig.hooks("anna").len(), 2);
}

#[tokio::test]
async fn a_service_that_renews_nothing_for_30_hours_makes_a_gap_too() {
    let usgs = usgs().await;
    let mut rig = rig(&usgs, "4.5_day", 7 * DAY).await;
    usgs.service().events = vec![quake("a", 1, 6.0)];
    usgs.service().now = Some(start());
    for _ in 0..30 {
        rig.pass(HOUR);
        rig.poll().await;
    }
    asked(&usgs);
    poll(&mut rig, &usgs).await;
    assert_eq!(asked(&usgs), ["4.5_day.geojson", "4.5_week.geojson"]);
    assert_eq!(rig.outcomes("anna"), ["a alerted"]);
}

#[tokio::test]
async fn a_feed_of_unknown_reach_has_no_gaps() {
    let usgs = usgs().await;
    let mut rig = rig(&usgs, "4.5_day", 7 * DAY).await;
    rig.feed_url = None;
    rig.show(&[]);
    rig.restart().await;
    rig.poll().await;
    asked(&usgs);
    rig.pass(90 * DAY);
    rig.show(&[]);
    rig.poll().await;
    assert_eq!(asked(&usgs), [""; 0]);
}

#[tokio::test]
async fn the_state_of_the_feed_tells_when_it_is_stale() {
    let usgs = usgs().await;
    let mut rig = rig(&usgs, "4.5_day", DAY).await;
    let half_an_hour = Span::from_seconds(30 * MINUTE);
    let freshness = async |rig: &mut Rig| {
        let now = rig.clock.now();
        rig.parts().ingester.state().await.expect("the state").freshness(start(), half_an_hour, now)
    };
    assert_eq!(freshness(&mut rig).await, Freshness::Fresh);
    // Polls that succeed, of content that is not renewed.
    for _ in 0..31 {
        rig.pass(MINUTE);
        rig.poll().await;
    }
    assert_eq!(freshness(&mut rig).await, Freshness::Stale { since: start(), cause: Cause::OldContent });
    poll(&mut rig, &usgs).await;
    assert_eq!(freshness(&mut rig).await, Freshness::Fresh);
    // No poll succeeds.
    let last = rig.clock.now();
    rig.pass(31 * MINUTE);
    assert_eq!(freshness(&mut rig).await, Freshness::Stale { since: last, cause: Cause::NoPoll });
    rig.restart().await;
    assert_eq!(freshness(&mut rig).await, Freshness::Stale { since: last, cause: Cause::NoPoll }, "after a restart, too");
}
