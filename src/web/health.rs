//! `/healthz`: the process answers. `/readyz`: it can do its work, or why not.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Web;
use crate::daemon::with_causes;
use crate::freshness::Freshness;
use crate::time::{Span, TICKS_PER_SECOND, Timestamp};

/// A daemon that has had something to send for longer than this, and no room for it, is behind.
const MAX_BACKLOG: Span = Span::from_seconds(900);

pub(super) async fn live() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(State(web): State<Arc<Web>>) -> Response {
    let now = web.clock.now();
    let watching = web.watching.borrow().clone();
    let feed = watching.feed.clone();
    let read = web.database.with(move |store| Ok((store.feed_state(&feed)?, store.overdue_since(now)?))).await;
    let (state, overdue_since) = match read {
        Ok(read) => read,
        Err(fault) => {
            let body = json!({ "ready": false, "reasons": [format!("the database does not answer: {}", with_causes(&fault))] });
            return answer(StatusCode::SERVICE_UNAVAILABLE, &body);
        }
    };
    let freshness = state.freshness(watching.since, watching.stale_after, now);
    let reasons: Vec<String> = stale(freshness).into_iter().chain(behind(overdue_since, now)).collect();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "ready": reasons.is_empty(),
        "reasons": reasons,
        "feed": {
            "fresh": freshness == Freshness::Fresh,
            "polled_at": state.polled_at,
            "generated_at": state.generated_at,
            "gap_since": state.gap_since,
        },
        "outbox": {
            "overdue_since": overdue_since,
            "overdue_seconds": overdue_since.map(|since| now.since(since).ticks() / TICKS_PER_SECOND.unsigned_abs()),
        },
    });
    answer(status, &body)
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}

fn stale(freshness: Freshness) -> Option<String> {
    (freshness != Freshness::Fresh).then(|| freshness.to_string())
}

fn behind(overdue_since: Option<Timestamp>, now: Timestamp) -> Option<String> {
    let since = overdue_since.filter(|since| now.since(*since) > MAX_BACKLOG)?;
    Some(format!("the outbox is behind: a message has been due since {since}"))
}
