//! `/metrics`: how things stand, in the text format of Prometheus (version 0.0.4), names and units by its conventions.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::Web;
use crate::daemon::with_causes;
use crate::freshness::{FeedState, Freshness};
use crate::store::{NoticeCounts, StoreStatus};
use crate::time::{TICKS_PER_SECOND, Timestamp};

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn metrics(State(web): State<Arc<Web>>) -> Response {
    let now = web.clock.now();
    let feed = web.watch.feed.clone();
    match web.database.with(move |store| Ok((store.feed_state(&feed)?, store.status()?, store.notice_counts()?))).await {
        Ok((state, counts, notices)) => {
            let freshness = state.freshness(web.watch.since, web.watch.stale_after, now);
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(&state, freshness, &counts, &notices)).into_response()
        }
        Err(fault) => {
            let text = format!("the database does not answer: {}\n", with_causes(&fault));
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

fn text(state: &FeedState, freshness: Freshness, counts: &StoreStatus, notices: &NoticeCounts) -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, values: &[(&str, Option<String>)]| {
        // Writing to a String cannot fail.
        let _ = write!(text, "# HELP throttler_{name} {help}\n# TYPE throttler_{name} gauge\n");
        for (labels, value) in values {
            // What is not known has no sample.
            if let Some(value) = value {
                let _ = writeln!(text, "throttler_{name}{labels} {value}");
            }
        }
    };
    let number = |value: u64| Some(value.to_string());
    let flag = |is: bool| Some(u8::from(is).to_string());
    gauge("build_info", "The version that runs.", &[(concat!("{version=\"", env!("CARGO_PKG_VERSION"), "\"}"), flag(true))]);
    gauge("feed_last_success_timestamp_seconds", "When a poll last succeeded.", &[("", seconds(state.polled_at))]);
    gauge("feed_content_timestamp_seconds", "When the newest content was made.", &[("", seconds(state.generated_at))]);
    gauge("feed_stale", "Whether the feed is older than feed.stale_after.", &[("", flag(freshness != Freshness::Fresh))]);
    gauge("feed_gap_timestamp_seconds", "Since when content is missing.", &[("", seconds(state.gap_since))]);
    gauge("events", "Events that are known.", &[("", number(counts.events))]);
    gauge("events_undecided", "Events about which subscribers are still to be asked.", &[("", number(counts.undecided_events))]);
    gauge(
        "subscribers",
        "Subscribers by standing.",
        &[
            ("{standing=\"active\"}", number(counts.active)),
            ("{standing=\"paused\"}", number(counts.paused)),
            ("{standing=\"disabled\"}", number(counts.disabled)),
        ],
    );
    gauge(
        "outbox_messages",
        "Messages that are not delivered, by status.",
        &[
            ("{status=\"due\"}", number(counts.due)),
            ("{status=\"leased\"}", number(counts.leased)),
            ("{status=\"dead\"}", number(counts.dead)),
        ],
    );
    let oldest = seconds(counts.oldest_due_at);
    gauge("outbox_oldest_timestamp_seconds", "When the oldest message due or under way was made.", &[("", oldest)]);
    gauge(
        "notices",
        "Notices to the operator that are not delivered, by status.",
        &[
            ("{status=\"due\"}", number(notices.due)),
            ("{status=\"leased\"}", number(notices.leased)),
            ("{status=\"dead\"}", number(notices.dead)),
        ],
    );
    text
}

/// Whole seconds since 1970 and milliseconds.
fn seconds(at: Option<Timestamp>) -> Option<String> {
    let (ticks, second) = (at?.ticks(), TICKS_PER_SECOND);
    Some(format!("{}.{:03}", ticks.div_euclid(second), ticks.rem_euclid(second) / (second / 1_000)))
}
