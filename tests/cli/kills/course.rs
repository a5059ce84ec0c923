//! The course of a run: the clock stands still until the daemon has decided all there is to decide, then goes on to whatever
//! is next. So two runs decide at the same instants, however often the daemon is killed and however often deliveries fail.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Params};
use serde_json::json;
use throttler::delivery::WebhookSecret;
use throttler::store::Store;
use throttler::subscriber::Subscriber;
use throttler::time::{Span, Timestamp};

use super::Chance;
use super::failing::{RECEIVERS, Receivers};
use super::versions::Version;
use crate::daemon::Daemon;
use crate::place::Place;

/// The feed shows what is no older, as a short feed does.
const FEED_SPAN: Span = Span::from_seconds(1_800);
/// How far the clock goes on while something is to be delivered: less than a lease, so that none runs out under a request.
const DELIVERY_STEP: Span = Span::from_seconds(100);
/// About the longest that a receiver refuses connections: well under the 24 hours after which what waits for it is rightly given up.
const LONGEST_DOWN: Span = Span::from_seconds(21_600);
/// A delivery that is due, and not begun in so many looks, waits for the breaker of its receiver, which only the daemon knows.
const LOOKS: u32 = 15;
/// So often is looked for a request under way, of which there need not be one.
const LOOKS_FOR_REQUEST: u32 = 200;

/// How often to kill, and the chance that says when.
pub struct Killing {
    pub kills: u64,
    pub chance: Chance,
}

/// What the killed daemons left under way.
#[derive(Debug, Default)]
pub struct Found {
    pub kills: u64,
    /// Kills that found events recorded and not decided, requests under way, messages due; and the requests in all.
    pub undecided: u64,
    pub sending: u64,
    pub due: u64,
    pub leases: u64,
    /// Kills of a daemon that was starting.
    pub starting: u64,
}

pub struct Course<'a> {
    pub place: Place,
    pub receivers: Receivers,
    pub found: Found,
    pub stops: u64,
    /// The longest that a receiver refused connections.
    pub longest_down: Span,
    /// Since when each receiver does.
    down_since: [Option<Timestamp>; RECEIVERS],
    daemon: Option<Daemon>,
    connection: Option<Connection>,
    now: Timestamp,
    versions: &'a [Version],
    shown: usize,
    recorded: usize,
    killing: Killing,
}

/// Looks again and again, every millisecond, for a few minutes at most.
fn until(what: &str, mut look: impl FnMut() -> bool) {
    for _ in 0..200_000 {
        if look() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("it did not come to this: {what}");
}

/// The database of a running daemon, or of none.
fn open(path: &Path) -> Connection {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("the database");
    connection.busy_timeout(Duration::from_secs(30)).expect("a timeout");
    connection
}

fn number(connection: &Connection, sql: &str, parameters: impl Params) -> Option<i64> {
    let mut statement = connection.prepare_cached(sql).expect(sql);
    statement.query_row(parameters, |row| row.get(0)).expect(sql)
}

impl<'a> Course<'a> {
    /// With these subscribers, at this instant, before the first poll.
    pub fn new(
        from: Timestamp,
        versions: &'a [Version],
        receivers: Receivers,
        subscribers: &[Subscriber],
        killing: Killing,
    ) -> Course<'a> {
        let place = Place::new();
        place.write(
            "throttler.toml",
            // Whether two solutions are one quake is decided again at a poll, and polls come at other instants where
            // deliveries fail.
            &format!(
                "[feed]\nurl = \"file://{}\"\npoll = \"20ms\"\nmin_magnitude = 4.5\nduplicate_within = \"0s\"\n\
                 [webhook]\nallow_private = true\n",
                place.path("feed.geojson").display()
            ),
        );
        let secret = WebhookSecret::generate().expect("a secret").expose();
        let added: Vec<_> = subscribers.iter().map(|subscriber| (subscriber.clone(), Some(secret.clone()))).collect();
        let mut store = Store::open(&place.path("throttler.db")).expect("a database");
        store.add_subscribers(&added, from).expect("subscribers");
        let mut course = Course {
            place,
            receivers,
            found: Found::default(),
            stops: 0,
            longest_down: Span::ZERO,
            down_since: [None; RECEIVERS],
            daemon: None,
            connection: None,
            now: from,
            versions,
            shown: 0,
            recorded: 0,
            killing,
        };
        drop(store);
        course.set_clock(from);
        course.show(0);
        course.start();
        course
    }

    /// To the end: all that the feed shows is decided, all that was withheld is told, all is delivered.
    pub fn run(&mut self) {
        until("the first poll", || self.number("SELECT count(polled_at) FROM installation", []) == Some(1));
        loop {
            self.settle();
            let rows = self.next_of_rows();
            let version = self.versions.get(self.shown).map(|version| version.at);
            let Some(next) = rows.into_iter().chain(version).min() else { break };
            self.stops += 1;
            self.set_clock(next);
            // What is due first is done before anything new is shown, also if that comes at the same instant.
            let shows = rows != Some(next);
            if shows {
                self.show(self.shown + 1);
            }
            self.have_receivers_fail();
            if self.is_to_kill() {
                self.kill(shows);
            }
        }
        self.connection = None;
        let daemon = self.daemon.take().expect("a daemon");
        assert_eq!(daemon.stop().code(), Some(0));
    }

    /// Everything that a decision left, line by line and table by table; what differs between installations is left out.
    pub fn left(&self) -> BTreeMap<&'static str, Vec<String>> {
        let connection = open(&self.place.path("throttler.db"));
        let key: String = connection.query_row("SELECT key FROM installation", [], |row| row.get(0)).expect("the key");
        let tables = [
            ("events", "SELECT preferred_id, first_seen_at, changed_at, fate, withdrawn_at, body FROM events ORDER BY event_key"),
            ("revisions", "SELECT event_key, seen_at, changes, body FROM revisions ORDER BY event_key, seen_at"),
            (
                "decisions",
                "SELECT name, preferred_id, decided_at, outcome, d.reason, refused, d.remaining, d.retry_at, alert_id
                 FROM decisions AS d JOIN events USING (event_key) JOIN subscribers USING (subscriber_key)
                 LEFT JOIN outbox USING (delivery_key) ORDER BY name, d.event_key",
            ),
            (
                "updates",
                "SELECT name, u.event_key, revision, kind, decided_at, outcome, u.reason, refused, u.retry_at, alert_id
                 FROM updates AS u JOIN subscribers USING (subscriber_key) LEFT JOIN outbox USING (delivery_key)
                 ORDER BY name, u.event_key, revision",
            ),
            (
                "limiters",
                "SELECT name, standing, hex(state), wake_at, update_wake_at FROM subscribers LEFT JOIN limiters USING (subscriber_key) ORDER BY subscriber_key",
            ),
            (
                "messages",
                "SELECT alert_id, magnitude, created_at, status, alert, content, terms, reason, remaining, retry_at, reset_at
                 FROM outbox LEFT JOIN contents USING (content_key) LEFT JOIN terms USING (terms_key) ORDER BY alert_id",
            ),
        ];
        tables.map(|(table, sql)| (table, lines(&connection, sql).iter().map(|line| line.replace(&key, "KEY")).collect())).into()
    }

    /// The attempts at each message.
    pub fn attempts(&self) -> HashMap<String, u64> {
        let connection = open(&self.place.path("throttler.db"));
        let mut statement = connection.prepare("SELECT alert_id, attempts FROM outbox").expect("sql");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())));
        rows.expect("rows").collect::<Result<_, _>>().expect("rows")
    }

    /// The messages that did not arrive, and why.
    pub fn undelivered(&self) -> Vec<String> {
        let connection = open(&self.place.path("throttler.db"));
        let sql = "SELECT alert_id, status, attempts, created_at, settled_at, detail FROM outbox WHERE status <> 'delivered'";
        lines(&connection, sql)
    }

    fn start(&mut self) {
        // Each daemon has a log of its own.
        let _ = fs::remove_file(self.place.path("log"));
        let clock = self.place.path("clock");
        self.daemon = Some(Daemon::start_with(&self.place, &[("THROTTLER_TEST_CLOCK", &clock)]));
    }

    fn number(&mut self, sql: &str, parameters: impl Params) -> Option<i64> {
        if self.connection.is_none() {
            // The daemon first: what it has to recover is not recovered for it.
            let daemon = self.daemon.as_ref().expect("a daemon");
            until("the daemon is up", || daemon.is_up());
            self.connection = Some(open(&self.place.path("throttler.db")));
        }
        number(self.connection.as_ref().expect("it was opened"), sql, parameters)
    }

    fn set_clock(&mut self, now: Timestamp) {
        self.now = now;
        self.place.replace("clock", &now.to_string());
    }

    /// From now on the feed shows the first so many versions, of each event the newest, the oldest events left out.
    fn show(&mut self, shown: usize) {
        self.shown = shown;
        let since = self.now.minus(FEED_SPAN);
        let mut newest = BTreeMap::new();
        for version in self.versions[..shown].iter().filter(|version| version.at >= since) {
            newest.insert(&version.event.id, version.feature());
        }
        let metadata = json!({ "generated": self.now.millis(), "status": 200 });
        let features: Vec<_> = newest.into_values().collect();
        let feed = json!({ "type": "FeatureCollection", "metadata": metadata, "features": features });
        self.place.replace("feed.geojson", &feed.to_string());
    }

    fn is_recorded(&mut self) -> bool {
        while let Some(version) = self.versions[..self.shown].get(self.recorded) {
            let sql = "SELECT count(*) FROM event_ids JOIN events USING (event_key)
                       WHERE id = ?1 AND iif(?2, withdrawn_at IS NOT NULL, json_extract(body, '$.updated_at') >= ?3)";
            let parameters = (version.event.id.as_str(), version.event.is_withdrawn(), version.at.to_string());
            if self.number(sql, parameters) != Some(1) {
                return false;
            }
            self.recorded += 1;
        }
        true
    }

    /// Until all is decided, and delivered as far as it can be now.
    fn settle(&mut self) {
        until("the feed is recorded", || self.is_recorded());
        let now = self.now.ticks();
        let open = "SELECT (SELECT count(*) FROM events WHERE dispatch_from IS NOT NULL OR update_from IS NOT NULL)
                         + (SELECT count(*) FROM subscribers WHERE wake_at <= ?1 OR update_wake_at <= ?1)";
        until("all is decided", || self.number(open, [now]) == Some(0));
        let mut looks = 0;
        until("nothing is under way", || {
            if self.leases() != Some(0) {
                looks = 0;
                return false;
            }
            looks += 1;
            // Where nobody fails no breaker opens.
            (looks > LOOKS && self.killing.kills > 0) || !self.is_something_due()
        });
    }

    fn leases(&mut self) -> Option<i64> {
        self.number("SELECT count(*) FROM outbox WHERE status = 'leased'", [])
    }

    fn is_something_due(&mut self) -> bool {
        let now = self.now.ticks();
        self.number("SELECT count(*) FROM outbox WHERE status IN ('due', 'leased') AND due_at <= ?1", [now]) != Some(0)
    }

    /// When somebody is to be woken, or deliveries are looked after.
    fn next_of_rows(&mut self) -> Option<Timestamp> {
        let wake = "SELECT min(at) FROM (SELECT min(wake_at) AS at FROM subscribers UNION ALL
                                         SELECT min(update_wake_at) FROM subscribers)";
        let wake = self.number(wake, []).map(|ticks| Timestamp::from_ticks(ticks).expect("an instant"));
        let delivery = "SELECT min(iif(status = 'due', due_at, 0)) FROM outbox WHERE status IN ('due', 'leased')";
        let delivery = self.number(delivery, []).map(|ticks| Timestamp::from_ticks(ticks).expect("an instant"));
        wake.into_iter().chain(delivery.map(|at| at.max(self.now.plus(DELIVERY_STEP)))).min()
    }

    /// Now and then one refuses connections for a while; none does when the feed has shown all.
    fn have_receivers_fail(&mut self) {
        if self.killing.kills == 0 {
            return;
        }
        let chosen = usize::try_from(self.killing.chance.below(8 * RECEIVERS as u64)).expect("small");
        if chosen < RECEIVERS {
            let down = self.shown < self.versions.len() && self.killing.chance.below(2) == 0;
            self.set_down(chosen, down);
        }
        for at in 0..RECEIVERS {
            let down_for = self.down_since[at].map_or(Span::ZERO, |since| self.now.since(since));
            self.longest_down = self.longest_down.max(down_for);
            if down_for > LONGEST_DOWN || (chosen >= RECEIVERS && self.shown == self.versions.len()) {
                self.set_down(at, false);
            }
        }
    }

    fn set_down(&mut self, at: usize, down: bool) {
        self.receivers.set_down(at, down);
        self.down_since[at] = down.then(|| self.down_since[at].unwrap_or(self.now));
    }

    /// Spread over the run: as many as belong to what was shown so far.
    fn is_to_kill(&mut self) -> bool {
        let so_far = self.killing.kills * self.shown as u64 / self.versions.len() as u64;
        self.found.kills < so_far && self.killing.chance.below(3) > 0
    }

    /// Kills it somewhere in what it does at this instant, and sometimes once more while it starts.
    fn kill(&mut self, shows: bool) {
        let mut moment = match self.killing.chance.below(4) {
            _ if !shows => self.killing.chance.below(15_000),
            0 => self.killing.chance.below(40_000),
            // Around the decisions.
            1 => {
                until("the feed is recorded", || self.is_recorded());
                self.killing.chance.below(60_000)
            }
            // Around requests and their receipts.
            _ => {
                let mut looks = 0;
                until("a request is under way, or none comes", || {
                    looks += 1;
                    looks > LOOKS_FOR_REQUEST || self.leases() > Some(0)
                });
                self.killing.chance.below(15_000)
            }
        };
        loop {
            sleep(Duration::from_micros(moment));
            let is_up = self.daemon.as_ref().is_some_and(Daemon::is_up);
            self.connection = None;
            self.daemon.take().expect("a daemon").kill();
            self.found.kills += 1;
            self.found.starting += u64::from(!is_up);
            self.inspect();
            self.start();
            if self.found.kills >= self.killing.kills || self.killing.chance.below(5) > 0 {
                return;
            }
            moment = self.killing.chance.below(120_000);
        }
    }

    /// Looks at what a killed daemon left, in a copy, so that the next daemon finds it as it was.
    fn inspect(&mut self) {
        for file in ["throttler.db", "throttler.db-wal"] {
            let _ = fs::remove_file(self.place.path(&format!("left-{file}")));
            if self.place.path(file).exists() {
                fs::copy(self.place.path(file), self.place.path(&format!("left-{file}"))).expect("a copy");
            }
        }
        let left = open(&self.place.path("left-throttler.db"));
        let count = |sql| number(&left, sql, []).expect("a count").unsigned_abs();
        assert_eq!(count("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
        assert_eq!(count("SELECT count(*) FROM pragma_foreign_key_check"), 0);
        let orphans = "SELECT count(*) FROM outbox AS o
                       WHERE (SELECT count(*) FROM decisions AS d WHERE d.delivery_key = o.delivery_key) = 0
                         AND (SELECT count(*) FROM updates AS u WHERE u.delivery_key = o.delivery_key) = 0";
        assert_eq!(count(orphans), 0, "a message that nobody decided");
        let undecided = count("SELECT count(*) FROM events WHERE dispatch_from IS NOT NULL OR update_from IS NOT NULL");
        let leases = count("SELECT count(*) FROM outbox WHERE status = 'leased'");
        let due = count("SELECT count(*) FROM outbox WHERE status = 'due'");
        self.found.undecided += u64::from(undecided > 0);
        self.found.sending += u64::from(leases > 0);
        self.found.leases += leases;
        self.found.due += u64::from(due > 0);
    }
}

/// The rows of a query as text.
fn lines(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect(sql);
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values = (0..columns).map(|at| row.get::<_, rusqlite::types::Value>(at).map(|value| format!("{value:?}")));
        Ok(values.collect::<Result<Vec<_>, _>>()?.join(" "))
    });
    rows.expect(sql).collect::<Result<_, _>>().expect(sql)
}
