//! The running service: the four stages on their timers and nudges, from start to an orderly stop.

mod dispatching;
mod ingesting;
mod stop;

use std::sync::Arc;

use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;

use self::dispatching::keep_dispatching;
use self::ingesting::{Ingesting, keep_ingesting};
pub use self::stop::StopSignal;

use super::prune::keep_pruning;
use super::pulse::Stage;
use super::settings::{Change, Reloading, Sending, Settings, Watching, keep_reloading};
use super::vitals::{Identity, Vitals};
use super::{DaemonError, Database, Deliverer, Metrics, Notifier, Operator, systemd, with_causes};
use crate::clock::{Clock, SteeredClock, Stopwatch};
use crate::store::{FromBackup, Location, Nudge, Store, StoreError};
use crate::time::{Span, Timestamp};

/// The longest that a stage sleeps: changes by the command line are found within it.
pub const IDLE: Span = Span::from_seconds(5);
/// The longest pause after the database failed.
const STORE_RETRY: Span = Span::from_seconds(5);
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
