//! `/metrics`: what the daemon counted and how things stand, in the text format of Prometheus (version 0.0.4).

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, GaugeVec, Opts, Registry, TextEncoder};

use super::Web;
use crate::daemon::{Metrics, with_causes};
use crate::freshness::{FeedState, Freshness};
use crate::limits::Standing;
use crate::store::{NoticeCounts, StoreStatus};
use crate::time::Timestamp;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn metrics(State(web): State<Arc<Web>>) -> Response {
    let now = web.clock.now();
    let watching = web.watching.borrow().clone();
    let feed = watching.feed.clone();
    let read = web.database.with(move |store| Ok((store.feed_state(&feed)?, store.status()?, store.notice_counts()?))).await;
    // What is counted is told also when the database does not answer: then it matters most.
    let mut families = web.metrics.gather();
    let answers = match &read {
        Ok((state, counts, notices)) => {
            let freshness = state.freshness(watching.since, watching.stale_after, now);
            standing(Some((state, freshness, counts, notices)), &web.metrics)
        }
        Err(fault) => {
            tracing::debug!("the database does not answer: {}", with_causes(fault));
            standing(None, &web.metrics)
        }
    };
    let text = answers.and_then(|gauges| {
        families.extend(gauges);
        TextEncoder::new().encode_to_string(&families)
    });
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(fault) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{fault}\n")).into_response(),
    }
}

/// How things stand, in gauges; without the database only that it does not answer. What is not known has no sample.
fn standing(
    read: Option<(&FeedState, Freshness, &StoreStatus, &NoticeCounts)>,
    metrics: &Metrics,
) -> Result<Vec<MetricFamily>, prometheus::Error> {
    let gauges = Gauges(Registry::new());
    gauges.labelled("build_info", "The version that runs.", "version", &[(env!("CARGO_PKG_VERSION"), 1)])?;
    gauges.flag("database_up", "Whether the database answers.", read.is_some())?;
    gauges.limits(&metrics.limits())?;
    if let Some(away) = metrics.store_away() {
        gauges.flag("limit_store_up", "Whether the store of shared limits answers.", !away)?;
    }
    let Some((state, freshness, counts, notices)) = read else { return Ok(gauges.0.gather()) };
    gauges.at("feed_last_success_timestamp_seconds", "When a poll last succeeded.", state.polled_at)?;
    gauges.at("feed_content_timestamp_seconds", "When the newest content was made.", state.generated_at)?;
    gauges.flag("feed_stale", "Whether the feed is older than feed.stale_after.", freshness != Freshness::Fresh)?;
    gauges.at("feed_gap_timestamp_seconds", "Since when content is missing.", state.gap_since)?;
    gauges.number("events_known", "Events that are known.", counts.events)?;
    gauges.number("events_undecided", "Events about which subscribers are still to be asked.", counts.undecided_events)?;
    gauges.labelled(
        "subscribers",
        "Subscribers by standing.",
        "standing",
        &[("active", counts.active), ("paused", counts.paused), ("disabled", counts.disabled)],
    )?;
    gauges.labelled(
        "outbox_messages",
        "Messages that are not delivered, by status.",
        "status",
        &[("due", counts.due), ("leased", counts.leased), ("dead", counts.dead)],
    )?;
    let oldest = counts.oldest_due_at;
    gauges.at("outbox_oldest_timestamp_seconds", "When the oldest message due or under way was made.", oldest)?;
    gauges.labelled(
        "notices",
        "Notices to the operator that are not delivered, by status.",
        "status",
        &[("due", notices.due), ("leased", notices.leased), ("dead", notices.dead)],
    )?;
    Ok(gauges.0.gather())
}

/// Gauges that are set once, for one answer.
struct Gauges(Registry);

impl Gauges {
    fn set(&self, name: &str, help: &str, value: f64) -> Result<(), prometheus::Error> {
        let gauge = Gauge::new(format!("throttler_{name}"), help)?;
        gauge.set(value);
        self.0.register(Box::new(gauge))
    }

    fn number(&self, name: &str, help: &str, value: u64) -> Result<(), prometheus::Error> {
        self.set(name, help, value as f64)
    }

    fn flag(&self, name: &str, help: &str, is: bool) -> Result<(), prometheus::Error> {
        self.number(name, help, u64::from(is))
    }

    /// Seconds since 1970, exact to a microsecond.
    fn at(&self, name: &str, help: &str, at: Option<Timestamp>) -> Result<(), prometheus::Error> {
        at.map_or(Ok(()), |at| self.set(name, help, at.ticks() as f64 / 1e6))
    }

    /// How limits on deliveries stand.
    fn limits(&self, limits: &[Standing]) -> Result<(), prometheus::Error> {
        let left: Vec<_> = limits.iter().filter_map(|limit| Some((limit.name.as_str(), limit.left?))).collect();
        if left.is_empty() {
            return Ok(());
        }
        self.labelled("limit_left", "Deliveries that a limit would let pass now.", "limit", &left)
    }

    fn labelled(&self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> Result<(), prometheus::Error> {
        let gauge = GaugeVec::new(Opts::new(format!("throttler_{name}"), help), &[label])?;
        for (labelled, value) in values {
            gauge.with_label_values(&[*labelled]).set(*value as f64);
        }
        self.0.register(Box::new(gauge))
    }
}
