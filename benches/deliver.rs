//! How many messages a second leave the outbox: claimed, signed or composed, sent over loopback to a receiver in the same
//! process, and their receipts written durably.
//!
//! `cargo run --release --example deliver -- webhooks|emails COUNT [DIRECTORY | postgres://…] [INSTANCES]`
//!
//! The database lies in a new directory within `DIRECTORY` (default: the temporary one), or on a server, where it is empty and
//! several instances may deliver at once. The receiver runs on a thread of its
//! own and does as little as its protocol lets it. It ends when all is delivered.

mod place;
mod receiver;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use throttler::clock::{Clock, SystemClock};
use throttler::daemon::{Database, Deliverer, GapCloser, Ingester, Vanished, dispatch};
use throttler::delivery::{Delivery, EmailChannel, EmailSender, EmailSettings, WebhookSecret, WebhookSender, WebhookSettings};
use throttler::feed::{Feed, Settings};
use throttler::identity::unlinked::Likeness;
use throttler::interest::Interest;
use throttler::limiter::{Algorithm, Limit, Policy};
use throttler::news::{EventRules, FirstRun};
use throttler::store::Store;
use throttler::subscriber::{Destination, Excess, Mode, Preset, Subscriber, Tags, Updates};
use throttler::time::Span;
use tokio::task::JoinSet;

use place::place;
use receiver::{Kind, processor_time, start_receiver};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Subscribers that are added in one transaction.
const BATCH: usize = 10_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let kind = match arguments.next().as_deref() {
        Some("webhooks") => Kind::Webhooks,
        Some("emails") => Kind::Emails,
        _ => return Err("expected: deliver webhooks|emails COUNT [DIRECTORY | postgres://…] [INSTANCES]".into()),
    };
    let count: usize = arguments.next().ok_or("expected a COUNT")?.parse()?;
    let (directory, at) = place(arguments.next())?;
    let instances: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    // Only a second installation fails, and then the first one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let databases: Result<Vec<_>> = (0..instances).map(|_| Ok(Database::new(Store::open(&at)?))).collect();
    let received = Arc::new(AtomicU64::new(0));
    let port = start_receiver(kind, Arc::clone(&received))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(kind, count, directory.path(), &databases?, port, &received))
}

async fn measure(
    kind: Kind,
    count: usize,
    directory: &Path,
    databases: &[Database],
    port: u16,
    received: &AtomicU64,
) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let database = databases.first().ok_or("expected an instance")?;
    fill(kind, count, directory, port, database, &clock).await?;
    let mut delivering = JoinSet::new();
    let (start, processor) = (clock.now(), processor_time()?);
    for database in databases {
        let mut deliverer = Deliverer::new(database.clone(), Arc::new(delivery(port)?), Arc::clone(&clock));
        delivering.spawn(async move { deliverer.all().await });
    }
    while let Some(ended) = delivering.join_next().await {
        ended??;
    }
    let elapsed = clock.now().since(start).as_seconds();
    let processor = processor_time()? - processor;
    let arrived = received.load(Ordering::Relaxed);
    let receipts = database.with(|store| store.count_outbox(throttler::store::DeliveryStatus::Delivered, None)).await?;
    println!(
        "{arrived} arrived, {receipts} receipts in {elapsed:.2} s by {} at once: {:.0} a second; {:.0} µs of processor time each",
        databases.len(),
        receipts as f64 / elapsed,
        processor * 1e6 / receipts as f64
    );
    if receipts == count as u64 && arrived == receipts { Ok(()) } else { Err("not all were delivered once".into()) }
}

/// One event decided for so many subscribers.
async fn fill(kind: Kind, count: usize, directory: &Path, port: u16, database: &Database, clock: &Arc<dyn Clock>) -> Result<()> {
    let feed = directory.join("feed.geojson");
    let now = clock.now();
    let show = |features: &str| {
        let generated = clock.now().millis();
        std::fs::write(
            &feed,
            format!(
                r#"{{"type":"FeatureCollection","metadata":{{"generated":{generated},"status":200}},"features":[{features}]}}"#
            ),
        )
    };
    let url: throttler::feed::FeedUrl = format!("file://{}", feed.display()).parse()?;
    let rules = EventRules {
        min_magnitude: Interest::default().min_magnitude,
        max_age: Span::from_seconds(86_400),
        first_run: FirstRun::Baseline,
        likeness: Likeness::default(),
        confirm: None,
    };
    let feed = Feed::new(url, &Settings::default())?;
    let mut ingester = Ingester {
        feed,
        rules,
        database: database.clone(),
        clock: Arc::clone(clock),
        gaps: GapCloser::default(),
        vanished: Vanished::default(),
    };
    show("")?;
    ingester.poll().await?;
    for first in (0..count).step_by(BATCH) {
        let added: Result<Vec<_>> = (first..(first + BATCH).min(count)).map(|at| subscriber(kind, at, port)).collect();
        let added = added?;
        database.with(move |store| store.add_subscribers(&added, now)).await?;
    }
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let time = clock.now().millis();
    show(&format!(
        r#"{{"type":"Feature","id":"us1","properties":{{"mag":6.5,"place":"98 km E of Severo-Kuril'sk, Russia","time":{time},"updated":{time},"ids":",us1,","status":"automatic","type":"earthquake","tsunami":0,"alert":null,"magType":"mww"}},"geometry":{{"type":"Point","coordinates":[160.3,52.5,20.0]}}}}"#
    ))?;
    ingester.poll().await?;
    let start = clock.now();
    dispatch::all(database, clock, |_| {}).await?;
    println!("decided for {count} subscribers in {:.2} s", clock.now().since(start).as_seconds());
    Ok(())
}

fn subscriber(kind: Kind, at: usize, port: u16) -> Result<(Subscriber, Option<String>)> {
    let (destination, secret) = match kind {
        Kind::Webhooks => (
            Destination::Webhook(format!("http://127.0.0.1:{port}/hook/{at}").parse()?),
            Some(WebhookSecret::generate()?.expose()),
        ),
        Kind::Emails => (Destination::Email(format!("s{at}@example.org").parse()?), None),
    };
    let subscriber = Subscriber {
        name: format!("s{at}").parse()?,
        destination,
        interest: Interest::default(),
        policy: Policy::plain(Limit::new(Algorithm::TokenBucket, "5/h".parse()?, Some(74))?),
        excess: Excess::Digest,
        mode: Mode::Enforce,
        quiet: None,
        tags: Tags::default(),
        updates: Updates::default(),
        preset: Preset::default(),
    };
    Ok((subscriber, secret))
}

fn delivery(port: u16) -> Result<Delivery> {
    let smtp = format!("smtp://127.0.0.1:{port}").parse()?;
    let email = EmailSettings::new("Alerts <alerts@example.org>".parse()?, smtp);
    let webhook = WebhookSettings { allow_private: true, ..WebhookSettings::default() };
    Ok(Delivery {
        email: EmailChannel::Sender(Box::new(EmailSender::new(&email)?)),
        webhook: WebhookSender::new(webhook)?,
        links: None,
    })
}
