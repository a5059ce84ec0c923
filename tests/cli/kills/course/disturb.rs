//! What daemons suffer: they are killed, stopped, cut off; their server goes away. And what they leave then.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use throttler::time::Timestamp;

use super::{AWAY_FOR, Away, Course, Disturbance, LOOKS_FOR_REQUEST, Lost, POLLING, Tables, lines, open, until};
use crate::daemon::Daemon;

impl Course<'_> {
    /// Kills it somewhere in what it does at this instant, and sometimes once more while it starts.
    pub(super) fn kill(&mut self, shows: bool) {
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
            let is_up = self.daemons[0].as_ref().is_some_and(Daemon::is_up);
            self.tables.close();
            self.daemons[0].take().expect("a daemon").kill();
            self.found.kills += 1;
            self.found.starting += u64::from(!is_up);
            self.inspect();
            self.start(0);
            if self.found.kills >= self.killing.kills || self.killing.chance.below(5) > 0 {
                return;
            }
            moment = self.killing.chance.below(120_000);
        }
    }

    /// One of several daemons is killed or stopped, or all lose their sessions, or their server, in turn.
    pub(super) fn disturb(&mut self) {
        let mut at = usize::try_from(self.killing.chance.below(self.daemons.len() as u64)).expect("small");
        if self.killing.chance.below(4) == 0 {
            sleep(Duration::from_micros(self.killing.chance.below(60_000)));
        } else {
            // One with requests under way.
            let (mut looks, mut sends) = (0, None);
            until("a request is under way, or none comes", || {
                looks += 1;
                sends = self.sending();
                looks > LOOKS_FOR_REQUEST || sends.is_some()
            });
            at = sends.unwrap_or(at);
            sleep(Duration::from_micros(self.killing.chance.below(15_000)));
        }
        self.found.kills += 1;
        let turn = self.found.kills % if self.hosts.is_some() { 8 } else { 6 };
        match turn {
            1 if self.away.is_none() => {
                self.daemons[at].as_ref().expect("a daemon").signal("STOP");
                self.goes_away(at, false);
                self.found.stopped += 1;
            }
            3 => {
                let Tables::Server(_, server) = &self.tables else { unreachable!("several have a server") };
                server.crash();
                self.went_away = self.now;
                self.disturbed(None, self.now);
                self.found.crashes += 1;
            }
            5 => {
                let all = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'throttler'";
                self.number(all);
                self.went_away = self.now;
                self.disturbed(None, self.now);
                self.found.cut_off += 1;
            }
            6 | 7 if self.away.is_none() => self.cut(),
            _ => {
                if self.away.is_some_and(|away| away.at == at) {
                    self.comes_back();
                }
                self.found.starting += u64::from(self.daemons[at].as_ref().is_some_and(|daemon| !daemon.is_up()));
                self.disturbed(Some(at), self.now);
                self.daemons[at].take().expect("a daemon").kill();
                self.found.leases += self.leases().unwrap_or(0).unsigned_abs();
                self.start(at);
            }
        }
    }

    /// A daemon that has leased something, of those that do anything.
    fn sending(&mut self) -> Option<usize> {
        let owners = self.tables.lines("SELECT DISTINCT lease_owner FROM outbox WHERE status = 'leased'");
        let away = self.away.map(|away| away.at);
        let any = usize::try_from(self.killing.chance.below(self.daemons.len() as u64)).expect("small");
        let mut running =
            self.daemons.iter().enumerate().cycle().skip(any).take(self.daemons.len()).filter(|(at, _)| Some(*at) != away);
        let has_some = |daemon: &Daemon| owners.iter().any(|owner| owner.starts_with(&format!("process {} ", daemon.id())));
        running.find(|(_, daemon)| daemon.as_ref().is_some_and(has_some)).map(|(at, _)| at)
    }

    /// The host of the daemon that polls is cut off, and another daemon polls.
    fn cut(&mut self) {
        let mut polling = None;
        until("a daemon polls", || {
            polling = self.polling();
            polling.is_some()
        });
        let at = polling.expect("one");
        self.hosts.as_ref().expect("hosts").cut(at);
        self.goes_away(at, true);
        until("another polls", || self.polling().is_some_and(|other| other != at));
        self.found.cut += 1;
    }

    /// Which daemon polls, by the host that holds the lock.
    fn polling(&mut self) -> Option<usize> {
        let hosts = self.hosts.as_ref()?;
        let sql = format!(
            "SELECT host(a.client_addr) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
             WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {POLLING}
               AND l.objid = current_schema()::regnamespace::oid"
        );
        let address = self.tables.lines(&sql).pop()?;
        (0..self.daemons.len()).find(|at| hosts.address(*at).to_string() == address)
    }

    /// One that found no server when it started has ended, and is started again as systemd would.
    pub(super) fn start_again(&mut self) {
        for at in 0..self.daemons.len() {
            if let Some(status) = self.daemons[at].as_mut().and_then(Daemon::status) {
                assert!(status.code() == Some(1) && self.found.crashes + self.found.cut_off > 0, "{status}");
                self.found.restarted += 1;
                self.start(at);
            }
        }
    }

    /// From now on this daemon, or each, may lose leases that it has.
    fn disturbed(&mut self, at: Option<usize>, to: Timestamp) {
        let process = at.map(|at| self.daemons[at].as_ref().expect("a daemon").id());
        self.disturbances.push(Disturbance { process, from: self.now, to });
    }

    fn goes_away(&mut self, at: usize, is_cut: bool) {
        self.away = Some(Away { at, since: self.now, is_cut });
        self.disturbed(Some(at), Timestamp::MAX);
    }

    /// A daemon that is stopped or cut off goes on when its leases have run out, or at once.
    pub(super) fn go_on(&mut self, at_once: bool) {
        if self.away.is_some_and(|away| at_once || self.now.since(away.since) > AWAY_FOR) {
            self.comes_back();
        }
    }

    fn comes_back(&mut self) {
        let Some(Away { at, is_cut, .. }) = self.away.take() else { return };
        let daemon = self.daemons[at].as_ref().expect("a daemon");
        if is_cut {
            self.hosts.as_ref().expect("hosts").join(at);
        } else {
            daemon.signal("CONT");
        }
        let lasts = |disturbance: &&mut Disturbance| disturbance.process == Some(daemon.id());
        for disturbance in self.disturbances.iter_mut().filter(lasts) {
            disturbance.to = disturbance.to.min(self.now);
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
        let count = |sql: &str| left.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql).unsigned_abs();
        assert_eq!(count("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
        assert_eq!(count("SELECT count(*) FROM pragma_foreign_key_check"), 0);
        let orphans = "SELECT count(*) FROM outbox AS o
                       WHERE (SELECT count(*) FROM decisions AS d WHERE d.delivery_key = o.delivery_key) = 0
                         AND (SELECT count(*) FROM updates AS u WHERE u.delivery_key = o.delivery_key) = 0";
        assert_eq!(count(orphans), 0, "a message that nobody decided");
        let undecided = count("SELECT count(*) FROM events WHERE dispatch_from IS NOT NULL OR update_from IS NOT NULL");
        let rows = lines(&left, "SELECT alert_id, lease_owner, attempts FROM outbox WHERE status = 'leased'");
        for row in &rows {
            let (alert, rest) = row.split_once(' ').expect("three columns");
            let (owner, attempts) = rest.rsplit_once(' ').expect("three columns");
            if self.lost_attempts.insert((alert.to_owned(), attempts.parse().expect("a number"))) {
                self.lost.push(Lost { alert: alert.to_owned(), owner: owner.to_owned(), at: self.now });
            }
        }
        let leases = rows.len() as u64;
        let due = count("SELECT count(*) FROM outbox WHERE status = 'due'");
        self.found.undecided += u64::from(undecided > 0);
        self.found.sending += u64::from(leases > 0);
        self.found.leases += leases;
        self.found.due += u64::from(due > 0);
    }
}
