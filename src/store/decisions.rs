//! Deciding in chunks: one event and a range of subscribers in one transaction that holds the decisions, the limiters' new
//! states and the outbox rows. What to decide is the caller's; that all of it is written or nothing is the store's.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::messages::{Addressed, Writer};
use super::rows::{At, Json};
use super::shared::{self, Nudge, Share};
use super::sql::{self, Batch, OptionalExtension, Transaction, params};
use super::subscribers::{SharedParts, StoredSubscriber, SubscriberKey, column, read_limiter};
use super::{Store, StoreError, queries, step};
use crate::event::Event;
use crate::limiter::{Algorithm, Limiter};
use crate::plan::{Outcome, Plan};
use crate::subscriber::Subscriber;
use crate::time::{Span, Timestamp};

/// Subscribers that one transaction decides on. Small enough that nothing else waits long, large enough to spread the sync.
pub(super) const CHUNK: i64 = 4_000;

/// The longest between a look at the clock and what is dated by it. What is known from further ahead was recorded by a clock that
/// was set back since, and nobody waits until it shows that again.
const LONGEST_WAIT: Span = Span::from_seconds(3_600);

/// An event on which subscribers are still to be asked.
#[derive(Clone, Debug)]
pub struct DispatchTask {
    pub event_key: i64,
    pub event: Arc<Event>,
    first_seen_at: Timestamp,
    /// When it was last revised, and subscribers were to be asked. No decision on it is dated earlier.
    pub(super) changed_at: Timestamp,
    baseline: bool,
    /// Whether it was to be confirmed, and was not in time.
    pub unconfirmed: bool,
    pub(super) from: i64,
}

/// A subscriber who is asked: interested, active, and not yet decided on this event.
#[derive(Debug)]
pub struct Candidate<'a> {
    pub subscriber: &'a Subscriber,
    pub limiter: &'a mut Limiter,
    /// When: now, or when what it is asked about became known, if that is later, by up to an hour. Whoever looked at the clock, and
    /// then waited for others to write, dates nothing before what they wrote.
    pub now: Timestamp,
}

/// What one chunk did.
#[derive(Debug, Default)]
pub struct Chunk {
    /// The subscribers' names with what was decided, in order.
    pub decided: Vec<(String, Plan)>,
    /// How many decisions there were with each outcome under each algorithm, the undecided included; `None` where a
    /// subscriber's settings cannot be read.
    pub tally: HashMap<(Outcome, Option<Algorithm>), u64>,
    /// Subscribers whose limiter or settings cannot be read, with the fault: nothing was decided for them.
    pub undecided: Vec<(String, String)>,
    /// Whether subscribers are left for another chunk.
    pub more: bool,
}

impl Store {
    /// The event to decide next: the largest that is not finished.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn next_dispatch(&self) -> Result<Option<DispatchTask>, StoreError> {
        let task = self.connection.prepare_cached(queries::NEXT_DISPATCH).and_then(|mut statement| {
            statement
                .query_row([], |row| {
                    Ok(DispatchTask {
                        event_key: row.get("event_key")?,
                        event: Arc::new(row.get::<_, Json<Event>>("body")?.0),
                        first_seen_at: row.get::<_, At>("first_seen_at")?.0,
                        changed_at: row.get::<_, At>("changed_at")?.0,
                        baseline: row.get("baseline")?,
                        unconfirmed: row.get("unconfirmed")?,
                        from: row.get("dispatch_from")?,
                    })
                })
                .optional()
        });
        task.map_err(step("find the next event to decide"))
    }

    /// Decides the task's event for its next chunk of subscribers, calling `decide` for each candidate.
    ///
    /// # Errors
    /// [`StoreError`] if the database cannot be read or written; nothing is decided then.
    pub fn decide_chunk(
        &mut self,
        task: &DispatchTask,
        now: Timestamp,
        mut decide: impl FnMut(Candidate<'_>, &Arc<Event>) -> Plan,
    ) -> Result<Chunk, StoreError> {
        let now = dated(now, task.changed_at);
        shared::share_out(&self.connection, task, CHUNK)?;
        let begin = self.connection.begin_beside_others();
        let transaction = begin.map_err(step("begin a decision"))?;
        let Some(share) = shared::claim_share(&transaction, task)? else {
            drop(transaction);
            shared::close_event(&self.connection, task)?;
            return Ok(Chunk { more: true, ..Chunk::default() });
        };
        let stored = next_subscribers(&transaction, share)?;
        let mut chunk = Chunk { more: stored.len() == usize::try_from(CHUNK).unwrap_or(usize::MAX), ..Chunk::default() };
        let next = stored.last().map(|(key, ..)| key.0 + 1);
        let decided = decided_subscribers(&transaction, task, share, next)?;
        let mut messages = Writer::new(&transaction, &self.installation);
        let mut writing = Writing::new(&transaction).map_err(step("begin a decision"))?;
        for (key, name, stored) in stored {
            if decided.contains(&key.0) {
                continue;
            }
            let stored = match stored {
                Ok(stored) => stored,
                Err(fault) => {
                    let fault = format!("its settings cannot be read: {fault}");
                    write_undecided(&transaction, task.event_key, key, &fault, now)?;
                    chunk.count(Outcome::Undecided, None);
                    chunk.undecided.push((name, fault));
                    continue;
                }
            };
            if !stored.subscriber.interest.matches(&task.event) || !is_news(&transaction, task, &stored)? {
                continue;
            }
            let StoredSubscriber { subscriber, limiter, .. } = stored;
            let algorithm = subscriber.policy.limit.algorithm();
            let first = matches!(limiter, Ok(None));
            let mut limiter = match limiter {
                Ok(limiter) => carried(limiter, &subscriber, now),
                Err(fault) => {
                    write_undecided(&transaction, task.event_key, key, &fault, now)?;
                    chunk.count(Outcome::Undecided, Some(algorithm));
                    chunk.undecided.push((name, fault));
                    continue;
                }
            };
            let plan = decide(Candidate { subscriber: &subscriber, limiter: &mut limiter, now }, &task.event);
            let to = Addressed { key, subscriber: &subscriber, event_key: task.event_key, ending: "" };
            let delivery = plan.message.as_ref().map(|message| messages.write(to, message, now)).transpose()?;
            let written = writing.decision(task.event_key, key, &plan, delivery, now);
            written.map_err(step("write a decision"))?;
            writing.state(key, &limiter, first).map_err(step("write a limiter's state"))?;
            if let Some(wake_at) = plan.wake_at {
                writing.wake_by(key, wake_at).map_err(step("write when to ask a limiter again"))?;
            }
            chunk.count(plan.outcome, Some(algorithm));
            chunk.decided.push((name, plan));
        }
        messages.finish()?;
        writing.finish().map_err(step("write the decisions"))?;
        shared::close_share(&transaction, task, share, next.filter(|_| chunk.more))?;
        if chunk.decided.iter().any(|(_, plan)| plan.message.is_some()) {
            shared::nudge(&transaction, Nudge::Deliver)?;
        }
        transaction.commit().map_err(step("commit the decisions"))?;
        if !chunk.more && shared::is_decided(&self.connection, task)? {
            shared::close_event(&self.connection, task)?;
        }
        Ok(chunk)
    }
}

impl Chunk {
    fn count(&mut self, outcome: Outcome, algorithm: Option<Algorithm>) {
        *self.tally.entry((outcome, algorithm)).or_default() += 1;
    }
}

/// When something is decided of what became known at `known_at`, by whoever looked at the clock at `now` and then waited.
pub(super) fn dated(now: Timestamp, known_at: Timestamp) -> Timestamp {
    if known_at > now && known_at.since(now) <= LONGEST_WAIT { known_at } else { now }
}

/// A limiter whose limit was changed since keeps what was spent.
pub(super) fn carried(limiter: Option<Limiter>, subscriber: &Subscriber, now: Timestamp) -> Limiter {
    let limit = subscriber.policy.limit;
    match limiter {
        Some(limiter) if limiter.limit() == limit => limiter,
        Some(limiter) => limiter.carried_over(limit, now),
        None => Limiter::new(limit),
    }
}

/// A row with its name, and what could be read of it.
type Candidates = Vec<(SubscriberKey, String, sql::Result<StoredSubscriber>)>;

/// The next chunk of active subscribers.
fn next_subscribers(transaction: &Transaction<'_>, share: Share) -> Result<Candidates, StoreError> {
    let read = || -> sql::Result<Vec<_>> {
        let mut statement = transaction.prepare_cached(queries::CANDIDATES)?;
        let mut rows = statement.query(params![share.from, CHUNK, share.to])?;
        let (mut candidates, mut parts) = (Vec::new(), SharedParts::default());
        while let Some(row) = rows.next()? {
            let stored = parts.subscriber(&row).and_then(|subscriber| StoredSubscriber::with(&row, subscriber));
            candidates.push((SubscriberKey(row.get(column::KEY)?), row.get(column::NAME)?, stored));
        }
        Ok(candidates)
    };
    read().map_err(step("read the subscribers"))
}

/// Of the subscribers from the task's place on and before `to`, those with a decision on the event's quake.
fn decided_subscribers(
    transaction: &Transaction<'_>,
    task: &DispatchTask,
    share: Share,
    to: Option<i64>,
) -> Result<HashSet<i64>, StoreError> {
    let read = || -> sql::Result<HashSet<i64>> {
        let mut statement = transaction.prepare_cached(queries::DECIDED)?;
        let rows = statement.query_map(params![task.event_key, share.from, to], |row| row.get(0))?;
        rows.collect()
    };
    read().map_err(step("read who was decided on"))
}

/// Whether the event is news to the subscriber: no version of it, or of what was merged into it, matched yet when the
/// subscriber joined, changed its interest, or when the installation took the feed as known.
///
/// An event about which it was still to be asked when its interest changed is owed to it nonetheless.
fn is_news(transaction: &Transaction<'_>, task: &DispatchTask, stored: &StoredSubscriber) -> Result<bool, StoreError> {
    let mut since = stored.active_since;
    if task.changed_at > stored.interest_since {
        since = since.max(stored.interest_since);
    }
    if task.baseline {
        since = since.max(task.first_seen_at);
    } else if task.first_seen_at >= since {
        return Ok(true);
    }
    let read = || -> sql::Result<Vec<Event>> {
        let mut statement = transaction.prepare_cached(queries::EARLIER_VERSIONS)?;
        let rows = statement.query_map(params![task.event_key, At(since)], |row| Ok(row.get::<_, Json<Event>>(0)?.0))?;
        rows.collect()
    };
    let known = read().map_err(step("read an earlier version of an event"))?;
    Ok(!known.iter().any(|before| stored.subscriber.interest.matches(before)))
}

/// What a chunk writes for its subscribers.
struct Writing<'t> {
    decisions: Batch<'t>,
    first_states: Batch<'t>,
    next_states: Batch<'t>,
    wakes: Batch<'t>,
}

impl<'t> Writing<'t> {
    fn new(transaction: &'t Transaction<'_>) -> sql::Result<Writing<'t>> {
        Ok(Writing {
            decisions: transaction.batch(
                "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused, remaining, retry_at,
                                        delivery_key)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            first_states: transaction.batch("INSERT INTO limiters (subscriber_key, state) VALUES (?1, ?2)")?,
            next_states: transaction.batch("UPDATE limiters SET state = ?2 WHERE subscriber_key = ?1")?,
            wakes: transaction
                .batch("UPDATE subscribers SET wake_at = ?2 WHERE subscriber_key = ?1 AND (wake_at IS NULL OR wake_at > ?2)")?,
        })
    }

    fn decision(
        &mut self,
        event_key: i64,
        key: SubscriberKey,
        plan: &Plan,
        delivery: Option<i64>,
        now: Timestamp,
    ) -> sql::Result<()> {
        let remaining = i64::try_from(plan.outlook.remaining).unwrap_or(i64::MAX);
        self.decisions.add(params![
            event_key,
            key.0,
            At(now),
            plan.outcome.name(),
            plan.reason,
            plan.answer.refused(),
            remaining,
            plan.outlook.retry_at.map(At),
            delivery
        ])
    }

    /// The limiter's state after it was asked; `first` if there was none before.
    fn state(&mut self, key: SubscriberKey, limiter: &Limiter, first: bool) -> sql::Result<()> {
        let states = if first { &mut self.first_states } else { &mut self.next_states };
        states.add(params![key.0, limiter.to_bytes()])
    }

    /// When to ask the limiter again: at `wake_at`, or earlier if something else that is withheld may come earlier.
    fn wake_by(&mut self, key: SubscriberKey, wake_at: Timestamp) -> sql::Result<()> {
        self.wakes.add(params![key.0, At(wake_at)])
    }

    fn finish(self) -> sql::Result<()> {
        let Writing { decisions, first_states, next_states, wakes } = self;
        [decisions, first_states, next_states, wakes].into_iter().try_for_each(Batch::finish)
    }
}

fn write_undecided(
    transaction: &Transaction<'_>,
    event_key: i64,
    key: SubscriberKey,
    fault: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO decisions (event_key, subscriber_key, decided_at, outcome, reason, refused)
               VALUES (?1, ?2, ?3, 'undecided', ?4, 0)";
    let done = transaction.execute(sql, params![event_key, key.0, At(now), fault]);
    done.map(|_| ()).map_err(step("record that nothing was decided"))
}

/// Writes a limiter's state, whether there was one before or not.
pub(super) const WRITE_LIMITER: &str = "INSERT INTO limiters (subscriber_key, state) VALUES (?1, ?2)
    ON CONFLICT (subscriber_key) DO UPDATE SET state = excluded.state";

pub(super) fn write_limiter(transaction: &Transaction<'_>, key: SubscriberKey, limiter: &Limiter) -> Result<(), StoreError> {
    let done =
        transaction.prepare_cached(WRITE_LIMITER).and_then(|mut statement| statement.execute(params![key.0, limiter.to_bytes()]));
    done.map(|_| ()).map_err(step("write a limiter's state"))
}

impl StoredSubscriber {
    /// The limiter as it stands at `now` under today's limit.
    ///
    /// # Errors
    /// The fault, if the stored state cannot be read.
    pub fn limiter_at(&self, now: Timestamp) -> Result<Limiter, String> {
        let limiter = self.limiter.clone()?;
        Ok(carried(limiter, &self.subscriber, now))
    }
}

pub(super) fn carry_over(
    transaction: &Transaction<'_>,
    key: SubscriberKey,
    subscriber: &Subscriber,
    now: Timestamp,
) -> Result<(), StoreError> {
    match read_limiter(transaction, key)? {
        Some(limiter) => write_limiter(transaction, key, &carried(Some(limiter), subscriber, now)),
        None => Ok(()),
    }
}
