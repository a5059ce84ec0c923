//! The limits with what is spent of each, and the answer of all that cover a delivery together.

use serde::{Deserialize, Serialize};

use super::{Covers, DeliveryLimit, LimitName, StandIn};
use crate::channel::{Channel, Lane};
use crate::limiter::{Limiter, Request, decide_all};
use crate::time::Timestamp;

/// The limits in force, and their state in this instance's memory.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    held: Vec<Held>,
}

/// One limit.
#[derive(Clone, Debug)]
struct Held {
    limit: DeliveryLimit,
    state: StandIn,
}

/// A delivery that has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The limit that refuses for longest.
    pub by: LimitName,
    /// When to try again; `None`: when its store is back.
    pub retry_at: Option<Timestamp>,
}

/// How a limit stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    pub name: LimitName,
    /// What it covers, in words.
    pub covers: String,
    /// Its algorithm, rate and bucket, in words.
    pub limit: String,
    /// Deliveries that it would let pass now; `None`: as many as there are.
    pub left: Option<u64>,
    /// While none are left: when the next may pass, if that is known.
    pub retry_at: Option<Timestamp>,
}

impl Held {
    fn new(limit: DeliveryLimit) -> Held {
        let state = StandIn::Local(Limiter::new(limit.limit));
        Held { limit, state }
    }

    /// How many deliveries would pass at `now`, and if none: when the next one would.
    fn left(&self, now: Timestamp) -> (u64, Option<Timestamp>) {
        let Some(outlook) = self.state.outlook(now, self.limit.request()) else {
            return if self.state == StandIn::Open { (u64::MAX, None) } else { (0, None) };
        };
        match outlook.retry_at {
            Some(at) if at <= now => (outlook.remaining / u64::from(self.limit.cost), None),
            retry_at => (0, retry_at),
        }
    }
}

impl Layers {
    /// These limits, of which nothing is spent.
    #[must_use]
    pub fn new(limits: Vec<DeliveryLimit>) -> Layers {
        Layers { held: limits.into_iter().map(Held::new).collect() }
    }

    /// Other limits from `now` on. What was spent of one stays spent under another of the same name.
    pub fn take_over(&mut self, limits: Vec<DeliveryLimit>, now: Timestamp) {
        let before = std::mem::take(&mut self.held);
        self.held = limits
            .into_iter()
            .map(|limit| {
                let mut held = Held::new(limit);
                if let Some(Held { state: StandIn::Local(spent), .. }) = before.iter().find(|b| b.limit.name == held.limit.name) {
                    held.state = StandIn::Local(spent.carried_over(held.limit.limit, now));
                }
                held
            })
            .collect();
    }

    /// Whether any limit covers what leaves by this lane.
    #[must_use]
    pub fn cover(&self, lane: &Lane) -> bool {
        self.held.iter().any(|held| held.limit.covers.covers(lane))
    }

    /// Whether any limit covers some of what leaves by this channel.
    #[must_use]
    pub fn reach(&self, channel: &Channel) -> bool {
        let untagged = Lane::untagged(channel.clone());
        self.held.iter().any(|held| matches!(held.limit.covers, Covers::Tag(_)) || held.limit.covers.covers(&untagged))
    }

    /// The limits that cover what leaves by this lane, by their place.
    #[must_use]
    pub fn covering(&self, lane: &Lane) -> Vec<usize> {
        let covering = self.held.iter().enumerate().filter(|(_, held)| held.limit.covers.covers(lane));
        covering.map(|(at, _)| at).collect()
    }

    /// Why a delivery by this lane would have to wait at `now`. Changes nothing.
    #[must_use]
    pub fn refusal(&self, lane: &Lane, now: Timestamp) -> Option<Refusal> {
        let covering = self.held.iter().filter(|held| held.limit.covers.covers(lane));
        let refusing = covering.filter_map(|held| match held.left(now) {
            (0, retry_at) => Some(Refusal { by: held.limit.name.clone(), retry_at }),
            _ => None,
        });
        refusing.max_by_key(|refusal| refusal.retry_at.unwrap_or(Timestamp::MAX))
    }

    /// Decides on a delivery under all limits that cover its lane, and charges each of them or none.
    ///
    /// # Errors
    /// [`Refusal`] by the one that refuses for longest; nothing is charged then.
    pub fn admit(&mut self, lane: &Lane, now: Timestamp) -> Result<(), Refusal> {
        let (mut names, mut deciding): (Vec<&LimitName>, Vec<(&mut Limiter, Request)>) = (Vec::new(), Vec::new());
        for held in self.held.iter_mut().filter(|held| held.limit.covers.covers(lane)) {
            let request = held.limit.request();
            match &mut held.state {
                StandIn::Open => {}
                StandIn::Closed => return Err(Refusal { by: held.limit.name.clone(), retry_at: None }),
                StandIn::Local(limiter) => {
                    names.push(&held.limit.name);
                    deciding.push((limiter, request));
                }
            }
        }
        match decide_all(&mut deciding, now) {
            Ok(_) => Ok(()),
            Err((at, decision)) => Err(Refusal { by: names[at].clone(), retry_at: decision.outlook.retry_at }),
        }
    }

    /// How much each limit would let pass at `now`.
    #[must_use]
    pub fn openings(&self, now: Timestamp) -> Openings {
        let left = |held: &Held| Opening { covers: held.limit.covers.clone(), left: held.left(now).0, asked_in_vain: false };
        Openings { limits: self.held.iter().map(left).collect() }
    }

    /// The next instant after `now` at which a limit of which nothing is left lets something pass again.
    #[must_use]
    pub fn next_opening(&self, now: Timestamp) -> Option<Timestamp> {
        self.held.iter().filter_map(|held| held.left(now).1).min()
    }

    /// How they stand at `now`, in their order.
    #[must_use]
    pub fn standings(&self, now: Timestamp) -> Vec<Standing> {
        let standing = |held: &Held| {
            let (left, retry_at) = held.left(now);
            let limit = held.limit.limit;
            let bucket = limit.bucket().map_or_else(String::new, |bucket| format!(", bucket {bucket}"));
            Standing {
                name: held.limit.name.clone(),
                covers: held.limit.covers.to_string(),
                limit: format!("{} {}{bucket}", limit.name(), limit.rate()),
                left: (held.state != StandIn::Open).then_some(left),
                retry_at,
            }
        };
        self.held.iter().map(standing).collect()
    }
}

/// How much limits let pass at one instant, to be taken one by one.
#[derive(Clone, Debug, Default)]
pub struct Openings {
    limits: Vec<Opening>,
}

#[derive(Clone, Debug)]
struct Opening {
    covers: Covers,
    left: u64,
    asked_in_vain: bool,
}

impl Openings {
    /// How many deliveries by this lane all limits that cover it let pass.
    pub fn of(&mut self, lane: &Lane) -> usize {
        let mut least = u64::MAX;
        for limit in self.limits.iter_mut().filter(|limit| limit.covers.covers(lane)) {
            limit.asked_in_vain |= limit.left == 0;
            least = least.min(limit.left);
        }
        usize::try_from(least).unwrap_or(usize::MAX)
    }

    /// Takes one of each limit that covers this lane, or none: whether all had one.
    pub fn take(&mut self, lane: &Lane) -> bool {
        let enough = self.of(lane) > 0;
        if enough {
            self.set_aside(lane, 1);
        }
        enough
    }

    /// Takes so many of each limit that covers this lane, or what there is.
    pub fn set_aside(&mut self, lane: &Lane, deliveries: usize) {
        for limit in self.limits.iter_mut().filter(|limit| limit.covers.covers(lane)) {
            limit.left = limit.left.saturating_sub(deliveries as u64);
        }
    }

    /// Which limits, by their place, had nothing left when somebody asked.
    pub fn asked_in_vain(&self) -> impl Iterator<Item = usize> {
        self.limits.iter().enumerate().filter_map(|(at, limit)| limit.asked_in_vain.then_some(at))
    }
}
