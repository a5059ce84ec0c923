//! `throttler run`: the daemon.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use tokio::sync::watch;

use super::Global;
use super::failure::{Blame, Blamed, Failure};
use super::log;
use super::setup::{Loaded, install_crypto};
use crate::clock::{Clock, FileClock, SteeredClock, SystemClock};
use crate::config::{OperatorConfig, WebConfig};
use crate::daemon::{Database, Egress, IDLE, Identity, Metrics, Reloading, Reread, STOP_TIMEOUT, Service, StopSignal};
use crate::delivery::UnsubscribeKey;
use crate::limits::DeliveryLimit;
use crate::plain::one_line;
use crate::shared::{SharedError, SharedStore};
use crate::store::{DaemonLock, Location, Store};
use crate::time::Span;
use crate::web::{Limits, Server, Web, Work};

/// Names a file that tells the time instead of the system, for tests that kill this process.
const TEST_CLOCK: &str = "THROTTLER_TEST_CLOCK";
/// How long a stage sleeps at most where a test moves the time.
const TEST_IDLE: Span = Span::from_millis(2);
/// The longest name of a machine, which the system bounds too.
const MAX_HOST_CHARS: usize = 64;
/// How long attempts may take at a stop there.
const TEST_PATIENCE: Span = Span::from_seconds(2);

/// Poll the feed, record events, decide for every subscriber, deliver
#[derive(Args)]
#[command(after_help = "Examples:
  throttler run
  throttler run --config /etc/throttler/throttler.toml
  THROTTLER_LOG=throttler=debug throttler run

Without any configuration it polls the USGS, keeps its state here (or in $STATE_DIRECTORY), and logs what it would send.
With [web] listen it answers /healthz and /readyz there, and the pages on which recipients unsubscribe; for the
operator / is the dashboard, and /what-if and /laboratory are pages to play with.
It stops in order at SIGTERM or SIGINT, and reads its configuration again at SIGHUP.
$THROTTLER_LOG sets the log's levels, also for a target: throttler::daemon::dispatch=debug.
A second daemon on the same database in a file refuses to start. On a PostgreSQL server there may be
any number, each with a state directory of its own: one polls, all decide and deliver.")]
pub(super) struct RunArgs {}

pub(super) fn run(global: &Global, _: &RunArgs) -> Result<(), Failure> {
    log::init()?;
    install_crypto();
    let loaded = Loaded::read(global)?;
    let (test_clock, idle, patience) = clock()?;
    let (ledger, history) = (loaded.ledger()?, loaded.config.web.listen.map(|_| loaded.history()).transpose()?);
    let at = loaded.database(global)?;
    let files = loaded.files(&at);
    // Everything that can be wrong with the configuration is found before the database is touched. With a listener links can
    // be verified, whether new messages have them or not.
    loaded.check_web()?;
    let web = loaded
        .config
        .web
        .listen
        .map(|listen| Ok::<_, Failure>((listen, loaded.unsubscribe_key(global)?, loaded.web_access(listen)?)));
    let web = web.transpose()?;
    let key = web.as_ref().map(|(_, key, _)| key.clone());
    let (web_config, operator_config) = (loaded.config.web.clone(), loaded.config.operator.clone());
    let running = Running { database: at.clone(), web: web_config, operator: operator_config, ledger, key };
    let mut settings = loaded.settings(|| running.key())?;
    let operator = loaded.operator()?.map(Arc::new);
    let lock = DaemonLock::acquire(&files)?;
    let store = Store::open(&at)?;
    // Bringing the schema up to date may take as long as it takes.
    store.bound_statements()?;
    // Daemons on one server share its time, except in tests that have their own.
    let steered = if test_clock.is_none() { store.time()?.map(SteeredClock::at).map(Arc::new) } else { None };
    let clock: Arc<dyn Clock> = match (test_clock, &steered) {
        (Some(clock), _) => clock,
        (None, Some(steered)) => Arc::<SteeredClock>::clone(steered),
        (None, None) => Arc::new(SystemClock),
    };
    for idle in loaded.idle_limits(&settings.sending.egress.limits, &at)? {
        tracing::warn!("{idle}");
    }
    for limit in &settings.sending.egress.limits {
        if let Some(leftover) = limit.leftover() {
            tracing::info!("{} '{}', in an outage: {leftover}", loaded.at("limit"), limit.name);
        }
    }
    settings.polling.feed = loaded.feed(store.last_generated(&settings.polling.feed.url().to_string())?)?;
    let work = history.is_some().then(|| Store::open_reader(&at).map(Work::new)).transpose()?;
    // In a relative place several daemons of a machine may be at different ones.
    let files = std::path::absolute(files)?;
    let identity = Identity { host: host(), database: files, configuration: loaded.path.clone() };
    let watching = watch::Sender::new(settings.polling.watched_since(clock.now()));
    let (database, metrics) = (Database::new(store), Arc::new(Metrics::new()));
    let pages = web.zip(history.zip(work)).map(|((listen, key, access), (history, work))| {
        let (database, clock, watching) = (database.clone(), Arc::clone(&clock), watching.subscribe());
        (listen, Web { database, clock, key, watching, metrics: Arc::clone(&metrics), access, work, history })
    });
    let global = global.clone();
    let reread = move || reread(&global, &running).map_err(|fault| fault.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        if let Egress { store: Some(store), limits, .. } = &settings.sending.egress {
            look_at_store(&loaded, store, limits).await?;
        }
        let (stop, reloading) = (StopSignal::from_process()?, Reloading::from_process(reread)?);
        let service = Service {
            identity,
            settings,
            reloading,
            ledger,
            operator,
            database,
            location: at,
            steered,
            clock,
            idle,
            patience,
            watching,
            metrics,
        };
        let Some((listen, web)) = pages else { return Ok(Box::pin(service.run(stop)).await?) };
        let server = Server::bind(listen, Limits::default()).await.map_err(|fault| {
            let at = loaded.at("web.listen");
            anyhow::anyhow!("{at}: cannot listen on {listen}: {fault}")
        });
        let serving = tokio::spawn(server.blame(Blame::Running)?.serve(web.routes(), stop.clone()));
        let done = Box::pin(service.run(stop)).await;
        if done.is_err() {
            serving.abort();
        }
        // It ends at the same signal; a panic in it is the process's affair no more.
        let _ = serving.await;
        Ok(done?)
    });
    // Held until nothing works on the database any more.
    drop(runtime);
    drop(lock);
    done
}

/// Looks whether the store of shared limits can be used. One that is away is no reason not to start: each limit says what holds then.
async fn look_at_store(loaded: &Loaded, store: &SharedStore, limits: &[DeliveryLimit]) -> Result<(), Failure> {
    let shared = || limits.iter().filter_map(|limit| Some((&limit.name, limit.shared?.outage)));
    match store.check().await {
        Ok(version) => {
            let names: Vec<String> = shared().map(|(name, _)| name.to_string()).collect();
            tracing::info!("limits kept in {}, Redis {version}: {}", store.address(), names.join(", "));
        }
        Err(fault @ (SharedError::Unreachable { .. } | SharedError::Slow { .. })) => {
            let policies: Vec<String> = shared().map(|(name, outage)| format!("{name} {outage}")).collect();
            let fault = loaded.wrong_limit(&format!("store: {fault}"));
            tracing::error!("{fault}; until it is there these hold: {}", policies.join(", "));
        }
        Err(fault) => return Err(loaded.wrong_limit(&format!("store: {fault}"))),
    }
    Ok(())
}

/// What stays as it is while the daemon runs.
struct Running {
    database: Location,
    web: WebConfig,
    operator: OperatorConfig,
    /// How far the ledger reaches back; `None`: for ever.
    ledger: Option<Span>,
    /// With which links are verified.
    key: Option<UnsubscribeKey>,
}

impl Running {
    fn key(&self) -> Result<UnsubscribeKey, Failure> {
        // Links without a listener are refused before anybody asks for their key.
        self.key.clone().ok_or_else(|| Failure::usage("messages cannot have links where nothing listens"))
    }
}

/// The configuration as it is now, as far as a running daemon can take it over.
fn reread(global: &Global, running: &Running) -> Result<Reread, Failure> {
    let mut loaded = Loaded::read(global)?;
    loaded.check_web()?;
    let mut restart = Vec::new();
    if loaded.database(global)? != running.database {
        restart.push("database");
    }
    if loaded.config.web.listen != running.web.listen {
        restart.push("web.listen");
        // The pages that new links lead to are at the old place.
        loaded.config.web = running.web.clone();
    }
    // What the pages are made of is read once.
    for (key, changed) in [
        ("web.token_file", loaded.config.web.token_file != running.web.token_file),
        ("web.catalogue", loaded.config.web.catalogue != running.web.catalogue),
        ("ledger_days", loaded.ledger()? != running.ledger),
    ] {
        if changed {
            restart.push(key);
        }
    }
    loaded.operator()?;
    if loaded.config.operator != running.operator {
        restart.push("operator");
    }
    Ok(Reread { settings: loaded.settings(|| running.key())?, restart })
}

/// What the machine calls itself.
fn host() -> String {
    let told = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let told = one_line(told.trim(), MAX_HOST_CHARS);
    if told.is_empty() { "unknown".to_owned() } else { told }
}

/// A clock, the longest sleep, and the patience at a stop.
type Timing = (Option<Arc<dyn Clock>>, Span, Span);

/// The clock of a test, if this is one, how long a stage may sleep by it, and attempts may take at a stop.
fn clock() -> Result<Timing, Failure> {
    let Some(path) = std::env::var_os(TEST_CLOCK) else { return Ok((None, IDLE, STOP_TIMEOUT)) };
    let path = Path::new(&path);
    let about = |fault| anyhow::anyhow!("${TEST_CLOCK}: cannot read the time from {}: {fault}", path.display());
    let clock = FileClock::open(path).map_err(about).blame(Blame::Usage)?;
    tracing::warn!("the time comes from {}, not from the system: this is a test", path.display());
    Ok((Some(Arc::new(clock)), TEST_IDLE, TEST_PATIENCE))
}
