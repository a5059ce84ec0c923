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
