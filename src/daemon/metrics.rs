//! What the daemon counts and measures since it started, for `/metrics`. Names and units follow the conventions of Prometheus;
//! every label has few values, all known in advance.

use std::sync::{Mutex, MutexGuard, PoisonError};

use prometheus::proto::MetricFamily;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use super::Dispatched;
use crate::channel::Channel;
use crate::limiter::Algorithm;
use crate::limits::Standing;
use crate::plan::{Outcome, UpdateOutcome};
use crate::store::Ingested;
use crate::time::Span;

/// Bounds in seconds of what should take a moment: a transaction, an answer from nearby.
const MOMENTS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
/// Bounds in seconds of what goes over the network, up to its timeouts.
const EXCHANGES: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
/// Bounds in seconds from an event's first sight to the receipt of an alert, up to the age at which one is given up.
const LATENCIES: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0, 86_400.0];

/// The limiter of a subscriber whose settings cannot be read.
const UNKNOWN: &str = "unknown";

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polled {
    /// There was content to record, be it known or not.
    Fresh,
    /// The feed said, or was seen, to be as it was.
    Unchanged,
    /// The feed could not be read.
    Failed,
    /// The database could not.
    Unrecorded,
}

/// How an attempt at a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Delivered,
    Transient,
    Permanent,
    /// It was still under way when the daemon stopped, and was handed back.
    CutOff,
}

/// Counters and histograms, from the start of the process on.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    polls: IntCounterVec,
    poll_seconds: Histogram,
    events: IntCounterVec,
    decisions: IntCounterVec,
    decision_seconds: Histogram,
    updates: IntCounterVec,
    attempts: IntCounterVec,
    attempt_seconds: HistogramVec,
    latency_seconds: HistogramVec,
    leases_lost: IntCounterVec,
    reloads: IntCounterVec,
    limits_admitted: IntCounterVec,
    limits_refused: IntCounterVec,
    /// How the limits on deliveries stood at the last turn.
    limits: Mutex<Vec<Standing>>,
    /// Whether the store of shared limits was away then; `None`: there is none.
    store_away: Mutex<Option<bool>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Metrics {
        let registry = Registry::new();
        let limiters: Vec<&'static str> = Algorithm::ALL.map(Algorithm::name).into_iter().chain([UNKNOWN]).collect();
        let channels = ["email", "webhook"];
        Metrics {
            polls: counter(
                &registry,
                ("polls", "Polls of the feed, by how they ended."),
                &[("result", &Polled::ALL.map(Polled::name))],
            ),
            poll_seconds: histogram(&registry, "poll_duration_seconds", "How long polls took, recording included.", &EXCHANGES),
            events: counter(
                &registry,
                ("events", "Events that polls recorded, by what became of them."),
                &[("change", &["new", "revised", "merged", "withdrawn"])],
            ),
            decisions: counter(
                &registry,
                ("decisions", "First decisions on an event for a subscriber, by outcome and the subscriber's limiter."),
                &[("outcome", &Outcome::ALL.map(Outcome::name)), ("limiter", &limiters)],
            ),
            decision_seconds: histogram(
                &registry,
                "decision_duration_seconds",
                "How long it took to decide an event for a chunk of up to 1000 subscribers, with the commit.",
                &MOMENTS,
            ),
            updates: counter(
                &registry,
                ("updates", "Decisions on telling a subscriber of a change or a withdrawal, by outcome."),
                &[("outcome", &UpdateOutcome::ALL.map(UpdateOutcome::name))],
            ),
            attempts: counter(
                &registry,
                ("attempts", "Attempts at delivery, by channel and how they ended."),
                &[("channel", &channels), ("result", &Attempt::ALL.map(Attempt::name))],
            ),
            attempt_seconds: histograms(&registry, "attempt_duration_seconds", "How long attempts took.", &EXCHANGES, &channels),
            latency_seconds: histograms(
                &registry,
                "alert_latency_seconds",
                "From an event's first sight in the feed to the receipt of an alert of it alone.",
                &LATENCIES,
                &channels,
            ),
            leases_lost: counter(
                &registry,
                ("leases_lost", "Deliveries that a daemon leased and did not settle: they are attempted again."),
                &[],
            ),
            reloads: counter(
                &registry,
                ("config_reloads", "Times that the configuration was read again."),
                &[("result", &["applied", "refused"])],
            ),
            limits_admitted: counter(
                &registry,
                ("limit_admitted", "Deliveries that a limit let pass, by limit."),
                &[("limit", &[])],
            ),
            limits_refused: counter(
                &registry,
                ("limit_refused", "Times that deliveries were found waiting for a limit, by limit."),
                &[("limit", &[])],
            ),
            limits: Mutex::default(),
            store_away: Mutex::default(),
            registry,
        }
    }

    /// How the limits on deliveries stood at the last turn of deliver.
    #[must_use]
    pub fn limits(&self) -> Vec<Standing> {
        self.standings().clone()
    }

    fn standings(&self) -> MutexGuard<'_, Vec<Standing>> {
        // Nothing that holds it panics halfway.
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the limits stand, and which of them, by their place, deliveries wait for.
    pub(super) fn limits_stand(&self, standings: Vec<Standing>, refusing: &[usize]) {
        for (at, standing) in standings.iter().enumerate() {
            let name = standing.name.as_str();
            // Touched, so that the first of each counts as an increase.
            self.limits_admitted.with_label_values(&[name]);
            self.limits_refused.with_label_values(&[name]).inc_by(u64::from(refusing.contains(&at)));
        }
        *self.standings() = standings;
    }

    /// Whether the store of shared limits is away; `None`: there is none.
    #[must_use]
    pub fn store_away(&self) -> Option<bool> {
        *self.store_away.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store_is_away(&self, away: Option<bool>) {
        *self.store_away.lock().unwrap_or_else(PoisonError::into_inner) = away;
    }

    /// The store refused a delivery by these limits, by their place.
    pub(super) fn refused(&self, limits: &[usize]) {
        let standings = self.standings();
        for limit in limits.iter().filter_map(|at| standings.get(*at)) {
            self.limits_refused.with_label_values(&[limit.name.as_str()]).inc();
        }
    }

    /// A delivery passed these limits, by their place.
    pub(super) fn admitted(&self, limits: &[usize]) {
        if limits.is_empty() {
            return;
        }
        let standings = self.standings();
        for limit in limits.iter().filter_map(|at| standings.get(*at)) {
            self.limits_admitted.with_label_values(&[limit.name.as_str()]).inc();
        }
    }

    /// Everything that was counted and measured, for the encoder of the text format.
    #[must_use]
    pub fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }

    pub(super) fn polled(&self, result: Polled, took: Span) {
        self.polls.with_label_values(&[result.name()]).inc();
        self.poll_seconds.observe(took.as_seconds());
    }

    pub(super) fn ingested(&self, brought: &Ingested) {
        let Ingested { new, revised, merged, withdrawn, .. } = brought;
        for (change, count) in [("new", new), ("revised", revised), ("merged", merged), ("withdrawn", withdrawn)] {
            self.events.with_label_values(&[change]).inc_by(*count as u64);
        }
    }

    pub(super) fn dispatched(&self, dispatched: &Dispatched, took: Span) {
        match dispatched {
            Dispatched::Decided { chunk, .. } => {
                self.decision_seconds.observe(took.as_seconds());
                for ((outcome, algorithm), count) in &chunk.tally {
                    let limiter = algorithm.map_or(UNKNOWN, Algorithm::name);
                    self.decisions.with_label_values(&[outcome.name(), limiter]).inc_by(*count);
                }
            }
            Dispatched::Updated { chunk, .. } => {
                for (_, plan) in &chunk.decided {
                    self.updates.with_label_values(&[plan.outcome.name()]).inc();
                }
                let undecided = self.updates.with_label_values(&[UpdateOutcome::Undecided.name()]);
                undecided.inc_by(chunk.undecided.len() as u64);
            }
            // What was decided to wait asks again; it is not decided a second time.
            Dispatched::Unconfirmed { .. } | Dispatched::Asked { .. } | Dispatched::UpdatesAsked { .. } => {}
        }
    }

    pub(super) fn attempted(&self, channel: &Channel, result: Attempt, took: Span) {
        self.attempts.with_label_values(&[kind(channel), result.name()]).inc();
        self.attempt_seconds.with_label_values(&[kind(channel)]).observe(took.as_seconds());
    }

    /// An attempt was still under way at the end of a stop.
    pub(super) fn cut_off(&self, channel: &Channel) {
        self.attempts.with_label_values(&[kind(channel), Attempt::CutOff.name()]).inc();
    }

    /// An alert of one event was received, so long after the event was first seen.
    pub(super) fn received(&self, channel: &Channel, latency: Span) {
        self.latency_seconds.with_label_values(&[kind(channel)]).observe(latency.as_seconds());
    }

    /// So many deliveries were leased, and what became of them nobody wrote.
    pub(super) fn leases_lost(&self, count: usize) {
        self.leases_lost.with_label_values(&[] as &[&str]).inc_by(count as u64);
    }

    pub(super) fn reloaded(&self, applied: bool) {
        self.reloads.with_label_values(&[if applied { "applied" } else { "refused" }]).inc();
    }
}

/// A host's name comes from outside: it is no label.
fn kind(channel: &Channel) -> &'static str {
    if channel.is_email() { "email" } else { "webhook" }
}

/// `throttler_NAME_total`, with a zero for every combination of its labels, so that the first of each counts as an increase.
fn counter(registry: &Registry, (name, help): (&str, &str), labels: &[(&str, &[&'static str])]) -> IntCounterVec {
    let names: Vec<&str> = labels.iter().map(|(name, _)| *name).collect();
    let made = IntCounterVec::new(Opts::new(format!("throttler_{name}_total"), help), &names);
    // Names of metrics and labels are literals of this file: they are valid and differ, or no test of it would pass.
    let counter = made.expect("a valid name");
    registry.register(Box::new(counter.clone())).expect("a name of its own");
    let mut combinations = vec![Vec::new()];
    for (_, values) in labels {
        let with_each = |shorter: &Vec<&'static str>| -> Vec<Vec<&'static str>> {
            values.iter().map(|value| [shorter.as_slice(), &[*value]].concat()).collect()
        };
        combinations = combinations.iter().flat_map(with_each).collect();
    }
    for combination in combinations {
        counter.with_label_values(&combination);
    }
    counter
}

/// `throttler_NAME`.
fn histogram(registry: &Registry, name: &str, help: &str, bounds: &[f64]) -> Histogram {
    let options = HistogramOpts::new(format!("throttler_{name}"), help).buckets(bounds.to_vec());
    // As above: names are literals, and bounds are literals that rise.
    let histogram = Histogram::with_opts(options).expect("a valid name and bounds");
    registry.register(Box::new(histogram.clone())).expect("a name of its own");
    histogram
}

/// `throttler_NAME`, for each channel.
fn histograms(registry: &Registry, name: &str, help: &str, bounds: &[f64], channels: &[&str]) -> HistogramVec {
    let options = HistogramOpts::new(format!("throttler_{name}"), help).buckets(bounds.to_vec());
    // As above.
    let histogram = HistogramVec::new(options, &["channel"]).expect("a valid name and bounds");
    registry.register(Box::new(histogram.clone())).expect("a name of its own");
    for channel in channels {
        histogram.with_label_values(&[*channel]);
    }
    histogram
}

impl Polled {
    const ALL: [Polled; 4] = [Polled::Fresh, Polled::Unchanged, Polled::Failed, Polled::Unrecorded];

    const fn name(self) -> &'static str {
        match self {
            Polled::Fresh => "fresh",
            Polled::Unchanged => "unchanged",
            Polled::Failed => "failed",
            Polled::Unrecorded => "unrecorded",
        }
    }
}

impl Attempt {
    const ALL: [Attempt; 4] = [Attempt::Delivered, Attempt::Transient, Attempt::Permanent, Attempt::CutOff];

    const fn name(self) -> &'static str {
        match self {
            Attempt::Delivered => "delivered",
            Attempt::Transient => "transient",
            Attempt::Permanent => "permanent",
            Attempt::CutOff => "cut-off",
        }
    }
}
