//! Health: alive is whoever answers; ready is whoever can read the database, has a fresh feed and is not behind.

use rusqlite::params;
use serde_json::Value;
use throttler::clock::Clock;

use crate::rig::{Quake, Rig};
use crate::site::{FEED, Site};

async fn ready(site: &Site) -> (u16, Value) {
    let answer = site.get("/readyz").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    (answer.status, serde_json::from_str(&answer.body).expect("JSON"))
}

#[tokio::test]
async fn ready_says_why_not() {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna")]);
    rig.see(&[]).await;
    let site = Site::start(&mut rig).await;
    let live = site.get("/healthz").await;
    assert_eq!((live.status, live.body.as_str()), (200, "ok\n"));
    rig.sql().execute("UPDATE installation SET feed_url = ?1", [FEED]).expect("the feed's name");
    let (status, body) = ready(&site).await;
    assert_eq!((status, &body["ready"], &body["feed"]["fresh"]), (200, &Value::Bool(true), &Value::Bool(true)), "{body}");

    // A message that nobody takes away, though its destination has not failed.
    let quake = Quake::new(&rig, "first", 6.0, 60);
    rig.show(&[quake]);
    rig.poll().await;
    rig.dispatch().await;
    rig.pass(901);
    rig.sql().execute("UPDATE installation SET feed_url = ?1", [FEED]).expect("the feed's name");
    let (status, body) = ready(&site).await;
    assert_eq!((status, body["reasons"].as_array().map(Vec::len)), (503, Some(1)), "{body}");
    assert!(body["reasons"][0].as_str().is_some_and(|reason| reason.starts_with("the outbox is behind: ")), "{body}");
    assert_eq!(body["outbox"]["overdue_seconds"], 901);
    // Of a webhook's host that fails, it is that host's affair.
    rig.sql().execute("UPDATE outbox SET attempts = 1", []).expect("an attempt that failed");
    assert_eq!(ready(&site).await.0, 200);

    rig.pass(3_600);
    let (status, body) = ready(&site).await;
    assert_eq!(status, 503);
    assert!(body["reasons"][0].as_str().is_some_and(|reason| reason.starts_with("the feed is stale: ")), "{body}");
    let now = rig.clock.now();
    rig.sql().execute("UPDATE installation SET polled_at = ?1, generated_at = NULL", params![now.ticks()]).expect("a poll");
    assert_eq!(ready(&site).await.0, 200);

    // Who lives may still not work.
    rig.sql().execute("DROP TABLE installation", []).expect("damage");
    let (status, body) = ready(&site).await;
    assert_eq!((status, &body["ready"]), (503, &Value::Bool(false)));
    assert!(body["reasons"][0].as_str().is_some_and(|reason| reason.starts_with("the database does not answer: ")), "{body}");
    assert_eq!(site.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn metrics_tell_how_things_stand() {
    let mut rig = Rig::fresh().await;
    rig.add(&[rig.hooked("anna"), rig.hooked("ben")]);
    rig.see(&[]).await;
    let site = Site::start(&mut rig).await;
    let quake = Quake::new(&rig, "first", 6.0, 60);
    rig.show(&[quake]);
    rig.poll().await;
    rig.dispatch().await;
    rig.sql().execute("UPDATE installation SET feed_url = ?1", [FEED]).expect("the feed's name");
    rig.sql().execute("UPDATE subscribers SET standing = 'paused' WHERE name = 'ben'", []).expect("a pause");
    let answer = site.get("/metrics").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/plain; version=0.0.4; charset=utf-8")));
    let now = rig.clock.now().to_string();
    let seconds = rig.clock.now().ticks() / 1_000_000;
    for line in [
        "throttler_feed_stale 0".to_owned(),
        format!("throttler_feed_last_success_timestamp_seconds {seconds}"),
        "throttler_events_known 1".to_owned(),
        "throttler_events_undecided 0".to_owned(),
        r#"throttler_subscribers{standing="active"} 1"#.to_owned(),
        r#"throttler_subscribers{standing="paused"} 1"#.to_owned(),
        r#"throttler_outbox_messages{status="due"} 2"#.to_owned(),
        r#"throttler_outbox_messages{status="dead"} 0"#.to_owned(),
        format!("throttler_outbox_oldest_timestamp_seconds {seconds}"),
        "throttler_database_up 1".to_owned(),
    ] {
        assert!(answer.body.lines().any(|found| found == line), "{line} at {now}: {}", answer.body);
    }
    // What is not known has no sample.
    assert!(!answer.body.contains("\nthrottler_feed_gap_timestamp_seconds "), "{}", answer.body);
    rig.pass(7_200);
    assert!(site.get("/metrics").await.body.contains("\nthrottler_feed_stale 1\n"));
    rig.sql().execute("DROP TABLE installation", []).expect("damage");
    // What was counted is told all the same: then it matters most.
    let answer = site.get("/metrics").await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("\nthrottler_database_up 0\n"), "{}", answer.body);
    assert!(answer.body.contains("\nthrottler_polls_total{"), "{}", answer.body);
    assert!(!answer.body.contains("\nthrottler_events_known "), "{}", answer.body);
}
