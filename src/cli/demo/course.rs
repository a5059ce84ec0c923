//! The course of the demonstration: the clock goes from event to event and from one wake-up to the next, and at each stop
//! the stages of the daemon do what is due.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::report;
use super::server::{Received, Server};
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::clock::{Clock, ManualClock};
use crate::daemon::{Database, Deliverer, GapCloser, Ingester, Vanished, dispatch};
use crate::delivery::{
    Delivery, EmailChannel, EmailSender, EmailSettings, MailTransport, Sender, WebhookSecret, WebhookSender, WebhookSettings,
};
use crate::event::Event;
use crate::feed::{Feed, Settings};
use crate::identity::unlinked::Likeness;
use crate::interest::Interest;
use crate::limiter::{Algorithm, Limit, Policy};
use crate::news::{EventRules, FirstRun};
use crate::store::{LedgerRow, Store, StoredSubscriber};
use crate::subscriber::{Destination, Excess, Mode, Preset, Subscriber, Tags, Updates};
use crate::time::{Span, Timestamp};

/// The feed shows this much of the past, like the day feed of the USGS.
const FEED_SPAN: Span = Span::from_seconds(86_400);
/// How long after the last event what is still withheld may take to be told.
const AFTERMATH: Span = Span::from_seconds(86_400);

/// What happened, for the report.
pub(super) struct Course {
    pub events: usize,
    pub ends: Option<(Timestamp, Timestamp)>,
    pub took: Span,
    pub subscribers: Vec<(StoredSubscriber, Vec<LedgerRow>)>,
    /// What the receiver of webhooks saw.
    pub received: Received,
    /// Messages in the mail directory.
    pub mails: usize,
    pub directory: PathBuf,
}

/// Runs the two days. With `quiet` the decisions are not printed as they happen.
pub(super) async fn run(directory: &Path, from: Timestamp, events: &[Event], quiet: bool) -> Result<Course, Failure> {
    let (mail, webhooks) = (directory.join("mail"), directory.join("webhooks"));
    for place in [&mail, &webhooks] {
        std::fs::create_dir_all(place)?;
    }
    let secret = WebhookSecret::generate()?;
    let server = Server::start(webhooks, secret.clone()).await?;
    let mut store = Store::open(&directory.join("throttler.db"))?;
    let three = subscribers(&server)?;
    let added: Vec<_> = three.iter().map(|subscriber| (subscriber.clone(), Some(secret.expose()))).collect();
    store.add_subscribers(&added, from)?;
    let mut stages = Stages::new(store, &server, &mail, from)?;

    if !quiet {
        output::print(&report::heading(&three))?;
    }
    let mut shown = 0;
    server.show([].iter(), from);
    stages.at(from, &[], quiet).await?;
    let end = events.last().map_or(from, |event| event.origin_at).plus(AFTERMATH);
    while let Some(next) = stages.next(events.get(shown)).await?.filter(|next| *next <= end) {
        let new = events[shown..].iter().take_while(|event| event.origin_at <= next).count();
        let oldest = events.partition_point(|event| event.origin_at < next.minus(FEED_SPAN));
        let news = &events[shown..shown + new];
        shown += new;
        server.show(events[oldest..shown].iter(), next);
        stages.at(next, news, quiet).await?;
    }
    let subscribers = stages.database.with(|store| {
        let listed = store.subscribers()?;
        listed.into_iter().map(|stored| Ok((stored.clone(), store.ledger(Some(stored.key), None)?))).collect()
    });
    Ok(Course {
        events: events.len(),
        ends: events.first().zip(events.last()).map(|(first, last)| (first.origin_at, last.origin_at)),
        took: Span::ZERO,
        subscribers: subscribers.await?,
        received: server.received(),
        mails: std::fs::read_dir(&mail)?.count(),
        directory: directory.to_owned(),
    })
}

/// Three subscribers who made different choices.
fn subscribers(server: &Server) -> Result<[Subscriber; 3], Failure> {
    let rate = "5/h".parse().map_err(Failure::usage)?;
    let email = |address: &str| address.parse().map(Destination::Email).map_err(Failure::usage);
    let subscriber = |name: &str, destination, algorithm, bucket, excess| -> Result<Subscriber, Failure> {
        let limit = Limit::new(algorithm, rate, bucket).map_err(Failure::usage)?;
        let (interest, policy, mode) = (Interest::default(), Policy::plain(limit), Mode::default());
        Ok(Subscriber {
            name: name.parse().map_err(Failure::usage)?,
            destination,
            preset: Preset::Json,
            interest,
            policy,
            excess,
            mode,
            updates: Updates::default(),
            quiet: None,
            tags: Tags::default(),
        })
    };
    let hook = server.hook_url().parse().map(Destination::Webhook).map_err(Failure::usage)?;
    let anna = subscriber("anna", email("anna@example.org")?, Algorithm::TokenBucket, Some(74), Excess::Digest)?;
    let ben = subscriber("ben", email("ben@example.org")?, Algorithm::SlidingLog, None, Excess::Digest)?;
    let mut ops = subscriber("ops", hook, Algorithm::LeakyBucket, Some(5), Excess::Drop)?;
    ops.policy.always_from = Some("6.5".parse().map_err(Failure::usage)?);
    Ok([anna, ben, ops])
}

/// The daemon's stages on the demonstration's clock.
struct Stages {
    clock: Arc<ManualClock>,
    database: Database,
    ingester: Ingester,
    deliverer: Deliverer,
}

impl Stages {
    fn new(store: Store, server: &Server, mail: &Path, from: Timestamp) -> Result<Stages, Failure> {
        let clock = Arc::new(ManualClock::at(from));
        let database = Database::new(store);
        let sender: Sender = "Earthquake alerts <alerts@example.org>".parse()?;
        let settings = EmailSettings::new(sender, MailTransport::Directory(mail.to_owned()));
        let webhook = WebhookSettings { allow_private: true, ..WebhookSettings::default() };
        let delivery = Delivery {
            email: EmailChannel::Sender(Box::new(EmailSender::new(&settings)?)),
            webhook: WebhookSender::new(webhook)?,
            links: None,
        };
        let feed = Feed::new(server.feed_url().parse()?, &Settings::default())?;
        let rules = EventRules {
            min_magnitude: Interest::default().min_magnitude,
            max_age: FEED_SPAN,
            first_run: FirstRun::Baseline,
            likeness: Likeness::default(),
            confirm: None,
        };
        Ok(Stages {
            ingester: Ingester {
                feed,
                rules,
                database: database.clone(),
                clock: clock.clone(),
                gaps: GapCloser::default(),
                vanished: Vanished::default(),
            },
            deliverer: Deliverer::new(database.clone(), Arc::new(delivery), clock.clone()),
            database,
            clock,
        })
    }

    /// The next stop: the next event, the next time that something withheld may be told, or the next delivery due.
    async fn next(&self, event: Option<&Event>) -> Result<Option<Timestamp>, Failure> {
        let now = self.clock.now();
        let (wake, due) = self.database.with(move |store| Ok((store.next_wake()?, store.next_due(now)?))).await?;
        Ok([event.map(|event| event.origin_at), wake, due].into_iter().flatten().min())
    }

    /// Does all that is due at `now`, where `news` have just happened.
    async fn at(&mut self, now: Timestamp, news: &[Event], quiet: bool) -> Result<(), Failure> {
        self.clock.set(now);
        // A poll at every stop would find nothing new but at those of an event, and at the first.
        self.ingester.poll().await?;
        let mut lines = Vec::new();
        dispatch::all(&self.database, &self.clock, |dispatched| lines.extend(report::lines(now, dispatched))).await?;
        self.deliverer.all().await?;
        debug_assert!(news.len() <= lines.len(), "every event is decided at its stop");
        if !quiet && !lines.is_empty() {
            output::print(&lines.concat())?;
        }
        Ok(())
    }
}
