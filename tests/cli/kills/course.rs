//! The course of a run: the clock stands still until the daemon has decided all there is to decide, then goes on to whatever
//! is next. So two runs decide at the same instants, however often the daemon is killed and however often deliveries fail.

mod disturb;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;
use throttler::daemon::deliver::LEASE;
use throttler::delivery::WebhookSecret;
use throttler::store::{Location, ServerUrl, Store};
use throttler::subscriber::Subscriber;
use throttler::time::{Span, Timestamp};

use super::Chance;
use super::failing::{RECEIVERS, Receivers};
use super::hosts::Hosts;
use super::leases::{Disturbance, Lost, ran_out, trace};
use super::tables::{Tables, lines, open};
use super::versions::Version;
use crate::daemon::Daemon;
use crate::place::Place;
use crate::server::Server;

/// The feed shows what is no older, as a short feed does.
const FEED_SPAN: Span = Span::from_seconds(1_800);
/// How far the clock goes on while something is to be delivered: less than a lease, so that none runs out under a request.
const DELIVERY_STEP: Span = Span::from_seconds(100);
/// A poll that brings nothing is noted if none was for so long.
const POLL_NOTED: Span = Span::from_seconds(30);
/// About the longest that a receiver refuses connections: well under the 24 hours after which what waits for it is rightly given up.
const LONGEST_DOWN: Span = Span::from_seconds(21_600);
/// A delivery that is due, and not begun in so many looks, waits for the breaker of its receiver, which only the daemon knows.
const LOOKS: u32 = 15;
/// So often is looked for a request under way, of which there need not be one.
const LOOKS_FOR_REQUEST: u32 = 200;
/// What was leased when the server went away, and of which nothing more is heard in so many looks, no daemon knows of.
const LOOKS_FOR_LOST: u32 = 200;
/// What somebody holds who writes on a server, or polls: the first number of the lock, as the store has it.
const WRITING: i32 = 0x7468_7201;
const POLLING: i32 = 0x7468_7202;
/// A daemon that is stopped or cut off goes on after so long, by the clock: its leases have run out by then.
const AWAY_FOR: Span = Span::from_seconds(400);

/// How often to kill, and the chance that says when.
pub struct Killing {
    pub kills: u64,
    pub chance: Chance,
}

/// Where the first daemon has its files, where the others have theirs, and the database.
type Places = (Place, Vec<Place>, Location);

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
    /// Of several daemons on a server: how often one was stopped for longer than a lease, how often its host was cut off for as long
    /// and another polled instead, and how often all sessions, or the server, ended.
    pub stopped: u64,
    pub cut: u64,
    pub cut_off: u64,
    pub crashes: u64,
    /// Daemons that ended because their server was away when they started.
    pub restarted: u64,
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
    daemons: Vec<Option<Daemon>>,
    /// Where the daemons after the first have their files.
    others: Vec<Place>,
    tables: Tables,
    /// The address of the database from this host, if it is on a server.
    pub url: String,
    /// Where the daemons run, if not on this host.
    hosts: Option<Hosts>,
    /// Which daemon is stopped or cut off, and since when.
    away: Option<Away>,
    /// When all sessions last ended.
    went_away: Timestamp,
    pub disturbances: Vec<Disturbance>,
    /// Leases that were lost with the daemon of a file, and the attempts that they were, so that each counts once.
    lost: Vec<Lost>,
    lost_attempts: BTreeSet<(String, i64)>,
    now: Timestamp,
    versions: &'a [Version],
    shown: usize,
    recorded: usize,
    killing: Killing,
}

/// Looks again and again, every millisecond, for a few minutes at most.
pub fn until(what: &str, mut look: impl FnMut() -> bool) {
    for _ in 0..200_000 {
        if look() {
            return;
        }
        sleep(Duration::from_millis(1));
    }
    panic!("it did not come to this: {what}");
}

/// A daemon that does nothing for a while.
#[derive(Clone, Copy, Debug)]
struct Away {
    at: usize,
    since: Timestamp,
    is_cut: bool,
}

/// Where several daemons work: how many, on which server, and on which hosts, if not on this one.
pub struct Several {
    pub daemons: usize,
    pub server: &'static Server,
    pub hosts: Option<Hosts>,
}

/// How many do of this, among those who write on a server or wait for it.
fn writing(condition: &str) -> String {
    format!(
        "(SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
          WHERE l.locktype = 'advisory' AND l.classid = {WRITING}
            AND l.objid = current_schema()::regnamespace::oid AND {condition})"
    )
}

/// What is still to be delivered now.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Leases of which a daemon that runs knows.
    leased: i64,
    /// Leases of daemons that run, which may have been made while the server went away.
    doubtful: i64,
    /// Whether something is due.
    due: bool,
    /// Whether somebody has been writing for more than a moment: what he leases is not seen yet.
    busy: bool,
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
        let file = place.path("throttler.db");
        let places = (place, Vec::new(), Location::from(&file));
        Course::on(from, versions, receivers, subscribers, killing, (places, None, Tables::file(file), None))
    }

    /// The same with so many daemons on a server.
    pub fn on_server(
        from: Timestamp,
        versions: &'a [Version],
        receivers: Receivers,
        subscribers: &[Subscriber],
        killing: Killing,
        several: Several,
    ) -> Course<'a> {
        let Several { daemons, server, hosts } = several;
        // A daemon that is stopped is not waited for as long as it would be by default.
        let fresh = server.schema();
        let url = format!("{fresh}%20-cidle_session_timeout%3D500%20-cidle_in_transaction_session_timeout%3D1000");
        let theirs = hosts.as_ref().map_or_else(|| url.clone(), |hosts| server.reached_at(&url, hosts.here()));
        let location: ServerUrl = fresh.parse().expect("an address");
        let places = (Place::new(), (1..daemons).map(|_| Place::new()).collect(), location.into());
        let tables = Tables::server(&url, server);
        let mut course = Course::on(from, versions, receivers, subscribers, killing, (places, Some(&theirs), tables, hosts));
        course.url = url;
        course
    }

    fn on(
        from: Timestamp,
        versions: &'a [Version],
        receivers: Receivers,
        subscribers: &[Subscriber],
        killing: Killing,
        ((place, others, location), url, mut tables, hosts): (Places, Option<&str>, Tables, Option<Hosts>),
    ) -> Course<'a> {
        let database = url.map_or_else(String::new, |url| format!("database = \"{url}\"\n"));
        // Whether two solutions are one quake is decided again at a poll, and polls come at other instants where deliveries fail.
        let configuration = format!(
            "{database}[feed]\nurl = \"file://{}\"\npoll = \"20ms\"\nmin_magnitude = 4.5\nduplicate_within = \"0s\"\n\
             [webhook]\nallow_private = true\n",
            place.path("feed.geojson").display()
        );
        for place in others.iter().chain([&place]) {
            place.write("throttler.toml", &configuration);
        }
        let secret = WebhookSecret::generate().expect("a secret").expose();
        let added: Vec<_> = subscribers.iter().map(|subscriber| (subscriber.clone(), Some(secret.clone()))).collect();
        let mut store = Store::open(location).expect("a database");
        store.add_subscribers(&added, from).expect("subscribers");
        drop(store);
        if let Tables::Server(asker, _) = &mut tables {
            trace(asker);
        }
        let mut course = Course {
            daemons: (0..=others.len()).map(|_| None).collect(),
            place,
            receivers,
            found: Found::default(),
            stops: 0,
            longest_down: Span::ZERO,
            down_since: [None; RECEIVERS],
            others,
            tables,
            url: String::new(),
            hosts,
            away: None,
            went_away: from.minus(LEASE),
            disturbances: Vec::new(),
            lost: Vec::new(),
            lost_attempts: BTreeSet::new(),
            now: from,
            versions,
            shown: 0,
            recorded: 0,
            killing,
        };
        course.set_clock(from);
        course.show(0);
        for at in 0..course.daemons.len() {
            course.start(at);
        }
        course
    }

    /// To the end: all that the feed shows is decided, all that was withheld is told, all is delivered.
    pub fn run(&mut self) {
        until("the first poll", || self.number("SELECT count(polled_at) FROM installation") == Some(1));
        let mut delivered = self.now.minus(DELIVERY_STEP);
        loop {
            self.decided();
            // So many instants at which somebody is woken lie close together that not each is one to look after deliveries.
            let mut next = self.next();
            if next.is_none_or(|(next, _)| next.since(delivered) >= DELIVERY_STEP) {
                self.delivered();
                delivered = self.now;
                next = self.next();
            }
            let Some((next, shows)) = next else { break };
            self.stops += 1;
            self.set_clock(next);
            if shows {
                self.time_is_known();
                self.show(self.shown + 1);
            }
            self.have_receivers_fail();
            self.go_on(false);
            self.start_again();
            if self.is_to_kill() {
                if self.daemons.len() > 1 { self.disturb() } else { self.kill(shows) }
            }
        }
        self.go_on(true);
        self.start_again();
        self.tables.close();
        for daemon in self.daemons.iter_mut().filter_map(Option::take) {
            assert_eq!(daemon.stop().code(), Some(0));
        }
    }

    /// Everything that a decision left, line by line and table by table.
    pub fn left(&mut self) -> BTreeMap<&'static str, Vec<String>> {
        self.tables.left()
    }

    /// The leases that were lost.
    pub fn lost(&mut self) -> Vec<Lost> {
        match &mut self.tables {
            Tables::File(..) => self.lost.clone(),
            Tables::Server(asker, _) => ran_out(asker),
        }
    }

    /// The attempts at each message.
    pub fn attempts(&mut self) -> HashMap<String, u64> {
        let rows = self.tables.lines("SELECT alert_id, attempts FROM outbox");
        let pairs = rows.iter().map(|row| row.split_once(' ').expect("two columns"));
        pairs.map(|(id, attempts)| (id.to_owned(), attempts.parse().expect("a number"))).collect()
    }

    /// The messages that did not arrive, and why.
    pub fn undelivered(&mut self) -> Vec<String> {
        self.tables
            .lines("SELECT alert_id, status, attempts, created_at, settled_at, detail FROM outbox WHERE status <> 'delivered'")
    }

    fn start(&mut self, at: usize) {
        let place = if at == 0 { &self.place } else { &self.others[at - 1] };
        // Each daemon has a log of its own.
        let _ = fs::remove_file(place.path("log"));
        let clock = self.place.path("clock").display().to_string();
        let variables = [("THROTTLER_TEST_CLOCK", clock.as_str()), ("THROTTLER_LOG", "throttler::daemon::service=info,error")];
        let entered = self.hosts.as_ref().map(|hosts| hosts.entered(at));
        self.daemons[at] = Some(Daemon::start_within(place, entered.as_deref(), &variables));
    }

    fn number(&mut self, sql: &str) -> Option<i64> {
        self.numbers(sql).swap_remove(0)
    }

    fn numbers(&mut self, sql: &str) -> Vec<Option<i64>> {
        if self.tables.is_closed() {
            // The daemon first: what it has to recover is not recovered for it.
            let daemon = self.daemons[0].as_ref().expect("a daemon");
            until("the daemon is up", || daemon.is_up());
        }
        self.tables.numbers(sql)
    }

    fn set_clock(&mut self, now: Timestamp) {
        self.now = now;
        // A request may come as soon as a daemon knows the time.
        self.receivers.clock.set(now);
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
            let updated_at = match &self.tables {
                Tables::File(..) => "json_extract(body, '$.updated_at')",
                Tables::Server(..) => "body::json ->> 'updated_at'",
            };
            let told = if version.event.is_withdrawn() {
                "withdrawn_at IS NOT NULL".to_owned()
            } else {
                format!("{updated_at} >= '{}'", version.at)
            };
            let id = version.event.id.as_str();
            let sql = format!("SELECT count(*) FROM event_ids JOIN events USING (event_key) WHERE id = '{id}' AND {told}");
            if self.number(&sql) != Some(1) {
                return false;
            }
            self.recorded += 1;
        }
        true
    }

    /// Until nobody works by an earlier time: a daemon looks at the clock, and then waits for its database.
    fn time_is_known(&mut self) {
        let polled = format!("SELECT count(*) FROM installation WHERE polled_at >= {}", self.now.minus(POLL_NOTED).ticks());
        let Tables::Server(..) = &self.tables else {
            until("a poll at this time", || self.number(&polled) == Some(1));
            return;
        };
        let began = self.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8").expect("the time");
        until("a poll at this time", || self.number(&polled) == Some(1));
        let before = format!("extract(epoch FROM a.xact_start) * 1000000 < {began}");
        until("nobody writes since an earlier one", || {
            let writing = writing(&before);
            self.number(&format!("SELECT {writing}")) == Some(0)
        });
    }

    /// Until all is decided.
    fn decided(&mut self) {
        until("the feed is recorded", || self.is_recorded());
        let now = self.now.ticks();
        let open = format!(
            "SELECT (SELECT count(*) FROM events WHERE dispatch_from IS NOT NULL)
                  + (SELECT count(*) FROM events WHERE update_from IS NOT NULL)
                  + (SELECT count(*) FROM subscribers WHERE wake_at <= {now})
                  + (SELECT count(*) FROM subscribers WHERE update_wake_at <= {now})"
        );
        until("all is decided", || self.number(&open) == Some(0));
    }

    /// Until all is delivered as far as it can be now.
    fn delivered(&mut self) {
        let (mut looks, mut doubts, mut doubtful) = (0, 0, 0);
        until("nothing is under way", || {
            let look = self.look();
            doubts = if look.doubtful == doubtful { doubts + 1 } else { 0 };
            doubtful = look.doubtful;
            if look.leased > 0 || (look.doubtful > 0 && doubts < LOOKS_FOR_LOST) {
                looks = 0;
                return false;
            }
            looks += u32::from(!look.busy);
            // Where nobody fails no breaker opens.
            (looks > LOOKS && self.killing.kills > 0) || !look.due
        });
    }

    /// Of several daemons only those that run count: what others have leased waits for its lease to run out.
    fn look(&mut self) -> Look {
        let now = self.now.ticks();
        let due =
            format!("(SELECT count(*) FROM (SELECT 1 FROM outbox WHERE status = 'due' AND due_at <= {now} LIMIT 1) AS found)");
        let leased = "(SELECT count(*) FROM outbox WHERE status = 'leased'";
        let sql = if let Tables::Server(..) = &self.tables {
            let away = self.away.map(|away| away.at);
            let running = self.daemons.iter().enumerate().filter(|(at, _)| Some(*at) != away);
            let theirs =
                running.filter_map(|(_, daemon)| Some(format!("lease_owner LIKE 'process {} %'", daemon.as_ref()?.id())));
            let theirs = theirs.collect::<Vec<_>>().join(" OR ");
            let doubtful = self.went_away.plus(LEASE).ticks();
            let writing = writing("a.xact_start < clock_timestamp() - interval '10 ms'");
            format!(
                "SELECT {leased} AND lease_until > {doubtful} AND ({theirs})),
                        {leased} AND lease_until <= {doubtful} AND ({theirs})), {due},
                        {writing}"
            )
        } else {
            format!("SELECT {leased}), 0, {due}, 0")
        };
        let numbers: Vec<i64> = self.numbers(&sql).into_iter().map(|number| number.expect("a count")).collect();
        Look { leased: numbers[0], doubtful: numbers[1], due: numbers[2] > 0, busy: numbers[3] > 0 }
    }

    fn leases(&mut self) -> Option<i64> {
        self.number("SELECT count(*) FROM outbox WHERE status = 'leased'")
    }

    /// When there is something to do next, and whether that is a version to be shown. What is due first is done before anything new
    /// is shown, also if that comes at the same instant.
    fn next(&mut self) -> Option<(Timestamp, bool)> {
        let rows = self.next_of_rows();
        let version = self.versions.get(self.shown).map(|version| version.at);
        let next = rows.into_iter().chain(version).min()?;
        Some((next, rows != Some(next)))
    }

    /// When somebody is to be woken, or deliveries are looked after.
    fn next_of_rows(&mut self) -> Option<Timestamp> {
        let wake = "SELECT min(at) FROM (SELECT min(wake_at) AS at FROM subscribers UNION ALL
                                         SELECT min(update_wake_at) FROM subscribers) AS instants";
        let wake = self.number(wake).map(|ticks| Timestamp::from_ticks(ticks).expect("an instant"));
        let delivery = "SELECT min(at) FROM (SELECT min(due_at) AS at FROM outbox WHERE status = 'due' UNION ALL
                                             SELECT min(0 * lease_until) FROM outbox WHERE status = 'leased') AS instants";
        let delivery = self.number(delivery).map(|ticks| Timestamp::from_ticks(ticks).expect("an instant"));
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
}
