//! The daemon's parts around one directory: they can be dropped and opened again as after a crash.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::types::Value;
use serde_json::json;
use tempfile::TempDir;
use throttler::clock::{Clock, ManualClock};
use throttler::daemon::{Database, Deliverer, Dispatched, GapCloser, Ingester, Operator, Vanished, dispatch};
use throttler::delivery::{
    Delivery, EmailChannel, EmailSender, EmailSettings, MailTransport, WebhookSecret, WebhookSender, WebhookSettings,
};
use throttler::event::Magnitude;
use throttler::feed::fdsn::Fdsn;
use throttler::feed::{Feed, FeedUrl, Settings};
use throttler::identity::unlinked::Likeness;
use throttler::interest::Interest;
use throttler::limiter::{Algorithm, Limit, Policy};
use throttler::news::{EventRules, FirstRun};
use throttler::plan::{Outcome, UpdateOutcome};
use throttler::quiet::QuietHours;
use throttler::store::{Ingested, LedgerRow, Location, ServerUrl, Store};
use throttler::subscriber::{Destination, Excess, Mode, Preset, Standing, Subscriber, SubscriberName, Tags, Updates};
use throttler::time::{Span, Timestamp};
use tokio::time::sleep;

use crate::receiver::Receiver;
use crate::server;

/// Names where the tests of the pipeline have their database: `postgres`, on a server.
const DATABASE: &str = "THROTTLER_TEST_DATABASE";

/// Whether they have it on a server.
pub fn on_server() -> bool {
    std::env::var_os(DATABASE).is_some_and(|which| which == "postgres")
}

/// Whether a test is only of a database in a file, and is not made now for that reason.
pub fn only_in_a_file() -> bool {
    if on_server() {
        println!("skipped: it is of a database in a file");
    }
    on_server()
}

pub const MINUTE: u64 = 60;
pub const HOUR: u64 = 3_600;

/// When the tests begin.
pub fn start() -> Timestamp {
    "2025-08-05T09:00:00Z".parse().expect("a time")
}

pub fn magnitude(value: f64) -> Magnitude {
    Magnitude::new(value).expect("a magnitude")
}

pub fn name(text: &str) -> SubscriberName {
    text.parse().expect(text)
}

/// An earthquake as the feed shows it.
#[derive(Clone, Debug)]
pub struct Quake {
    pub id: String,
    pub other_ids: Vec<String>,
    pub magnitude: Option<f64>,
    pub origin_at: Timestamp,
    pub updated_at: Timestamp,
    pub latitude: f64,
    pub status: &'static str,
    pub pager: Option<&'static str>,
    pub tsunami: bool,
}

impl Quake {
    /// Of this magnitude, so many seconds before now.
    pub fn new(rig: &Rig, id: &str, magnitude: f64, seconds_ago: u64) -> Quake {
        let now = rig.clock.now();
        Quake::at(id, magnitude, now.minus(Span::from_seconds(seconds_ago)), now)
    }

    /// Of this magnitude and time, last changed at `updated_at`.
    pub fn at(id: &str, magnitude: impl Into<Option<f64>>, origin_at: Timestamp, updated_at: Timestamp) -> Quake {
        Quake {
            id: id.into(),
            other_ids: Vec::new(),
            magnitude: magnitude.into(),
            origin_at,
            updated_at,
            latitude: 52.5,
            status: "automatic",
            pager: None,
            tsunami: false,
        }
    }

    /// The next version, of this magnitude.
    pub fn revised(&self, magnitude: impl Into<Option<f64>>) -> Quake {
        let updated_at = self.updated_at.plus(Span::from_seconds(1));
        Quake { magnitude: magnitude.into(), updated_at, ..self.clone() }
    }

    /// The next version, which the service prefers to call `id` and links to the old id.
    pub fn renamed(&self, id: &str) -> Quake {
        let mut other_ids = self.other_ids.clone();
        other_ids.push(self.id.clone());
        let updated_at = self.updated_at.plus(Span::from_seconds(1));
        Quake { id: id.into(), other_ids, updated_at, ..self.clone() }
    }

    fn feature(&self) -> serde_json::Value {
        let ids: Vec<&str> = std::iter::once(&self.id).chain(&self.other_ids).map(String::as_str).collect();
        json!({
            "type": "Feature", "id": self.id,
            "properties": {
                "mag": self.magnitude, "place": format!("near {}", self.id), "time": self.origin_at.millis(),
                "updated": self.updated_at.millis(), "ids": format!(",{},", ids.join(",")), "status": self.status, "type": "earthquake",
                "tsunami": u8::from(self.tsunami), "alert": self.pager, "magType": "mww",
            },
            "geometry": { "type": "Point", "coordinates": [160.3, self.latitude, 20.0] },
        })
    }
}

/// The open parts; dropping them is a crash.
pub struct Open {
    pub database: Database,
    pub ingester: Ingester,
    pub deliverer: Deliverer,
}

pub struct Rig {
    directory: TempDir,
    /// Where the database is: a file in the directory, or a schema on a server, see [`on_server`].
    pub database: Location,
    server: Option<String>,
    pub clock: Arc<ManualClock>,
    pub rules: EventRules,
    /// The feed's address, where it is not the file, and the FDSN service beside it.
    pub feed_url: Option<String>,
    pub fdsn: Option<String>,
    pub delivery: Arc<Delivery>,
    /// Who is told of the service itself.
    pub operator: Option<Arc<Operator>>,
    pub receiver: Receiver,
    pub open: Option<Open>,
}

impl Rig {
    /// Without subscribers, before its first poll.
    pub async fn fresh() -> Rig {
        Rig::fresh_on(on_server().then(|| server::server().schema())).await
    }

    /// The same in this schema of a server, or in a file, whatever the other tests have.
    pub async fn fresh_on(server: Option<String>) -> Rig {
        // The second test of the process finds it installed; that is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = TempDir::new().expect("a directory");
        let mail = MailTransport::Directory(directory.path().join("mail"));
        let email = EmailSettings::new("alerts@example.org".parse().expect("a sender"), mail);
        let webhook = WebhookSettings { allow_private: true, ..WebhookSettings::default() };
        let delivery = Delivery {
            email: EmailChannel::Sender(Box::new(EmailSender::new(&email).expect("a directory for mail"))),
            webhook: WebhookSender::new(webhook).expect("an HTTP client"),
            links: None,
        };
        let rules = EventRules {
            min_magnitude: magnitude(4.5),
            max_age: Span::from_seconds(24 * HOUR),
            first_run: FirstRun::Baseline,
            likeness: Likeness::default(),
            confirm: None,
        };
        let database = match &server {
            Some(url) => url.parse::<ServerUrl>().expect("an address").into(),
            None => Location::from(&directory.path().join("throttler.db")),
        };
        let mut rig = Rig {
            directory,
            database,
            server,
            clock: Arc::new(ManualClock::at(start())),
            rules,
            feed_url: None,
            fdsn: None,
            delivery: Arc::new(delivery),
            operator: None,
            receiver: Receiver::start().await,
            open: None,
        };
        rig.show(&[]);
        rig.restart().await;
        rig
    }

    /// With these subscribers, and an empty feed polled once.
    pub async fn with(subscribers: &[Subscriber]) -> Rig {
        let mut rig = Rig::fresh().await;
        rig.add(subscribers);
        rig.poll().await;
        rig
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// Drops everything that is open and opens it again, as the daemon does at its start.
    pub async fn restart(&mut self) {
        self.open = None;
        let mut store = Store::open(&self.database).expect("the database opens");
        if self.server.is_some() {
            // A crashed daemon's session ends a moment later, and its leases run out; nobody waits for them here.
            while !store.polls().expect("an answer") {
                sleep(Duration::from_millis(1)).await;
            }
            self.run("UPDATE outbox SET lease_until = 0 WHERE status = 'leased'");
            self.run("UPDATE notices SET lease_until = 0 WHERE status = 'leased'");
        }
        let file = format!("file://{}", self.path("feed.geojson").display());
        let url: FeedUrl = self.feed_url.as_ref().unwrap_or(&file).parse().expect("the feed's address");
        let settings = Settings::default();
        let fdsn = self.fdsn.as_ref().map(|url| Fdsn::new(url.parse().expect("a service"), &settings).expect("a client"));
        let fdsn = fdsn.map(|fdsn| Arc::new(fdsn.impatient()));
        let (gaps, vanished) = (GapCloser::new(settings, fdsn.clone()), Vanished::new(fdsn));
        let last_generated_at = store.last_generated(&url.to_string()).expect("the feed's state");
        let feed = Feed::new(url, &Settings { last_generated_at, ..Settings::default() }).expect("a feed");
        let database = Database::new(store);
        let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(&self.clock);
        let ingester =
            Ingester { feed, rules: self.rules, database: database.clone(), clock: Arc::clone(&clock), gaps, vanished };
        let now = clock.now();
        database.with(move |store| store.recover_leases(now)).await.expect("leases are recovered");
        let ways = self.operator.as_ref().map_or_else(Vec::new, |operator| operator.ways());
        database.with(move |store| store.drop_notices_without(&ways, now)).await.expect("notices to nobody are dropped");
        let deliverer = Deliverer::new(database.clone(), Arc::clone(&self.delivery), clock);
        let deliverer = match &self.operator {
            Some(operator) => deliverer.with_operator(Arc::clone(operator)),
            None => deliverer,
        };
        self.open = Some(Open { database, ingester, deliverer });
    }

    pub fn parts(&mut self) -> &mut Open {
        self.open.as_mut().expect("the parts are open")
    }

    /// A second connection, as the command line has one.
    pub fn store(&self) -> Store {
        Store::open_existing(&self.database).expect("the database opens")
    }

    /// The tables as they are, in a file.
    pub fn sql(&self) -> Connection {
        Connection::open(self.path("throttler.db")).expect("the database opens")
    }

    /// What the tables answer, as text; nothing is an empty one.
    pub fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        if let Some(url) = &self.server {
            return server::ask(url, &sql.replace(" x'", " '\\x"));
        }
        let text = |value| match value {
            Value::Null => String::new(),
            Value::Integer(value) => value.to_string(),
            Value::Real(value) => value.to_string(),
            Value::Text(value) => value,
            Value::Blob(value) => format!("{value:02x?}"),
        };
        let connection = self.sql();
        let mut statement = connection.prepare(sql).expect(sql);
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at).map(text)).collect()).expect(sql);
        rows.collect::<Result<_, _>>().expect(sql)
    }

    /// The first answer.
    pub fn text(&self, sql: &str) -> String {
        self.rows(sql).swap_remove(0).swap_remove(0)
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.text(sql).parse().expect(sql)
    }

    /// The next subscriber has a number beyond this one.
    pub fn leave_a_gap(&self, number: i64) {
        self.run(&if self.server.is_some() {
            format!("SELECT setval(pg_get_serial_sequence('subscribers', 'subscriber_key'), {number})")
        } else {
            format!("UPDATE sqlite_sequence SET seq = {number} WHERE name = 'subscribers'")
        });
    }

    /// Changes the tables behind the daemon's back.
    pub fn run(&self, sql: &str) {
        match &self.server {
            Some(_) => drop(self.rows(sql)),
            None => drop(self.sql().execute(sql, []).expect(sql)),
        }
    }

    pub fn pass(&self, seconds: u64) {
        self.clock.set(self.clock.now().plus(Span::from_seconds(seconds)));
    }

    pub fn clock_plus(&self, seconds: u64) -> Timestamp {
        self.clock.now().plus(Span::from_seconds(seconds))
    }

    pub fn clock_minus(&self, seconds: u64) -> Timestamp {
        self.clock.now().minus(Span::from_seconds(seconds))
    }

    /// From now on the feed shows these.
    pub fn show(&self, quakes: &[Quake]) {
        let features: Vec<_> = quakes.iter().map(Quake::feature).collect();
        let generated = self.clock.now().millis();
        let document =
            json!({ "type": "FeatureCollection", "metadata": { "generated": generated, "status": 200 }, "features": features });
        // As a well-behaved writer does it: a reader sees whole files only.
        fs::write(self.path("next.geojson"), document.to_string()).expect("the feed is written");
        fs::rename(self.path("next.geojson"), self.path("feed.geojson")).expect("the feed is renamed");
    }

    pub async fn poll(&mut self) -> Ingested {
        self.parts().ingester.poll().await.expect("the feed is read").unwrap_or_default()
    }

    /// The next step of deciding; nothing if nothing is left to decide now.
    pub async fn step(&mut self) -> Option<Dispatched> {
        let (database, now) = (self.parts().database.clone(), self.clock.now());
        database.with(move |store| dispatch::step(store, now)).await.expect("a step of dispatch")
    }

    /// All that is left to decide now.
    pub async fn dispatch(&mut self) -> Vec<Dispatched> {
        let mut steps = Vec::new();
        while let Some(step) = self.step().await {
            steps.push(step);
        }
        steps
    }

    pub async fn deliver(&mut self) {
        self.parts().deliverer.all().await.expect("deliveries are claimed and settled");
    }

    /// The feed shows these; all that follows from it at once happens.
    pub async fn see(&mut self, quakes: &[Quake]) {
        self.show(quakes);
        self.poll().await;
        self.settle().await;
    }

    /// All that is to be done now.
    pub async fn settle(&mut self) {
        self.dispatch().await;
        self.deliver().await;
    }

    pub fn add(&self, subscribers: &[Subscriber]) {
        let secret = |subscriber: &Subscriber| match subscriber.destination {
            Destination::Webhook(_) => Some(WebhookSecret::generate().expect("a secret").expose()),
            Destination::Email(_) => None,
        };
        let added: Vec<_> = subscribers.iter().map(|subscriber| (subscriber.clone(), secret(subscriber))).collect();
        self.store().add_subscribers(&added, self.clock.now()).expect("subscribers are added");
    }

    pub fn stand(&self, who: &str, standing: Standing) {
        self.store().set_standing(&name(who), standing, false, self.clock.now()).expect("the standing changes");
    }

    pub fn set(&self, who: &str, change: impl FnOnce(&mut Subscriber)) {
        let mut store = self.store();
        let mut subscriber = store.subscriber(&name(who)).expect(who).subscriber;
        change(&mut subscriber);
        store.set_subscriber(&subscriber, None, self.clock.now()).expect("the settings change");
    }

    /// A subscriber that gets webhooks at `/NAME`: a token bucket of 5 at 5/h, M 5.0 or more.
    pub fn hooked(&self, who: &str) -> Subscriber {
        let url = format!("http://127.0.0.1:{}/{who}", self.receiver.port);
        subscriber(who, Destination::Webhook(url.parse().expect("a URL")))
    }

    pub fn ledger(&self) -> Vec<LedgerRow> {
        self.store().ledger(None, None).expect("the ledger")
    }

    /// `EVENT OUTCOME` of one subscriber, in order of decision.
    pub fn outcomes(&self, who: &str) -> Vec<String> {
        let rows = self.ledger().into_iter().filter(|row| row.subscriber == who);
        rows.map(|row| format!("{} {}", row.event.id, row.outcome)).collect()
    }

    /// The titles of what the subscriber's webhook got, in order.
    pub fn hooks(&self, who: &str) -> Vec<String> {
        let path = format!("/{who}");
        let mine = self.receiver.requests().into_iter().filter(|request| request.path == path);
        mine.map(|request| request.body["title"].as_str().expect("a title").to_owned()).collect()
    }

    /// The subjects of the messages in the directory, sorted.
    pub fn mails(&self) -> Vec<String> {
        let mut subjects: Vec<String> = self.mail_texts().iter().map(|text| subject(text)).collect();
        subjects.sort();
        subjects
    }

    pub fn mail_texts(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("mail")).expect("the directory for mail");
        let read = |entry: std::io::Result<fs::DirEntry>| fs::read_to_string(entry.expect("an entry").path()).expect("a message");
        entries.map(read).collect()
    }

    /// Each matched event has one outcome, each message one row, and the sums agree.
    pub fn check_books(&self) {
        let store = self.store();
        let ledger = self.ledger();
        for stored in store.subscribers().expect("the subscribers") {
            let who = stored.subscriber.name.to_string();
            let counts = store.counts(stored.key).expect("the counts");
            let mine: Vec<_> = ledger.iter().filter(|row| row.subscriber == who).collect();
            assert_eq!(counts.outcomes.iter().sum::<u64>(), mine.len() as u64, "{who}: the outcomes sum up to the decisions");
            for (outcome, count) in Outcome::ALL.into_iter().zip(counts.outcomes) {
                assert_eq!(count, mine.iter().filter(|row| row.outcome == outcome).count() as u64, "{who}: {outcome}");
            }
            let updates = store.updates(Some(stored.key), None).expect("the updates");
            for (outcome, count) in UpdateOutcome::ALL.into_iter().zip(counts.updates) {
                assert_eq!(count, updates.iter().filter(|row| row.outcome == outcome).count() as u64, "{who}: updates {outcome}");
            }
            let told = mine.iter().filter(|row| row.delivery.is_some()).count();
            let alerted = mine.iter().filter(|row| matches!(row.outcome, Outcome::Alerted | Outcome::Digested)).count();
            assert_eq!(told, alerted, "{who}: what is told has a message, and nothing else has");
        }
        let orphans =
            "SELECT count(*) FROM outbox AS o WHERE NOT EXISTS (SELECT 1 FROM decisions WHERE delivery_key = o.delivery_key)
                                              AND NOT EXISTS (SELECT 1 FROM updates WHERE delivery_key = o.delivery_key)";
        assert_eq!(self.number(orphans), 0, "every message comes from a decision or an update");
        let both = "SELECT count(*) FROM decisions JOIN updates USING (delivery_key)";
        assert_eq!(self.number(both), 0, "and none from both");
        let untold = "SELECT count(*) FROM updates AS u WHERE NOT EXISTS (
                          SELECT 1 FROM decisions AS d JOIN events AS e USING (event_key)
                          WHERE d.subscriber_key = u.subscriber_key AND d.delivery_key IS NOT NULL
                            AND u.event_key IN (d.event_key, e.merged_into))";
        assert_eq!(self.number(untold), 0, "nobody is told of a change to what it was not told");
        let waiting = "SELECT count(*) FROM (SELECT 1 FROM updates WHERE outcome = 'waiting'
                       GROUP BY subscriber_key, event_key HAVING count(*) > 1) AS several";
        assert_eq!(self.number(waiting), 0, "of an event only the newest version waits");
        if self.server.is_some() {
            return;
        }
        let problems: String = self.sql().query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(problems, "ok");
        assert_eq!(self.number("SELECT count(*) FROM pragma_foreign_key_check"), 0);
    }
}

/// A subscriber with a token bucket of 5 at 5/h, M 5.0 or more, and `drop`.
pub fn subscriber(who: &str, destination: Destination) -> Subscriber {
    Subscriber {
        name: name(who),
        destination,
        preset: Preset::Json,
        interest: Interest::default(),
        policy: Policy::plain(limit(Algorithm::TokenBucket, "5/h", Some(5))),
        excess: Excess::Drop,
        mode: Mode::Enforce,
        // Whoever tests them wants them.
        updates: Updates::None,
        quiet: None,
        tags: Tags::default(),
    }
}

/// The same by email.
pub fn mailed(who: &str) -> Subscriber {
    subscriber(who, Destination::Email(format!("{who}@example.org").parse().expect("an address")))
}

pub fn limit(algorithm: Algorithm, rate: &str, bucket: Option<u64>) -> Limit {
    Limit::new(algorithm, rate.parse().expect("a rate"), bucket).expect("a limit")
}

/// Quiet from and to these times of the day, for events below this magnitude or for all.
pub fn quiet(hours: &str, zone: &str, below: Option<f64>) -> QuietHours {
    QuietHours { hours: hours.parse().expect(hours), zone: zone.parse().expect(zone), below: below.map(magnitude) }
}

pub fn subject(text: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix("Subject: ")).expect("a subject").to_owned()
}
