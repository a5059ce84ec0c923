//! `throttler run`: the daemon.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use tracing_subscriber::EnvFilter;

use super::Global;
use super::failure::{Blame, Blamed, Failure};
use super::setup::{Loaded, install_crypto};
use crate::clock::{Clock, FileClock, SystemClock};
use crate::daemon::{Database, GapCloser, IDLE, Ingester, Service, StopSignal, Vanished};
use crate::store::{DaemonLock, Store};
use crate::time::Span;
use crate::web::{Limits, Server, Watching, Web, Work};

/// What the log shows unless `$THROTTLER_LOG` says otherwise.
const DEFAULT_LOG: &str = "throttler=info,warn";
/// Names a file that tells the time instead of the system, for tests that kill this process.
const TEST_CLOCK: &str = "THROTTLER_TEST_CLOCK";
/// How long a stage sleeps at most where a test moves the time.
const TEST_IDLE: Span = Span::from_millis(2);

/// Poll the feed, record events, decide for every subscriber, deliver
#[derive(Args)]
#[command(after_help = "Examples:
  throttler run
  throttler run --config /etc/throttler/throttler.toml
  THROTTLER_LOG=throttler=debug throttler run

Without any configuration it polls the USGS, keeps its state here (or in $STATE_DIRECTORY), and logs what it would send.
With [web] listen it answers /healthz and /readyz there, and the pages on which recipients unsubscribe; for the
operator / is the dashboard, and /what-if and /laboratory are pages to play with.
It stops in order at SIGTERM or SIGINT; a second daemon on the same database refuses to start.")]
pub(super) struct RunArgs {}

pub(super) fn run(global: &Global, _: &RunArgs) -> Result<(), Failure> {
    let directives = std::env::var("THROTTLER_LOG").unwrap_or_else(|_| DEFAULT_LOG.to_owned());
    let filter = EnvFilter::try_new(&directives).map_err(|fault| {
        Failure::usage(format!("$THROTTLER_LOG is '{directives}': {fault}; expected levels like throttler=debug,warn"))
    })?;
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
    install_crypto();
    let loaded = Loaded::read(global)?;
    // Everything that can be wrong with the configuration is found before anything is touched.
    let (url, rules) = (loaded.feed_url()?, loaded.event_rules()?);
    let (clock, idle) = clock()?;
    let (delivery, egress, ledger) = (loaded.delivery(global)?, loaded.egress()?, loaded.ledger()?);
    let operator = loaded.operator()?.map(Arc::new);
    let history = loaded.config.web.listen.map(|_| loaded.history()).transpose()?;
    let path = loaded.database(global);
    let _lock = DaemonLock::acquire(&path)?;
    let store = Store::open(&path)?;
    let feed = loaded.feed(store.last_generated(&url.to_string())?)?;
    let fdsn = loaded.fdsn()?.map(|fdsn| Arc::new(fdsn.impatient()));
    let (gaps, vanished) = (GapCloser::new(loaded.feed_settings(), fdsn.clone()), Vanished::new(fdsn));
    let database = Database::new(store);
    let ingester = Ingester { feed, rules, database: database.clone(), clock: Arc::clone(&clock), gaps, vanished };
    let (poll, stale_after) = (loaded.config.feed.poll, loaded.config.feed.stale_after);
    let service =
        Service { ingester, poll, stale_after, delivery: Arc::new(delivery), egress, ledger, operator, database, clock, idle };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let pages = loaded.config.web.listen.map(|listen| {
        Ok::<_, Failure>((
            listen,
            loaded.unsubscribe_key(global)?,
            loaded.web_access(listen)?,
            Work::new(Store::open_reader(&path)?),
        ))
    });
    let pages = pages.transpose()?;
    runtime.block_on(async {
        let stop = StopSignal::from_process()?;
        let (Some((listen, key, access, work)), Some(history)) = (pages, history) else { return Ok(service.run(stop).await?) };
        let server = Server::bind(listen, Limits::default()).await.map_err(|fault| {
            let at = loaded.at("web.listen");
            anyhow::anyhow!("{at}: cannot listen on {listen}: {fault}")
        });
        let server = server.blame(Blame::Running)?;
        let watch = Watching { feed: url.to_string(), since: service.clock.now(), stale_after };
        let web =
            Web { database: service.database.clone(), clock: Arc::clone(&service.clock), key, watch, access, work, history };
        let serving = tokio::spawn(server.serve(web.routes(), stop.clone()));
        let done = service.run(stop).await;
        if done.is_err() {
            serving.abort();
        }
        // It ends at the same signal; a panic in it is the process's affair no more.
        let _ = serving.await;
        Ok(done?)
    })
}

/// The time, and how long a stage may sleep by it.
fn clock() -> Result<(Arc<dyn Clock>, Span), Failure> {
    let Some(path) = std::env::var_os(TEST_CLOCK) else { return Ok((Arc::new(SystemClock), IDLE)) };
    let path = Path::new(&path);
    let about = |fault| anyhow::anyhow!("${TEST_CLOCK}: cannot read the time from {}: {fault}", path.display());
    let clock = FileClock::open(path).map_err(about).blame(Blame::Usage)?;
    tracing::warn!("the time comes from {}, not from the system: this is a test", path.display());
    Ok((Arc::new(clock), TEST_IDLE))
}
