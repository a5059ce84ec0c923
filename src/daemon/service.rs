//! The running service: the four stages on their timers and nudges, from start to an orderly stop.

use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};

use super::metrics::Polled;
use super::prune::keep_pruning;
use super::pulse::{MAX_POLL, Stage};
use super::settings::{Change, Polling, Reloading, Sending, Settings, Watching, keep_reloading};
use super::vitals::{Identity, Vitals};
use super::{
    DaemonError, Database, Deliverer, Dispatched, Ingester, Metrics, Notifier, Operator, dispatch, systemd, with_causes,
};
use crate::backoff;
use crate::clock::{Clock, SteeredClock, Stopwatch};
use crate::freshness::Freshness;
use crate::plan::Release;
use crate::store::{FromBackup, Ingested, Location, Nudge, Store, StoreError};
use crate::time::{Span, Timestamp};

/// The longest that a stage sleeps: changes by the command line are found within it.
pub const IDLE: Span = Span::from_seconds(5);
/// The longest pause after the database failed.
const STORE_RETRY: Span = Span::from_seconds(5);
/// The longest pause between polls that fail.
const POLL_RETRY_MAX: Span = Span::from_seconds(1_800);
/// Under which targets the stages log what they did: those of their own rooms.
const INGEST: &str = "throttler::daemon::ingest";
const DISPATCH: &str = "throttler::daemon::dispatch";
/// How long attempts under way may take to finish at a stop; what remains is handed back, and repeated at the next start.
pub const STOP_TIMEOUT: Span = Span::from_seconds(20);

/// Everything the daemon needs, wired by the command line.
pub struct Service {
    pub identity: Identity,
    pub settings: Settings,
    pub reloading: Reloading,
    /// How far the ledger reaches back; `None`: for ever.
    pub ledger: Option<Span>,
    /// Who is told of the service itself; `None`: the log alone tells.
    pub operator: Option<Arc<Operator>>,
    pub database: Database,
    pub clock: Arc<dyn Clock>,
    /// Where the database is.
    pub location: Location,
    /// The clock that follows the server's, where there is one and it tells the time.
    pub steered: Option<Arc<SteeredClock>>,
    /// The longest that a stage sleeps: [`IDLE`], or less where the clock does not go as fast as the system's.
    pub idle: Span,
    /// How long attempts under way may take to finish at a stop: [`STOP_TIMEOUT`], or less likewise.
    pub patience: Span,
    /// Which feed is watched; it is told of another.
    pub watching: watch::Sender<Watching>,
    pub metrics: Arc<Metrics>,
}

/// What the stages share.
pub(super) struct Shared {
    pub database: Database,
    pub clock: Arc<dyn Clock>,
    pub vitals: Vitals,
    pub metrics: Arc<Metrics>,
    idle: Span,
    patience: Span,
    nudges: Arc<Nudges>,
}

impl Shared {
    /// The pause after the database failed.
    fn retry(&self) -> Span {
        STORE_RETRY.min(self.idle)
    }
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

    /// What does not happen, and why, while it lasts.
    fn lasting(&self) -> (&'static str, Option<String>) {
        (self.stage, self.told.clone())
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
        let Service {
            identity,
            settings,
            reloading,
            ledger,
            operator,
            database,
            location,
            steered,
            clock,
            idle,
            patience,
            watching,
            metrics,
        } = self;
        prepare(&database, operator.as_deref(), &metrics, clock.now()).await?;
        let stages = if operator.is_some() { &Stage::ALL[..] } else { &Stage::WITHOUT_NOTICES };
        let vitals =
            Vitals::new(identity, stages, database.clone(), Arc::clone(&clock), watching.subscribe(), Arc::clone(&metrics));
        // Where signs of life are wanted more often than stages wake up, they wake up more often.
        let idle = systemd::watchdog().map_or(idle, |within| idle.min(Span::from_ticks(within.ticks() / 4)));
        let nudges = Arc::<Nudges>::default();
        let others = Arc::clone(&nudges);
        let _listening = Store::listen(&location, move |nudge| match nudge {
            Nudge::Dispatch => others.dispatch.notify_one(),
            Nudge::Deliver => others.deliver.notify_one(),
        });
        let shared = Shared { database: database.clone(), clock: Arc::clone(&clock), vitals, metrics, idle, patience, nudges };
        let Settings { polling, sending } = settings;
        let deliverer = Deliverer::with_limits(database.clone(), sending.delivery, Arc::clone(&clock), sending.egress);
        let mut deliverer = deliverer.counting(Arc::clone(&shared.metrics));
        let notifier = operator.map(|operator| {
            let (database, clock, watching) = (database.clone(), Arc::clone(&clock), watching.subscribe());
            Notifier { database, clock, operator, watching }
        });
        if let Some(notifier) = &notifier {
            deliverer = deliverer.with_operator(Arc::clone(&notifier.operator));
        }
        let ingesting = Ingesting::new(polling, database, clock, watching);
        let (feed, poll) = (ingesting.ingester.feed.url().clone(), ingesting.poll);
        tracing::info!(%feed, %poll, "throttler {} runs", env!("CARGO_PKG_VERSION"));
        shared.vitals.ready(format!("polls {feed} every {poll}")).await;
        let (to_ingest, polling) = mpsc::channel(1);
        let (to_deliver, sending) = mpsc::channel(1);
        tokio::join!(
            keep_ingesting(&shared, ingesting, polling, stop.clone()),
            keep_dispatching(&shared, stop.clone()),
            keep_time(&shared, steered, stop.clone()),
            keep_pruning(&shared.database, &*shared.clock, ledger, stop.clone()),
            keep_noticing(&shared, notifier, stop.clone()),
            keep_delivering(&shared, deliverer, sending, stop.clone()),
            keep_reloading(&shared, reloading, (to_ingest, to_deliver), stop),
        );
        shared.vitals.stopped().await;
        tracing::info!("throttler stopped");
        Ok(())
    }
}

/// Keeps the clock at the server's time, so that daemons on machines whose clocks differ share one.
async fn keep_time(shared: &Shared, steered: Option<Arc<SteeredClock>>, mut stop: StopSignal) {
    let Some(steered) = steered else { return };
    while stop.sleep(shared.idle).await {
        let asked = shared.database.with(|store| Ok((store.time()?, Stopwatch::start()))).await;
        // A server that fails is told of by whoever needs it; the clock goes on meanwhile.
        if let Ok((Some(at), since)) = asked {
            steered.steer(at, since);
        }
    }
}

/// What is to be done before anything runs: after a restored backup, a daemon that was killed, another operator.
async fn prepare(database: &Database, operator: Option<&Operator>, metrics: &Metrics, now: Timestamp) -> Result<(), StoreError> {
    if let Some(FromBackup { made_at, may_repeat }) = database.with(Store::begin_from_backup).await? {
        tracing::warn!(
            "this database is a backup made at {made_at}: messages that were due then ({may_repeat}) may be sent a second \
             time, under the same ids; what was decided after the backup is decided again, under new ones"
        );
    }
    let recovered = database.with(move |store| store.recover_leases(now)).await?;
    if recovered > 0 {
        metrics.leases_lost(recovered);
        tracing::info!("{recovered} deliveries were under way when the daemon last stopped; they are attempted again");
    }
    let ways = operator.map_or_else(Vec::new, Operator::ways);
    database.with(move |store| store.drop_notices_without(&ways, now)).await?;
    Ok(())
}

/// Tells of a feed that goes stale, and of its recovery, once each.
struct Watch {
    watching: watch::Sender<Watching>,
    freshness: Freshness,
}

impl Watch {
    async fn look(&mut self, ingester: &Ingester) {
        // A database that fails is told of by whoever needs it.
        let Ok(state) = ingester.state().await else { return };
        let (since, stale_after) = {
            let watching = self.watching.borrow();
            (watching.since, watching.stale_after)
        };
        let found = state.freshness(since, stale_after, ingester.clock.now());
        match (self.freshness, found) {
            (Freshness::Fresh, Freshness::Stale { .. }) => tracing::warn!(target: INGEST, "{found}"),
            (Freshness::Stale { since, .. }, Freshness::Fresh) => {
                tracing::info!(target: INGEST, "{found} again, for the first time since {since}");
            }
            _ => {}
        }
        self.freshness = found;
    }
}

/// The first stage, and when it polls.
struct Ingesting {
    ingester: Ingester,
    poll: Span,
    watch: Watch,
    /// Polls in a row that failed.
    failures: u32,
    trouble: StoreTrouble,
}

impl Ingesting {
    fn new(polling: Polling, database: Database, clock: Arc<dyn Clock>, watching: watch::Sender<Watching>) -> Ingesting {
        let Polling { feed, rules, gaps, vanished, poll, .. } = polling;
        Ingesting {
            ingester: Ingester { feed, rules, database, clock, gaps, vanished },
            poll,
            watch: Watch { watching, freshness: Freshness::Fresh },
            failures: 0,
            trouble: StoreTrouble::new("recorded"),
        }
    }

    /// Takes over other settings: how much of a pause is left under them. Another feed is polled at once.
    fn take_over(&mut self, polling: Polling, left: Span) -> Span {
        self.poll = polling.poll;
        let watched = polling.watched_since(self.ingester.clock.now());
        let is_other = self.ingester.take_over(polling);
        self.watch.watching.send_modify(|watching| {
            let since = if is_other { watched.since } else { watching.since };
            *watching = Watching { since, ..watched };
        });
        if is_other {
            (self.failures, self.watch.freshness) = (0, Freshness::Fresh);
            return Span::ZERO;
        }
        left.min(self.poll)
    }

    /// What a poll brought, told and counted: how long to wait for the next.
    fn pause_after(&mut self, polled: Result<Option<Ingested>, DaemonError>, took: Span, shared: &Shared) -> Span {
        match polled {
            Ok(brought) => {
                self.failures = 0;
                self.trouble.is_over();
                shared.metrics.polled(if brought.is_some() { Polled::Fresh } else { Polled::Unchanged }, took);
                if let Some(brought) = &brought {
                    shared.metrics.ingested(brought);
                }
                log_ingested(brought);
                shared.nudges.dispatch.notify_one();
                self.poll
            }
            Err(DaemonError::PollsElsewhere) => {
                self.failures = 0;
                self.trouble.is_over();
                tracing::debug!(target: INGEST, "another daemon polls");
                self.poll
            }
            // The feed is not to blame, and shows the same again.
            Err(DaemonError::Store(fault)) => {
                shared.metrics.polled(Polled::Unrecorded, took);
                self.trouble.is(&fault);
                STORE_RETRY.min(self.poll)
            }
            Err(fault) => {
                shared.metrics.polled(Polled::Failed, took);
                let random = getrandom::u64().unwrap_or(u64::MAX);
                let retry_after = if let DaemonError::Feed(fault) = &fault { fault.retry_after() } else { None };
                self.failures += 1;
                let delay = backoff::delay(self.failures, self.poll, POLL_RETRY_MAX, random);
                let pause = backoff::at_least(self.poll.max(delay), retry_after);
                let shown = Span::from_millis(pause.ticks().div_ceil(1_000));
                tracing::error!(target: INGEST, "{}; the next poll comes in {} s", with_causes(&fault), shown.as_seconds());
                pause
            }
        }
    }
}

async fn keep_ingesting(
    shared: &Shared,
    mut ingesting: Ingesting,
    mut changes: mpsc::Receiver<Change<Polling>>,
    mut stop: StopSignal,
) {
    loop {
        shared.vitals.turn(Stage::Ingest).await;
        let since_start = Stopwatch::start();
        let polled = tokio::select! {
            polled = timeout(MAX_POLL.to_std(), ingesting.ingester.poll()) => polled.unwrap_or(Err(DaemonError::Slow(MAX_POLL))),
            () = stop.stopped() => return,
        };
        let mut left = ingesting.pause_after(polled, since_start.elapsed(), shared);
        shared.vitals.trouble(ingesting.trouble.lasting());
        ingesting.watch.look(&ingesting.ingester).await;
        shared.nudges.notify.notify_one();
        while left > Span::ZERO {
            shared.vitals.turn(Stage::Ingest).await;
            let slice = left.min(shared.idle);
            tokio::select! {
                () = sleep(slice.to_std()) => left = Span::from_ticks(left.ticks() - slice.ticks()),
                Some((polling, taken)) = changes.recv() => {
                    left = ingesting.take_over(polling, left);
                    // Whoever handed it over stops if nobody waits any more.
                    let _ = taken.send(());
                }
                () = stop.stopped() => return,
            }
        }
    }
}

fn log_ingested(ingested: Option<Ingested>) {
    match ingested {
        None => tracing::debug!(target: INGEST, "the feed has not changed"),
        Some(Ingested { new: 0, revised: 0, merged: 0, withdrawn: 0, notes, .. }) if notes.is_empty() => {
            tracing::debug!(target: INGEST, "nothing new in the feed");
        }
        Some(Ingested { new, revised, merged, withdrawn, to_dispatch, notes }) => {
            tracing::info!(target: INGEST, new, revised, merged, withdrawn, to_dispatch, "the feed brought news");
            for note in notes {
                tracing::info!(target: INGEST, "{note}");
            }
        }
    }
}

async fn keep_dispatching(shared: &Shared, mut stop: StopSignal) {
    let mut trouble = StoreTrouble::new("decided");
    loop {
        shared.vitals.turn(Stage::Dispatch).await;
        let mut since_step = Stopwatch::start();
        let done = dispatch::all(&shared.database, &shared.clock, |dispatched| {
            shared.vitals.mark(Stage::Dispatch);
            shared.metrics.dispatched(dispatched, since_step.elapsed());
            log_dispatched(dispatched);
            shared.nudges.deliver.notify_one();
            since_step = Stopwatch::start();
        });
        // A step under way at a stop ends by itself: it is one transaction on a thread of its own.
        let done = tokio::select! {
            done = done => done,
            () = stop.stopped() => return,
        };
        let next = match done {
            Ok(()) => shared.database.with(|store| store.next_wake()).await,
            Err(fault) => Err(fault),
        };
        let pause = match next {
            Ok(next) => {
                trouble.is_over();
                until(next, shared.clock.now(), shared.idle)
            }
            Err(fault) => {
                trouble.is(&fault);
                shared.retry()
            }
        };
        shared.vitals.trouble(trouble.lasting());
        tokio::select! {
            () = sleep(pause.to_std()) => {}
            () = shared.nudges.dispatch.notified() => {}
            () = stop.stopped() => return,
        }
    }
}

fn log_dispatched(dispatched: &Dispatched) {
    match dispatched {
        Dispatched::Decided { event, chunk } => {
            for (subscriber, plan) in &chunk.decided {
                tracing::debug!(target: DISPATCH, event = %event.id, subscriber, "{}: {}", plan.outcome, plan.reason);
            }
            for (subscriber, fault) in &chunk.undecided {
                tracing::error!(target: DISPATCH, event = %event.id, subscriber, "nothing was decided: {fault}");
            }
            let alerted = chunk.decided.iter().filter(|(_, plan)| plan.message.is_some()).count();
            let withheld = chunk.decided.len() - alerted;
            tracing::info!(target: DISPATCH, event = %event.id, alerted, withheld, "decided: {}", event.title());
        }
        Dispatched::Unconfirmed { event } => {
            tracing::warn!(target: DISPATCH, event = %event.id, "not confirmed in time, so told unconfirmed: {}", event.title());
        }
        Dispatched::Asked { asked } => {
            for (subscriber, release) in asked {
                if let Release::Now { reason, .. } = release {
                    tracing::info!(target: DISPATCH, subscriber, "{reason}");
                }
            }
        }
        Dispatched::Updated { event, chunk } => {
            for (subscriber, plan) in &chunk.decided {
                tracing::debug!(target: DISPATCH, event = %event.id, subscriber, "update {}: {}", plan.outcome, plan.reason);
            }
            for (subscriber, fault) in &chunk.undecided {
                tracing::error!(target: DISPATCH, event = %event.id, subscriber, "nothing was decided: {fault}");
            }
            if !chunk.decided.is_empty() {
                let sent = chunk.decided.iter().filter(|(_, plan)| plan.message.is_some()).count();
                let withheld = chunk.decided.len() - sent;
                let what = if event.is_withdrawn() { "withdrawn" } else { "updated" };
                tracing::info!(target: DISPATCH, event = %event.id, sent, withheld, "{what}: {}", event.title());
            }
        }
        Dispatched::UpdatesAsked { asked } => {
            for (subscriber, plan) in asked {
                if let Some(plan) = plan.as_ref().filter(|plan| plan.message.is_some()) {
                    tracing::info!(target: DISPATCH, subscriber, "an update that waited is told: {}", plan.reason);
                }
            }
        }
    }
}

async fn keep_noticing(shared: &Shared, notifier: Option<Notifier>, mut stop: StopSignal) {
    let Some(notifier) = notifier else { return };
    let mut trouble = StoreTrouble::new("noticed");
    // Before the first poll has ended nothing new is known of the feed.
    let mut has_polled = false;
    loop {
        shared.vitals.turn(Stage::Notify).await;
        let mut pause = shared.idle;
        if has_polled {
            let done = tokio::select! {
                done = notifier.all() => done,
                () = stop.stopped() => return,
            };
            match done {
                Ok(made) => {
                    trouble.is_over();
                    if made {
                        shared.nudges.deliver.notify_one();
                    }
                }
                Err(fault) => {
                    trouble.is(&fault);
                    pause = shared.retry();
                }
            }
            shared.vitals.trouble(trouble.lasting());
        }
        tokio::select! {
            () = sleep(pause.to_std()) => {}
            () = shared.nudges.notify.notified() => has_polled = true,
            () = stop.stopped() => return,
        }
    }
}

async fn keep_delivering(
    shared: &Shared,
    mut deliverer: Deliverer,
    mut changes: mpsc::Receiver<Change<Sending>>,
    mut stop: StopSignal,
) {
    let mut trouble = StoreTrouble::new("delivered");
    loop {
        shared.vitals.turn(Stage::Deliver).await;
        let turn = deliverer.turn().await;
        let works = turn.is_ok();
        let pause = match turn {
            Ok(next) => {
                trouble.is_over();
                // With no room for another attempt there is nothing to start before one ends.
                if deliverer.is_full() { shared.idle } else { until(next, shared.clock.now(), shared.idle) }
            }
            Err(fault) => {
                trouble.is(&fault);
                shared.retry()
            }
        };
        shared.vitals.trouble(trouble.lasting());
        tokio::select! {
            // What ended cannot be written while the database fails: it waits.
            () = deliverer.one_ended(), if works => {}
            () = sleep(pause.to_std()) => {}
            () = shared.nudges.deliver.notified(), if works => {}
            Some((sending, taken)) = changes.recv() => {
                deliverer.take_over(sending);
                // As above.
                let _ = taken.send(());
            }
            () = stop.stopped() => break,
        }
    }
    shared.vitals.stopping(deliverer.under_way());
    match deliverer.finish(shared.patience).await {
        Ok(0) => {}
        Ok(cut_off) => {
            tracing::warn!("{cut_off} attempts were still under way and are handed back: the next start repeats them at once");
        }
        Err(fault) => tracing::error!("receipts are lost, these alerts are sent again: {}", with_causes(&fault)),
    }
    deliverer.close().await;
}

/// From `now` to `next`, at least a moment and at most `idle`.
fn until(next: Option<Timestamp>, now: Timestamp, idle: Span) -> Span {
    const MOMENT: Span = Span::from_millis(1);
    next.map_or(idle, |next| next.since(now).max(MOMENT).min(idle))
}
