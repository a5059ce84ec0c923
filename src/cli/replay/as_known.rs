//! `throttler replay --as-known`: captures replayed as they were seen, when they were seen. What comes new, late, revised, under
//! another id or merged, and who hears of it, is decided by the daemon's own stages, on a database in memory that knows
//! nothing yet and a clock that goes from capture to capture and from one wake-up to the next.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::captures::Captures;
use super::{Head, ReplayArgs};
use crate::alert::{Content, LATE_AFTER};
use crate::cli::Global;
use crate::cli::failure::Failure;
use crate::cli::output;
use crate::cli::setup::Loaded;
use crate::daemon::{Dispatched, dispatch};
use crate::event::{Event, EventId, Magnitude};
use crate::interest::{Interest, Kinds};
use crate::limiter::{Limit, Policy};
use crate::news::EventRules;
use crate::plan::{Outcome, Plan, Release, UpdatePlan};
use crate::replay::{StoredReplay, Tally};
use crate::store::Store;
use crate::subscriber::{Address, Destination, Excess, Mode, Preset, Subscriber, Tags, Updates};
use crate::time::Timestamp;

/// The name under which the captures are recorded, in place of a feed's address.
const FEED: &str = "captures";
/// Where the subscribers of a comparison of limiters live; nothing is delivered.
const NOWHERE: &str = "replay@example.org";

/// What the captures showed.
pub(super) struct Seen {
    counts: Counts,
    ends: Option<(Timestamp, Timestamp)>,
    /// Of the events that were recorded, the origin of the first and the last.
    origins: Option<(Timestamp, Timestamp)>,
    late: usize,
}

/// How much the captures brought.
#[derive(Clone, Copy, Default)]
struct Counts {
    polls: usize,
    new: usize,
    revised: usize,
    merged: usize,
}

/// The rules of the daemon's configuration, with what the flags say otherwise.
pub(super) fn rules(global: &Global, args: &ReplayArgs, min_magnitude: Option<Magnitude>) -> Result<EventRules, Failure> {
    let rules = Loaded::read(global)?.event_rules()?;
    Ok(EventRules {
        min_magnitude: min_magnitude.unwrap_or(rules.min_magnitude),
        first_run: args.first_run.map_or(rules.first_run, Into::into),
        ..rules
    })
}

/// A subscriber for each limit, who wants all from this magnitude on.
pub(super) fn one_for_each(limits: &[Limit], min_magnitude: Magnitude) -> Result<Vec<Subscriber>, Failure> {
    let address: Address = NOWHERE.parse().map_err(Failure::usage)?;
    let subscriber = |(number, limit): (usize, &Limit)| {
        Ok(Subscriber {
            name: format!("limiter-{number}").parse().map_err(Failure::usage)?,
            destination: Destination::Email(address.clone()),
            preset: Preset::Json,
            interest: Interest { min_magnitude, kinds: Kinds::any(), ..Interest::default() },
            policy: Policy::plain(*limit),
            excess: Excess::Drop,
            mode: Mode::Enforce,
            // Limits are compared by the alerts they let pass.
            updates: Updates::None,
            quiet: None,
            tags: Tags::default(),
        })
    };
    limits.iter().enumerate().map(subscriber).collect()
}

/// Replays the captures for these subscribers, whose limiters start full.
pub(super) fn replay(
    subscribers: &[Subscriber],
    captures: &Captures,
    rules: EventRules,
) -> Result<(Seen, Vec<StoredReplay>), Failure> {
    let mut course = Course::new(subscribers, captures, rules)?;
    let progress = output::progress_bar(Some(captures.len() as u64), "{wide_bar} {pos} of {len} captures, {eta} left");
    let mut last = None;
    for (seen_at, capture) in captures.iter() {
        // As the daemon does with an answer that is not newer than the last one.
        if last.replace(seen_at).is_none_or(|last| seen_at > last) {
            course.see(&capture?.events, seen_at)?;
        }
        progress.inc(1);
    }
    course.wake_until(None)?;
    progress.finish_and_clear();
    course.finish(subscribers, captures)
}

/// One subscriber's tally, and when each event came of which it has not been told.
#[derive(Default)]
struct Followed {
    tally: Tally,
    came_at: HashMap<EventId, Timestamp>,
}

struct Course {
    store: Store,
    rules: EventRules,
    followed: BTreeMap<String, Followed>,
    counts: Counts,
    /// The origin of each event that was recorded, as known last, by its preferred id.
    origins: HashMap<EventId, Timestamp>,
    late: HashSet<EventId>,
}

impl Course {
    fn new(subscribers: &[Subscriber], captures: &Captures, rules: EventRules) -> Result<Course, Failure> {
        let mut store = Store::in_memory()?;
        let added: Vec<_> = subscribers.iter().map(|subscriber| (subscriber.clone(), None)).collect();
        store.add_subscribers(&added, captures.ends().map_or(Timestamp::MIN, |(first, _)| first))?;
        let followed = subscribers.iter().map(|subscriber| (subscriber.name.to_string(), Followed::default())).collect();
        Ok(Course { store, rules, followed, counts: Counts::default(), origins: HashMap::new(), late: HashSet::new() })
    }

    /// The feed shows these.
    fn see(&mut self, events: &[Event], now: Timestamp) -> Result<(), Failure> {
        self.wake_until(Some(now))?;
        let brought = self.store.record(FEED, Some(now), events, &self.rules, now)?;
        self.counts.polls += 1;
        self.counts.new += brought.new;
        self.counts.revised += brought.revised;
        self.counts.merged += brought.merged;
        for event in events.iter().filter(|event| self.rules.records(event)) {
            for id in &event.ids {
                self.origins.remove(id);
            }
            self.origins.insert(event.id.clone(), event.origin_at);
        }
        self.dispatch(now)
    }

    /// What is withheld is told whenever the limiters allow it, before `end` or, without one, as long as it takes.
    fn wake_until(&mut self, end: Option<Timestamp>) -> Result<(), Failure> {
        let end = end.unwrap_or(Timestamp::MAX);
        while let Some(at) = self.store.next_wake()?.filter(|at| *at < end) {
            self.dispatch(at)?;
        }
        Ok(())
    }

    /// All that is to be decided now.
    fn dispatch(&mut self, now: Timestamp) -> Result<(), Failure> {
        while let Some(step) = dispatch::step(&mut self.store, now)? {
            match step {
                Dispatched::Decided { event, chunk } => self.decided(&event, &chunk.decided, now),
                Dispatched::Asked { asked } => asked.iter().for_each(|(name, release)| self.released(name, release)),
                Dispatched::Updated { chunk, .. } => chunk.decided.iter().for_each(|(name, plan)| self.updated(name, plan)),
                Dispatched::UpdatesAsked { asked } => {
                    let decided = asked.iter().filter_map(|(name, plan)| Some((name, plan.as_ref()?)));
                    decided.for_each(|(name, plan)| self.updated(name, plan));
                }
                Dispatched::Unconfirmed { .. } => {}
            }
        }
        Ok(())
    }

    fn decided(&mut self, event: &Event, plans: &[(String, Plan)], now: Timestamp) {
        if !plans.is_empty() && now.since(event.origin_at) > LATE_AFTER && !event.ids.iter().any(|id| self.late.contains(id)) {
            self.late.insert(event.id.clone());
        }
        for (name, plan) in plans {
            let Some(followed) = self.followed.get_mut(name) else { continue };
            followed.tally.decided(event, plan.answer, plan.outcome, now);
            if matches!(plan.outcome, Outcome::Pending | Outcome::Waiting | Outcome::Held) {
                followed.came_at.extend(event.ids.iter().map(|id| (id.clone(), now)));
            }
        }
    }

    /// An update is a message like others: it counts where messages are counted as they leave.
    fn updated(&mut self, name: &str, plan: &UpdatePlan) {
        if let (Some(followed), Some(message)) = (self.followed.get_mut(name), &plan.message) {
            followed.tally.sent(message.due_at, message.due_at);
        }
    }

    fn released(&mut self, name: &str, release: &Release) {
        let Release::Now { message, held, .. } = release else { return };
        let Some(followed) = self.followed.get_mut(name) else { return };
        if let Content::Event { event, .. } = &message.content {
            let came_at = event.ids.iter().filter_map(|id| followed.came_at.get(id)).min();
            followed.tally.sent(came_at.copied().unwrap_or(message.due_at), message.due_at);
        } else {
            followed.tally.digest(held.len(), message.due_at);
        }
    }

    fn finish(mut self, subscribers: &[Subscriber], captures: &Captures) -> Result<(Seen, Vec<StoredReplay>), Failure> {
        let mut results = Vec::with_capacity(subscribers.len());
        for subscriber in subscribers {
            let counts = self.store.counts(self.store.subscriber(&subscriber.name)?.key)?;
            let untold = |outcome| matches!(outcome, Outcome::Pending | Outcome::Waiting | Outcome::Held);
            let left =
                Outcome::ALL.into_iter().zip(counts.outcomes).filter(|(outcome, _)| untold(*outcome)).map(|(_, n)| n).sum();
            let tally = self.followed.remove(subscriber.name.as_str()).unwrap_or_default().tally;
            results.push(tally.finish(left, subscriber.policy.limit.rate().window()));
        }
        let Course { counts, origins, late, .. } = self;
        let origins = origins.values().min().copied().zip(origins.values().max().copied());
        Ok((Seen { counts, ends: captures.ends(), origins, late: late.len() }, results))
    }
}

impl Seen {
    pub fn head(&self) -> Head {
        let Seen { counts: Counts { polls, new, revised, merged }, late, .. } = *self;
        let events = new.saturating_sub(merged);
        let mut json = Map::new();
        json.insert("events".into(), json!(events));
        json.insert("first".into(), json!(self.origins.map(|(first, _)| first)));
        json.insert("last".into(), json!(self.origins.map(|(_, last)| last)));
        json.insert("catalogue".into(), json!("as known then"));
        json.insert("as_known".into(), Value::Bool(true));
        json.insert("polls".into(), json!(polls));
        json.insert("seen".into(), json!(self.ends.map(|(first, last)| json!({ "first": first, "last": last }))));
        json.insert("late".into(), json!(late));
        json.insert("revised".into(), json!(revised));
        json.insert("merged".into(), json!(merged));
        let (first, last) = self.ends.unwrap_or((Timestamp::MIN, Timestamp::MIN));
        let number = |count: usize, one: &str, several: &str| {
            format!("{} {}", output::count(count as u64), if count == 1 { one } else { several })
        };
        let text = format!(
            "{} from {first} to {last}, as known then: {}, {}, {}, {} decided late (more than {} after the origin)",
            number(polls, "capture", "captures"),
            number(events, "event", "events"),
            number(revised, "revision", "revisions"),
            number(merged, "merge", "merges"),
            output::count(late as u64),
            LATE_AFTER.counted(),
        );
        Head { text, json }
    }
}
