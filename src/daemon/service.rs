//! The running service: the four stages on their timers and nudges, from start to an orderly stop.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::prune::keep_pruning;
use super::{
    DaemonError, Database, Deliverer, Dispatched, Egress, Ingester, Notifier, Operator, Watched, dispatch, systemd, with_causes,
};
use crate::backoff;
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::freshness::Freshness;
use crate::plan::Release;
use crate::store::{FromBackup, Ingested, Store, StoreError};
use crate::time::{Span, Timestamp};

/// The longest that a stage sleeps: changes by the command line are found within it.
pub const IDLE: Span = Span::from_seconds(5);
/// The pause after the database failed.
const STORE_RETRY: Span = Span::from_seconds(5);
/// The longest pause between polls that fail.
const POLL_RETRY_MAX: Span = Span::from_seconds(1_800);
/// How long attempts under way may take to finish at a stop; what remains is repeated at the next start.
const STOP_TIMEOUT: Span = Span::from_seconds(20);

/// Everything the daemon needs, wired by the command line.
pub struct Service {
    pub ingester: Ingester,
    /// Time between two polls.
    pub poll: Span,
    /// When the feed counts as stale.
    pub stale_after: Span,
    pub delivery: Arc<Delivery>,
    pub egress: Egress,
    /// How far the ledger reaches back; `None`: for ever.
    pub ledger: Option<Span>,
    /// Who is told of the service itself; `None`: the log alone tells.
    pub operator: Option<Arc<Operator>>,
    pub database: Database,
    pub clock: Arc<dyn Clock>,
    /// The longest that a stage sleeps: [`IDLE`], or less where the clock does not go as fast as the system's.
    pub idle: Span,
}

/// Tells the stages to stop.
#[derive(Clone)]
pub struct StopSignal(watch::Receiver<bool>);

impl StopSignal {
    /// A signal that SIGTERM or SIGINT gives.
    ///
    /// # Errors
    /// [`DaemonError::Signals`] if the process cannot listen for them.
    pub fn from_process() -> Result<StopSignal, DaemonError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(DaemonError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(DaemonError::Signals)?;
        let (send, receive) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            // Nobody listens any more only when everything has stopped.
            let _ = send.send(true);
        });
        Ok(StopSignal(receive))
    }

    /// A signal that is given when `true` is sent.
    #[must_use]
    pub fn from_channel(stop: watch::Receiver<bool>) -> StopSignal {
        StopSignal(stop)
    }

    /// Returns when it is time to stop.
    pub async fn stopped(&mut self) {
        // A sender that is gone cannot ask to stop; then nobody else can either.
        if self.0.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Sleeps so long, or until it is time to stop: whether it is not.
    pub(super) async fn sleep(&mut self, span: Span) -> bool {
        tokio::select! {
            () = sleep(span.to_std()) => true,
            () = self.stopped() => false,
        }
    }
}

/// What a stage says of a database that does not work: one line when it begins or changes, one when it is over.
pub(super) struct StoreTrouble {
    /// What does not happen meanwhile.
    stage: &'static str,
    told: Option<String>,
}

impl StoreTrouble {
    pub(super) fn new(stage: &'static str) -> StoreTrouble {
        StoreTrouble { stage, told: None }
    }

    pub(super) fn is(&mut self, fault: &StoreError) {
        let line = with_causes(fault);
        if self.told.as_ref() != Some(&line) {
            tracing::error!("nothing is {} until this is mended: {line}", self.stage);
            self.told = Some(line);
        }
    }

    pub(super) fn is_over(&mut self) {
        if self.told.take().is_some() {
            tracing::info!("the database works again: what was not {} is now", self.stage);
        }
    }
}

/// How the stages wake each other; a timer makes sure where a nudge is lost.
#[derive(Default)]
struct Nudges {
    dispatch: Notify,
    deliver: Notify,
    /// The first poll has ended: before it nothing new is known of the feed.
    notify: Notify,
}

impl Service {
    /// Runs until the signal comes, then lets attempts under way finish.
    ///
    /// # Errors
    /// [`DaemonError::Store`] if the database does not work at the start. Later faults are logged and survived.
    pub async fn run(self, stop: StopSignal) -> Result<(), DaemonError> {
        let Service { ingester, poll, stale_after, delivery, egress, ledger, operator, database, clock, idle } = self;
        if let Some(FromBackup { made_at, may_repeat }) = database.with(Store::begin_from_backup).await? {
            tracing::warn!(
                "this database is a backup made at {made_at}: messages that were due then ({may_repeat}) may be sent a second \
                 time, under the same ids; what was decided after the backup is decided again, under new ones"
            );
        }
        let now = clock.now();
        let watch = Watch { since: now, stale_after, freshness: Freshness::Fresh };
        let recovered = database.with(move |store| store.recover_leases(now)).await?;
        if recovered > 0 {
            tracing::info!("{recovered} deliveries were under way when the daemon last stopped; they are attempted again");
        }
        let ways = operator.as_ref().map_or_else(Vec::new, |operator| operator.ways());
        database.with(move |store| store.drop_notices_without(&ways, now)).await?;
        let nudges = Nudges::default();
        let mut deliverer = Deliverer::with_limits(database.clone(), Arc::clone(&delivery), Arc::clone(&clock), egress);
        let notifier = operator.map(|operator| {
            let watched = Watched { feed: ingester.feed.url().to_string(), since: now, stale_after };
            Notifier { database: database.clone(), clock: Arc::clone(&clock), operator, watched }
        });
        if let Some(notifier) = &notifier {
            deliverer = deliverer.with_operator(Arc::clone(&notifier.operator));
        }
        tracing::info!(feed = %ingester.feed.url(), poll = %poll, "throttler {} runs", env!("CARGO_PKG_VERSION"));
        systemd::ready(&format!("polls {} every {poll}", ingester.feed.url()));
        tokio::join!(
            keep_ingesting(ingester, poll, watch, &nudges, stop.clone()),
            keep_dispatching(&database, &*clock, idle, &nudges, stop.clone()),
            keep_pruning(&database, &*clock, ledger, stop.clone()),
            keep_noticing(notifier, idle, &nudges, stop.clone()),
            keep_delivering(deliverer, &*clock, idle, &nudges, stop),
        );
        delivery.close().await;
        tracing::info!("throttler stopped");
        Ok(())
    }
}

/// Tells of a feed that goes stale, and of its recovery, once each.
struct Watch {
    since: Timestamp,
    stale_after: Span,
    freshness: Freshness,
}

impl Watch {
    async fn look(&mut self, ingester: &Ingester) {
        // A database that fails is told of by whoever needs it.
        let Ok(state) = ingester.state().await else { return };
        let found = state.freshness(self.since, self.stale_after, ingester.clock.now());
        match (self.freshness, found) {
            (Freshness::Fresh, Freshness::Stale { .. }) => tracing::warn!("{found}"),
            (Freshness::Stale { since, .. }, Freshness::Fresh) => {
                tracing::info!("{found} again, for the first time since {since}");
            }
            _ => {}
        }
        self.freshness = found;
    }
}

async fn keep_ingesting(mut ingester: Ingester, poll: Span, mut watch: Watch, nudges: &Nudges, mut stop: StopSignal) {
    let mut failures = 0;
    let mut trouble = StoreTrouble::new("recorded");
    loop {
        let polled = tokio::select! {
            polled = ingester.poll() => polled,
            () = stop.stopped() => return,
        };
        let pause = match polled {
            Ok(brought) => {
                failures = 0;
                trouble.is_over();
                log_ingested(brought);
                nudges.dispatch.notify_one();
                poll
            }
            // The feed is not to blame, and shows the same again.
            Err(DaemonError::Store(fault)) => {
                trouble.is(&fault);
                STORE_RETRY.min(poll)
            }
            Err(fault) => {
                let random = getrandom::u64().unwrap_or(u64::MAX);
                let retry_after = if let DaemonError::Feed(fault) = &fault { fault.retry_after() } else { None };
                failures += 1;
                let pause = backoff::at_least(poll.max(backoff::delay(failures, poll, POLL_RETRY_MAX, random)), retry_after);
                let shown = Span::from_millis(pause.ticks().div_ceil(1_000));
                tracing::error!("{}; the next poll comes in {} s", with_causes(&fault), shown.as_seconds());
                pause
            }
        };
        watch.look(&ingester).await;
        nudges.notify.notify_one();
        if !stop.sleep(pause).await {
            return;
        }
    }
}

fn log_ingested(ingested: Option<Ingested>) {
    match ingested {
        None => tracing::debug!("the feed has not changed"),
        Some(Ingested { new: 0, revised: 0, merged: 0, withdrawn: 0, notes, .. }) if notes.is_empty() => {
            tracing::debug!("nothing new in the feed");
        }
        Some(Ingested { new, revised, merged, withdrawn, to_dispatch, notes }) => {
            tracing::info!(new, revised, merged, withdrawn, to_dispatch, "the feed brought news");
            for note in notes {
                tracing::info!("{note}");
            }
        }
    }
}

async fn keep_dispatching(database: &Database, clock: &dyn Clock, idle: Span, nudges: &Nudges, mut stop: StopSignal) {
    let mut trouble = StoreTrouble::new("decided");
    loop {
        let done = dispatch::all(database, clock, |dispatched| {
            log_dispatched(dispatched);
            nudges.deliver.notify_one();
        });
        // A step under way at a stop ends by itself: it is one transaction on a thread of its own.
        let done = tokio::select! {
            done = done => done,
            () = stop.stopped() => return,
        };
        let next = match done {
            Ok(()) => database.with(|store| store.next_wake()).await,
            Err(fault) => Err(fault),
        };
        let pause = match next {
            Ok(next) => {
                trouble.is_over();
                until(next, clock.now(), idle)
            }
            Err(fault) => {
                trouble.is(&fault);
                STORE_RETRY
            }
        };
        tokio::select! {
            () = sleep(pause.to_std()) => {}
            () = nudges.dispatch.notified() => {}
            () = stop.stopped() => return,
        }
    }
}

fn log_dispatched(dispatched: &Dispatched) {
    match dispatched {
        Dispatched::Decided { event, chunk } => {
            for (subscriber, plan) in &chunk.decided {
                tracing::debug!(event = %event.id, subscriber, "{}: {}", plan.outcome, plan.reason);
            }
            for (subscriber, fault) in &chunk.undecided {
                tracing::error!(event = %event.id, subscriber, "nothing was decided: {fault}");
            }
            let alerted = chunk.decided.iter().filter(|(_, plan)| plan.message.is_some()).count();
            let withheld = chunk.decided.len() - alerted;
            tracing::info!(event = %event.id, alerted, withheld, "decided: {}", event.title());
        }
        Dispatched::Unconfirmed { event } => {
            tracing::warn!(event = %event.id, "not confirmed in time, so told unconfirmed: {}", event.title());
        }
        Dispatched::Asked { subscriber, release: Some(Release::Now { reason, .. }) } => tracing::info!(subscriber, "{reason}"),
        Dispatched::Updated { event, chunk } => {
            for (subscriber, plan) in &chunk.decided {
                tracing::debug!(event = %event.id, subscriber, "update {}: {}", plan.outcome, plan.reason);
            }
            for (subscriber, fault) in &chunk.undecided {
                tracing::error!(event = %event.id, subscriber, "nothing was decided: {fault}");
            }
            if !chunk.decided.is_empty() {
                let sent = chunk.decided.iter().filter(|(_, plan)| plan.message.is_some()).count();
                let withheld = chunk.decided.len() - sent;
                let what = if event.is_withdrawn() { "withdrawn" } else { "updated" };
                tracing::info!(event = %event.id, sent, withheld, "{what}: {}", event.title());
            }
        }
        Dispatched::UpdateAsked { subscriber, plan: Some(plan) } if plan.message.is_some() => {
            tracing::info!(subscriber, "an update that waited is told: {}", plan.reason);
        }
        Dispatched::Asked { .. } | Dispatched::UpdateAsked { .. } => {}
    }
}

async fn keep_noticing(notifier: Option<Notifier>, idle: Span, nudges: &Nudges, mut stop: StopSignal) {
    let Some(notifier) = notifier else { return };
    let mut trouble = StoreTrouble::new("noticed");
    tokio::select! {
        () = nudges.notify.notified() => {}
        () = stop.stopped() => return,
    }
    loop {
        let done = tokio::select! {
            done = notifier.all() => done,
            () = stop.stopped() => return,
        };
        let pause = match done {
            Ok(made) => {
                trouble.is_over();
                if made {
                    nudges.deliver.notify_one();
                }
                idle
            }
            Err(fault) => {
                trouble.is(&fault);
                STORE_RETRY
            }
        };
        tokio::select! {
            () = sleep(pause.to_std()) => {}
            () = nudges.notify.notified() => {}
            () = stop.stopped() => return,
        }
    }
}

async fn keep_delivering(mut deliverer: Deliverer, clock: &dyn Clock, idle: Span, nudges: &Nudges, mut stop: StopSignal) {
    let mut trouble = StoreTrouble::new("delivered");
    loop {
        let pause = match deliverer.turn().await {
            Ok(next) => {
                trouble.is_over();
                // With no room for another attempt there is nothing to start before one ends.
                if deliverer.is_full() { idle } else { until(next, clock.now(), idle) }
            }
            Err(fault) => {
                trouble.is(&fault);
                if stop.sleep(STORE_RETRY).await {
                    continue;
                }
                break;
            }
        };
        tokio::select! {
            () = deliverer.one_ended() => {}
            () = sleep(pause.to_std()) => {}
            () = nudges.deliver.notified() => {}
            () = stop.stopped() => break,
        }
    }
    systemd::stopping();
    match timeout(STOP_TIMEOUT.to_std(), deliverer.finish()).await {
        Ok(Ok(())) => {}
        Ok(Err(fault)) => tracing::error!("receipts are lost, these alerts are sent again: {}", with_causes(&fault)),
        Err(_) => tracing::warn!("attempts were still under way at the stop; they are repeated at the next start"),
    }
}

/// From `now` to `next`, at least a moment and at most `idle`.
fn until(next: Option<Timestamp>, now: Timestamp, idle: Span) -> Span {
    const MOMENT: Span = Span::from_millis(1);
    next.map_or(idle, |next| next.since(now).max(MOMENT).min(idle))
}
