//! Deliver: from the outbox to the destinations, and back to a receipt in the row.

mod attempt;
mod channels;
mod lined_up;
mod notices;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{sleep, timeout};

pub use self::attempt::{MAX_AGE, RETRY_BASE, RETRY_MAX};
pub use self::channels::Egress;

use self::attempt::{Attempted, Measured, attempt, not_attempted};
use self::channels::{Channels, Class, Told};
use self::lined_up::LinedUp;
use super::outside::{Asked, Outside};
use super::settings::Sending;
use super::{Database, Metrics, Operator};
use crate::breaker::Change;
use crate::channel::{Channel, Lane};
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::limiter::Verdict;
use crate::notice::Way;
use crate::store::{Ahead, Claim, Claimed, Claims, Room as _, Settlement, Store, StoreError};
use crate::time::{Span, Timestamp};

/// Attempts under way at once.
pub const MAX_IN_FLIGHT: usize = 512;
/// How long an attempt is nobody else's: well above what its timeouts allow.
pub const LEASE: Span = Span::from_seconds(300);
/// Under which target attempts log what became of them.
const LOG: &str = "throttler::daemon::deliver";
/// What the outbox says of attempts that a stop cut off.
const CUT_OFF: &str = "cut off by a stop of the daemon, after which it may arrive twice";

/// Claims, attempts and settles deliveries.
pub struct Deliverer {
    database: Database,
    delivery: Arc<Delivery>,
    clock: Arc<dyn Clock>,
    owner: String,
    channels: Channels,
    /// Where the state of shared limits is, if there are any.
    outside: Option<Outside>,
    attempts: JoinSet<Attempted>,
    lined_up: LinedUp,
    /// Whether only a turn starts attempts: others have a better claim on the next, or the database does not work.
    in_turns: bool,
    /// Whose attempt a task is, in case that it breaks.
    tasks: HashMap<Id, (Lane, Option<Way>)>,
    /// What became of attempts, until it is written; bounded, since nothing is claimed before.
    ended: Vec<(i64, Settlement)>,
    /// To whom notices go, if to anybody.
    operator: Option<Arc<Operator>>,
    /// Ways by which a notice is under way: one at a time by each, beside all others.
    notices: Vec<Way>,
    /// What became of notices, until it is written: at most one for each way.
    ended_notices: Vec<(i64, Settlement)>,
    /// Channels whose probe failed, with what it said: what waited too long for them is given up.
    failed_probes: Vec<(Channel, String)>,
    metrics: Arc<Metrics>,
}

impl Deliverer {
    /// A deliverer without attempts under way, and without limits on what leaves.
    #[must_use]
    pub fn new(database: Database, delivery: Arc<Delivery>, clock: Arc<dyn Clock>) -> Deliverer {
        Deliverer::with_limits(database, delivery, clock, Egress::default())
    }

    /// The same with the operator's limits.
    #[must_use]
    pub fn with_limits(database: Database, delivery: Arc<Delivery>, clock: Arc<dyn Clock>, egress: Egress) -> Deliverer {
        Deliverer {
            database,
            delivery,
            clock,
            owner: format!("process {} ({:016x})", std::process::id(), random()),
            outside: egress.store.clone().map(Outside::new),
            channels: Channels::new(egress),
            attempts: JoinSet::new(),
            lined_up: LinedUp::default(),
            in_turns: false,
            tasks: HashMap::new(),
            ended: Vec::new(),
            operator: None,
            notices: Vec::new(),
            ended_notices: Vec::new(),
            failed_probes: Vec::new(),
            metrics: Arc::default(),
        }
    }

    /// The same, counting its attempts here.
    #[must_use]
    pub fn counting(self, metrics: Arc<Metrics>) -> Deliverer {
        metrics.limits_stand(self.channels.standings(self.clock.now()), &[]);
        Deliverer { metrics, ..self }
    }

    /// Takes over other settings. Attempts under way end as they began; what is known of the channels stays.
    pub fn take_over(&mut self, sending: Sending) {
        let before = std::mem::replace(&mut self.delivery, sending.delivery);
        let now = self.clock.now();
        let store = sending.egress.store.clone();
        if !self.outside.as_ref().zip(store.as_ref()).is_some_and(|(outside, store)| outside.is_at(store)) {
            self.outside = store.map(Outside::new);
        }
        self.channels.limit(sending.egress, now);
        self.mind_the_store(now);
        self.metrics.limits_stand(self.channels.standings(now), &[]);
        // Its idle connections are of no more use; the others end with their attempts.
        tokio::spawn(async move { before.close().await });
    }

    /// How many attempts are under way.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.attempts.len()
    }

    /// The same, which also delivers notices to this operator.
    #[must_use]
    pub fn with_operator(self, operator: Arc<Operator>) -> Deliverer {
        Deliverer { operator: Some(operator), ..self }
    }

    /// Writes what became of the attempts that have ended, and claims and starts attempts at what is due, as far as there is
    /// room: when to look again if nothing ends before; `None` if nothing waits. Meanwhile attempts go on.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is started then, and what ended is written by the
    /// next turn.
    pub async fn turn(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let now = self.clock.now();
        self.mind_the_store(now);
        self.give_back(&[], now);
        let (owner, mut rooms, settled) = (self.owner.clone(), self.channels.rooms(now, &self.lined_up), self.ended.clone());
        let (lanes, most_ahead) = self.lined_up.wanted(|lane| self.channels.may_line_up(lane, now));
        let most = MAX_IN_FLIGHT.saturating_sub(self.alerts_under_way());
        let (written, failed_probes, waiting) = (settled.len(), self.failed_probes.clone(), self.lined_up.keys());
        let probes = failed_probes.len();
        let (database, clock) = (self.database.clone(), Arc::clone(&self.clock));
        let work = database.with(move |store| {
            // Leases last from when it gets the database, which others may have had for long.
            let now = clock.now();
            let claim = Claim { owner: &owner, most, lease: LEASE, now };
            let ahead = Ahead { lanes: &lanes, most: most_ahead };
            let claims = store.settle_and_claim(&settled, claim, &mut rooms, ahead)?;
            for (channel, reason) in failed_probes {
                let given_up = store.give_up(&channel, now.minus(MAX_AGE), &too_old(&reason), now)?;
                if given_up > 0 {
                    tracing::error!(%channel, "{given_up} messages waited longer than {MAX_AGE} and are given up: {reason}");
                }
            }
            // What was claimed is started whether the rest can be read or not.
            Ok((claims, rooms.refusing(), store.called_back(&owner, &waiting), store.next_due(now), store.has_notices()))
        });
        let (Claims { claimed, ran_out }, refusing, called_back, next_due, has_notices) = match self.beside(work).await {
            Ok(done) => done,
            Err(fault) => {
                self.in_turns = true;
                return Err(fault);
            }
        };
        self.ended.drain(..written);
        let failed_probes = self.failed_probes.drain(..probes).collect();
        if ran_out > 0 {
            self.metrics.leases_lost(ran_out);
            tracing::warn!(
                "{ran_out} deliveries were leased for {LEASE} and not settled, since a daemon died or was cut off; they are \
                 attempted again, and may arrive a second time under the same id"
            );
        }
        for claimed in claimed {
            self.lined_up.push(claimed, now);
        }
        self.give_back(&called_back?, now);
        self.start(now).await;
        self.metrics.limits_stand(self.channels.standings(now), &refusing);
        // Mostly there are none, and then they cost one look at an index.
        let next_notice = if has_notices? { self.turn_of_notices(failed_probes, now).await? } else { None };
        let next_probe = self.outside.as_ref().and_then(|outside| outside.next_probe(now));
        Ok(next_due?.into_iter().chain(next_notice).chain(self.channels.next_change(now)).chain(next_probe).min())
    }

    /// Looks for the shared store if it is away, and lets the limits know whether it is.
    fn mind_the_store(&mut self, now: Timestamp) {
        if let Some(outside) = &mut self.outside {
            outside.look_for_it(now);
        }
        let away = self.outside.as_ref().is_some_and(Outside::is_away);
        self.channels.layers().store_is_away(away);
        self.metrics.store_is_away(self.outside.as_ref().map(|_| away));
    }

    /// Awaits work of the database while attempts end and others begin.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(ended) = self.attempts.join_next_with_id(), if !self.attempts.is_empty() => self.note(ended),
            }
        }
    }

    /// Gives back what is lined up and is not to be attempted: these, and what waits by a lane that does not go on.
    fn give_back(&mut self, called_back: &[i64], now: Timestamp) {
        let given_back = self.lined_up.take_back(called_back, |lane| self.channels.has_room_later(lane, now), now);
        self.ended.extend(given_back.into_iter().map(|key| (key, Settlement::GivenBack)));
    }

    /// Starts attempts at what is lined up, the first of all first, as far as there is room, and as the shared store lets it.
    async fn start(&mut self, now: Timestamp) {
        let mut rooms = self.channels.rooms(now, &LinedUp::default());
        let mut heads = self.lined_up.heads();
        let (mut asking, mut is_full) = (Vec::new(), false);
        while let Some(Reverse((_, lane))) = heads.pop() {
            if !rooms.take(&lane) {
                continue;
            }
            is_full = self.alerts_under_way() + asking.len() >= MAX_IN_FLIGHT;
            if is_full {
                break;
            }
            let asks = !self.channels.layers().for_the_store(&lane).is_empty();
            match self.lined_up.next_of(&lane) {
                Some(claimed) if asks => asking.push(claimed),
                Some(claimed) => self.begin(claimed, now),
                None => {}
            }
            heads.extend(self.lined_up.head_of(&lane).map(|place| Reverse((place, lane))));
        }
        if !asking.is_empty() {
            // Nothing else takes their places meanwhile.
            self.in_turns = true;
            self.ask_and_begin(asking, now).await;
        }
        self.in_turns = is_full;
    }

    /// Asks the shared store about these, and begins what it lets pass. What it refuses waits. Where it does not answer, each
    /// limit's outage policy decides.
    async fn ask_and_begin(&mut self, asking: Vec<Claimed>, now: Timestamp) {
        let Some(mut outside) = self.outside.take() else {
            // Limits of which nobody can decide: nothing passes.
            self.ended.extend(asking.into_iter().map(|claimed| (claimed.delivery_key, Settlement::GivenBack)));
            return;
        };
        let asked = Asked::about(asking.iter().map(|claimed| &claimed.lane), self.channels.layers());
        let answers = match &asked {
            Ok(asked) => self.beside(outside.ask(asked, now, random())).await,
            Err(_) => Ok(Vec::new()),
        };
        let away = outside.is_away();
        self.outside = Some(outside);
        if let (Ok(asked), Ok(answers)) = (&asked, &answers) {
            let mut answers = answers.iter();
            for claimed in asking {
                match answers.next() {
                    Some(answer) if answer.verdict == Verdict::Admitted => self.begin(claimed, now),
                    answer => {
                        self.ended.push((claimed.delivery_key, Settlement::GivenBack));
                        if let Some((answer, at)) = answer.and_then(|answer| Some((answer, asked.refused_by(answer)?))) {
                            self.channels.layers().store_refuses(at, now.plus(answer.wait));
                            self.metrics.refused(&[at]);
                        }
                    }
                }
            }
            return;
        }
        self.channels.layers().store_is_away(true);
        for claimed in asking {
            if self.channels.has_room(&claimed.lane, now) {
                self.begin(claimed, now);
            } else {
                self.ended.push((claimed.delivery_key, Settlement::GivenBack));
            }
        }
        self.channels.layers().store_is_away(away);
        self.metrics.store_is_away(Some(away));
    }

    fn start_next_of(&mut self, lane: &Lane, now: Timestamp) {
        if let Some(claimed) = self.lined_up.next_of(lane) {
            self.begin(claimed, now);
        }
    }

    fn begin(&mut self, claimed: Claimed, now: Timestamp) {
        let lane = claimed.lane.clone();
        let is_limited = self.channels.is_limited(&lane);
        let wait = self.channels.begun(&lane, Class::Alert, now).since(now);
        self.metrics.admitted(&self.channels.covering(&lane));
        let (delivery, clock) = (Arc::clone(&self.delivery), Arc::clone(&self.clock));
        let database = self.database.clone();
        let task = self.attempts.spawn(async move {
            if wait > Span::ZERO {
                sleep(wait.to_std()).await;
                let who = claimed.enrolment;
                // Its recipient may have left meanwhile. A database that fails is no reason to hold an alert back.
                if database.with(move |store| store.is_unsubscribed(who)).await.unwrap_or(false) {
                    return not_attempted(claimed);
                }
            }
            attempt(&delivery, &*clock, claimed, is_limited).await
        });
        self.tasks.insert(task.id(), (lane, None));
    }

    /// Waits until an attempt ends whose receipt is not written; for ever if none is under way. May be dropped while waiting.
    pub async fn one_ended(&mut self) {
        if !self.ended.is_empty() || !self.ended_notices.is_empty() {
            return;
        }
        let probed = async {
            match &mut self.outside {
                Some(outside) => outside.probed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(first) = self.attempts.join_next_with_id(), if !self.attempts.is_empty() => self.note(first),
            found = probed => {
                let now = self.clock.now();
                if let Some(outside) = &mut self.outside {
                    outside.found(&found, now, random());
                }
                self.mind_the_store(now);
            }
        }
        while let Some(next) = self.attempts.try_join_next_with_id() {
            self.note(next);
        }
    }

    /// Notes what became of an attempt, for the next turn.
    fn note(&mut self, ended: Result<(Id, Attempted), JoinError>) {
        let now = self.clock.now();
        let (lane, way, told, reason) = match ended {
            Ok((id, Attempted { delivery_key, lane, way, settlement, told, measured })) => {
                self.tasks.remove(&id);
                if let Some(Measured { attempt, took, latency }) = measured {
                    self.metrics.attempted(lane.channel(), attempt, took);
                    if let Some(latency) = latency {
                        self.metrics.received(lane.channel(), latency);
                    }
                }
                let reason = match &settlement {
                    Settlement::Delivered { detail: reason }
                    | Settlement::Retry { reason, .. }
                    | Settlement::Dead { reason, .. } => reason.clone(),
                    Settlement::GivenBack => String::new(),
                };
                let ended = if way.is_some() { &mut self.ended_notices } else { &mut self.ended };
                ended.push((delivery_key, settlement));
                (lane, way, told, reason)
            }
            Err(fault) => {
                tracing::error!("an attempt at delivery broke, its lease runs out: {fault}");
                let Some((lane, way)) = self.tasks.remove(&fault.id()) else { return };
                (lane, way, Told::Nothing, String::new())
            }
        };
        self.notices.retain(|under_way| Some(*under_way) != way);
        let class = if way.is_some() { Class::Notice } else { Class::Alert };
        let channel = lane.channel();
        match self.channels.ended(channel, class, told, now, random()) {
            Some(Change::Opened { probe_at }) => {
                tracing::warn!(%channel, "held up after failures in a row; it is tried again at {probe_at}: {reason}");
            }
            Some(Change::StillOpen { .. }) if self.channels.failed_for(channel, MAX_AGE, now) => {
                self.failed_probes.push((channel.clone(), reason));
            }
            Some(Change::Closed) => tracing::info!(%channel, "answers again; what waited for it goes on"),
            Some(Change::StillOpen { .. }) | None => {}
        }
        if way.is_some() {
            return;
        }
        self.lined_up.note_end(&lane);
        if self.in_turns || self.is_full() {
            return;
        }
        if let Some(next) = self.lined_up.first_lane_of(channel, |lane| self.channels.has_room(lane, now)) {
            self.start_next_of(&next, now);
        }
    }

    /// Attempts everything that is due, until nothing is.
    ///
    /// # Errors
    /// As [`Deliverer::turn`].
    pub async fn all(&mut self) -> Result<(), StoreError> {
        loop {
            self.turn().await?;
            let all_is_written = self.ended.is_empty() && self.ended_notices.is_empty();
            if self.attempts.is_empty() && all_is_written && self.lined_up.count() == 0 {
                return Ok(());
            }
            self.one_ended().await;
        }
    }

    /// Waits so long for the attempts under way and writes what became of them, without starting others. Those that are left
    /// then are cut off and handed back: they are due again, and may arrive twice. How many.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be written; the leases then run out, or the next start recovers them.
    pub async fn finish(&mut self, patience: Span) -> Result<usize, StoreError> {
        let given_back = self.lined_up.take_all();
        self.ended.extend(given_back.into_iter().map(|key| (key, Settlement::GivenBack)));
        let all_ended = async {
            loop {
                // A database that fails may work again before the end, which tells if it does not.
                let _ = self.settle().await;
                match self.attempts.join_next_with_id().await {
                    Some(ended) => self.note(ended),
                    None => return,
                }
            }
        };
        let _ = timeout(patience.to_std(), all_ended).await;
        self.attempts.abort_all();
        while let Some(ended) = self.attempts.join_next_with_id().await {
            match ended {
                Err(fault) if fault.is_cancelled() => {
                    // Notices are not counted among the attempts.
                    if let Some((lane, None)) = self.tasks.remove(&fault.id()) {
                        self.metrics.cut_off(lane.channel());
                    }
                }
                ended => self.note(ended),
            }
        }
        self.settle().await?;
        let (owner, now) = (self.owner.clone(), self.clock.now());
        self.database.with(move |store| store.hand_back(&owner, CUT_OFF, now)).await
    }

    /// Writes what became of attempts that have ended.
    async fn settle(&mut self) -> Result<(), StoreError> {
        let (owner, now, settled) = (self.owner.clone(), self.clock.now(), self.ended.clone());
        let notices = self.ended_notices.clone();
        let settle = move |store: &mut Store| {
            store.settle(&owner, &settled, now)?;
            let claim = Claim { owner: &owner, most: 0, lease: LEASE, now };
            store.settle_and_claim_notices(&notices, claim, &[]).map(|_| ())
        };
        self.database.with(settle).await?;
        self.ended.clear();
        self.ended_notices.clear();
        Ok(())
    }

    /// Ends idle connections politely.
    pub async fn close(&self) {
        self.delivery.close().await;
    }

    /// How many deliveries are claimed and wait for a free connection.
    #[must_use]
    pub fn lined_up(&self) -> usize {
        self.lined_up.count()
    }

    /// Whether there is no room for another attempt.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.alerts_under_way() >= MAX_IN_FLIGHT
    }

    /// Notices go beside these.
    fn alerts_under_way(&self) -> usize {
        self.attempts.len().saturating_sub(self.notices.len())
    }
}

fn too_old(reason: &str) -> String {
    format!("given up after waiting {MAX_AGE} for a host that fails: {reason}")
}

/// Without randomness waits are merely less spread out.
fn random() -> u64 {
    getrandom::u64().unwrap_or(u64::MAX)
}
