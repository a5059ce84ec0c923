//! One event to very many subscribers, then a sequence: how long it takes to decide and commit, until the first message
//! leaves, and what it takes of memory and disk.
//!
//! `cargo run --release --example fan_out -- [SUBSCRIBERS] [EVENTS] [DIRECTORY | postgres://…] [INSTANCES]`
//!
//! By default a million subscribers and a burst of 38 events in an hour. The database lies in a new directory within
//! `DIRECTORY` (default: the temporary one), or on a server, where it is empty and several instances may decide at once. Interests, limiters and destinations vary. The clock of the pipeline is moved by
//! hand; what is measured is the system's.

mod place;
mod receiver;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use throttler::clock::{Clock, ManualClock, SystemClock};
use throttler::daemon::{Database, Deliverer, Dispatched, dispatch};
use throttler::delivery::{Delivery, EmailChannel, WebhookSecret, WebhookSender, WebhookSettings};
use throttler::event::{Coordinates, Event, Magnitude};
use throttler::identity::unlinked::Likeness;
use throttler::interest::{Interest, Radius, Region};
use throttler::limiter::{Algorithm, Limit, Policy};
use throttler::news::{EventRules, FirstRun};
use throttler::store::{Location, Store};
use throttler::subscriber::{Destination, Excess, Mode, Preset, Subscriber, Tags, Updates};
use throttler::time::{Span, Timestamp};

use place::place;
use receiver::{Kind, processor_time, start_receiver};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Subscribers that are added in one transaction.
const BATCH: usize = 10_000;
/// How long after the one before each event of the burst comes, in seconds.
const APART: u64 = 95;
/// The feed that the events are recorded of.
const FEED: &str = "file:///fan-out";

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<usize>());
    let (subscribers, events) = (number(1_000_000)?, number(38)?);
    // The directory is there until the end.
    let (_directory, at) = place(arguments.next())?;
    let instances = arguments.next().map_or(Ok(1), |text| text.parse())?;
    // Only a second installation fails, and then the first one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let received = Arc::new(AtomicU64::new(0));
    let port = start_receiver(Kind::Webhooks, Arc::clone(&received))?;
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    let bench = Bench { at, instances, clock, received };
    bench.fill(subscribers, port)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(bench.run(subscribers, events))
}

struct Bench {
    at: Location,
    /// How many decide at once.
    instances: usize,
    clock: Arc<ManualClock>,
    received: Arc<AtomicU64>,
}

/// What was measured of one piece of work.
struct Watch {
    start: Timestamp,
    processor: f64,
}

impl Watch {
    fn start() -> Result<Watch> {
        Ok(Watch { start: SystemClock.now(), processor: processor_time()? })
    }

    /// Seconds on the wall and of the processor.
    fn read(&self) -> Result<(f64, f64)> {
        let wall = SystemClock.now().since(self.start);
        Ok((wall.ticks() as f64 / 1e6, processor_time()? - self.processor))
    }
}

impl Bench {
    fn fill(&self, subscribers: usize, port: u16) -> Result<()> {
        let mut store = Store::open(&self.at)?;
        store.polls()?;
        store.record(FEED, None, &[], &rules(), self.clock.now())?;
        for first in (0..subscribers).step_by(BATCH) {
            let added: Result<Vec<_>> = (first..(first + BATCH).min(subscribers)).map(|at| subscriber(at, port)).collect();
            store.add_subscribers(&added?, self.clock.now())?;
        }
        drop(store);
        println!("{subscribers} subscribers{}", bytes_each(self.size()?, subscribers as u64));
        Ok(())
    }

    async fn run(&self, subscribers: usize, events: usize) -> Result<()> {
        let watch = Watch::start()?;
        let mut store = Store::open(&self.at)?;
        store.recover_leases(self.clock.now())?;
        store.next_wake()?;
        println!("start, until the stages run: {:.3} s", watch.read()?.0);
        let mut databases = vec![Database::new(store)];
        for _ in 1..self.instances {
            databases.push(Database::new(Store::open(&self.at)?));
        }
        let database = &databases[0];

        let before = self.size()?;
        self.happens(database, 0, 7.8).await?;
        let (watch, decided) = (Watch::start()?, self.decide(&databases).await?);
        let (wall, processor) = watch.read()?;
        println!(
            "one event: {decided} decisions in {wall:.2} s by {} at once, {:.0} a second, {:.2} µs of processor time each{}",
            self.instances,
            decided as f64 / wall,
            processor * 1e6 / decided as f64,
            bytes_each(self.size()? - before, decided)
        );
        self.with_deliveries(&databases).await?;
        self.revised(&databases).await?;
        self.burst(&databases, subscribers, events).await?;
        println!("memory at most: {} MB", peak_memory()? / 1_000);
        Ok(())
    }

    /// Another event, with deliveries beside the decisions: when the first leaves.
    async fn with_deliveries(&self, databases: &[Database]) -> Result<()> {
        self.clock.set(self.clock.now().plus(Span::from_seconds(APART)));
        self.happens(&databases[0], 1, 7.5).await?;
        let mut deliverer = Deliverer::new(databases[0].clone(), Arc::new(delivery()?), Arc::<ManualClock>::clone(&self.clock));
        let watch = Watch::start()?;
        let received = Arc::clone(&self.received);
        let first = tokio::spawn(async move {
            while received.load(Ordering::Relaxed) == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            SystemClock.now()
        });
        let delivering = tokio::spawn(async move {
            // What fails is told by the first message not arriving.
            while deliverer.turn().await.is_ok() {
                tokio::select! {
                    () = deliverer.one_ended() => {}
                    () = tokio::time::sleep(std::time::Duration::from_millis(5)) => {}
                }
            }
        });
        let decided = self.decide(databases).await?;
        let (wall, _) = watch.read()?;
        let sent = self.received.load(Ordering::Relaxed);
        let first = first.await?.since(watch.start);
        delivering.abort();
        // It was told to.
        let _ = delivering.await;
        println!(
            "one event with deliveries beside: the first message arrived after {:.3} s, {decided} decisions took {wall:.2} s, \
             {sent} messages had arrived by then",
            first.ticks() as f64 / 1e6
        );
        Ok(())
    }

    /// The first event grows, and all who were told of it are told again, as far as their limiters let it pass.
    async fn revised(&self, databases: &[Database]) -> Result<()> {
        self.clock.set(self.clock.now().plus(Span::from_seconds(APART)));
        self.happens(&databases[0], 0, 8.5).await?;
        let (mut told, watch) = (0, Watch::start()?);
        // One daemon tells of a version at a time.
        dispatch::all(&databases[0], &self.clock, |step| {
            if let Dispatched::Updated { chunk, .. } = step {
                told += chunk.decided.len() as u64;
            }
        })
        .await?;
        let (wall, _) = watch.read()?;
        println!("an update of it: {told} decisions in {wall:.2} s, {:.0} a second", told as f64 / wall);
        Ok(())
    }

    /// A burst of events within an hour, without deliveries.
    async fn burst(&self, databases: &[Database], subscribers: usize, events: usize) -> Result<()> {
        let (before, watch) = (self.size()?, Watch::start()?);
        let (mut decided, mut slowest) = (0, 0.0_f64);
        for at in 0..events {
            self.clock.set(self.clock.now().plus(Span::from_seconds(APART)));
            // Mostly small ones, as after a great earthquake.
            let magnitude = [5.0, 5.2, 5.0, 5.4, 5.1, 6.2, 5.3, 5.6][at % 8];
            self.happens(&databases[0], at + 2, magnitude).await?;
            let watch = Watch::start()?;
            decided += self.decide(databases).await?;
            slowest = slowest.max(watch.read()?.0);
        }
        let (wall, processor) = watch.read()?;
        println!(
            "{events} events to {subscribers} subscribers: {decided} decisions in {wall:.1} s, the slowest event {slowest:.2} s, \
             {:.0} a second, {:.2} µs of processor time each{}",
            decided as f64 / wall,
            processor * 1e6 / decided.max(1) as f64,
            bytes_each(self.size()? - before, decided)
        );
        Ok(())
    }

    async fn happens(&self, database: &Database, at: usize, magnitude: f64) -> Result<()> {
        let now = self.clock.now();
        let event: Event = serde_json::from_value(serde_json::json!({
            "id": format!("us{at}"), "ids": [format!("us{at}")], "origin_at": now, "updated_at": now, "magnitude": magnitude,
            "magnitude_type": "mww", "place": "98 km E of Severo-Kuril'sk, Russia",
            "coordinates": { "latitude": 52.5 + at as f64 / 10.0, "longitude": 160.3 }, "depth_km": 20.0, "kind": "earthquake",
            "status": "automatic", "tsunami": false, "pager": null,
            "url": format!("https://earthquake.usgs.gov/earthquakes/eventpage/us{at}"),
        }))?;
        let record = move |store: &mut Store| store.polls().and_then(|_| store.record(FEED, None, &[event], &rules(), now));
        database.with(record).await?;
        Ok(())
    }

    /// Decides what is to be decided, by all instances at once: for how many subscribers.
    async fn decide(&self, databases: &[Database]) -> Result<u64> {
        let deciding: Vec<_> = databases.iter().cloned().map(|database| decide(database, Arc::clone(&self.clock))).collect();
        let deciding: Vec<_> = deciding.into_iter().map(tokio::spawn).collect();
        let mut decided = 0;
        for deciding in deciding {
            decided += deciding.await??;
        }
        Ok(decided)
    }

    /// The database with its log; nothing for a server's.
    fn size(&self) -> Result<u64> {
        let Location::File(path) = &self.at else { return Ok(0) };
        let log = std::fs::metadata(format!("{}-wal", path.display())).map_or(0, |about| about.len());
        Ok(std::fs::metadata(path)?.len() + log)
    }
}

async fn decide(database: Database, clock: Arc<ManualClock>) -> Result<u64> {
    let mut decided = 0;
    dispatch::all(&database, &clock, |step| {
        if let Dispatched::Decided { chunk, .. } = step {
            decided += chunk.decided.len() as u64;
        }
    })
    .await?;
    Ok(decided)
}

fn bytes_each(grown: u64, count: u64) -> String {
    match grown {
        0 => String::new(),
        _ => format!(", {} MB, {} bytes each", grown / 1_000_000, grown / count.max(1)),
    }
}

/// The most memory that this process had, in kilobytes.
fn peak_memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn rules() -> EventRules {
    EventRules {
        min_magnitude: Interest::default().min_magnitude,
        max_age: Span::from_seconds(86_400),
        first_run: FirstRun::Baseline,
        likeness: Likeness::default(),
        confirm: None,
    }
}

/// Nine of ten want what is large enough, the tenth what is near; half get email, half webhooks at a thousand hosts of which
/// only this machine answers.
fn subscriber(at: usize, port: u16) -> Result<(Subscriber, Option<String>)> {
    let hooked = at.is_multiple_of(2);
    let destination = if hooked {
        Destination::Webhook(format!("http://127.0.0.1:{port}/hook/{at}").parse()?)
    } else {
        Destination::Email(format!("s{at}@example.org").parse()?)
    };
    let secret = if hooked { Some(WebhookSecret::generate()?.expose()) } else { None };
    let magnitude = [5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.2, 5.5, 6.0, 5.0][at % 10];
    let near = at % 10 == 9;
    let kamchatka = Region::Near { coordinates: Coordinates::new(53.0, 158.6)?, within_km: Radius::new(1_000.0)? };
    let region = near.then_some(kamchatka);
    let algorithm = Algorithm::ALL[at % Algorithm::ALL.len()];
    let bucket = matches!(algorithm, Algorithm::TokenBucket | Algorithm::LeakyBucket).then_some(74);
    let subscriber = Subscriber {
        name: format!("s{at}").parse()?,
        destination,
        interest: Interest { min_magnitude: Magnitude::new(magnitude)?, region, ..Interest::default() },
        policy: Policy::plain(Limit::new(algorithm, "5/h".parse()?, bucket)?),
        excess: [Excess::Digest, Excess::Delay, Excess::Drop][at / 10 % 3],
        mode: Mode::Enforce,
        quiet: None,
        tags: Tags::default(),
        updates: Updates::default(),
        preset: Preset::default(),
    };
    Ok((subscriber, secret))
}

fn delivery() -> Result<Delivery> {
    let webhook = WebhookSettings { allow_private: true, ..WebhookSettings::default() };
    Ok(Delivery { email: EmailChannel::Log, webhook: WebhookSender::new(webhook)?, links: None })
}
