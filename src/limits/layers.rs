//! The limits with what is spent of each, and the answer of all that cover a delivery together.
//!
//! What a limit in a shared store decides is the store's to say: of it there is here what this instance spent, which is the least
//! that is spent, until when the store refuses, and what decides while it is away.

use serde::{Deserialize, Serialize};

use super::{Covers, DeliveryLimit, FallbackPolicy, LimitName, Shared, StandIn};
use crate::channel::{Channel, Lane};
use crate::limiter::{Limiter, Request, decide_all};
use crate::time::Timestamp;

/// The limits in force, and their state in this instance's memory.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    held: Vec<Held>,
    /// Whether the shared store is.
    away: bool,
}

/// One limit.
#[derive(Clone, Debug)]
struct Held {
    limit: DeliveryLimit,
    /// What this instance spent of it.
    own: Limiter,
    outside: Option<Outside>,
}

/// Of a limit in a shared store.
#[derive(Clone, Debug)]
struct Outside {
    /// Decides while the store is away. It begins full, and keeps what was spent from one outage to the next.
    stand_in: StandIn,
    /// Until when the store said that it refuses.
    refused_until: Option<Timestamp>,
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
    /// What holds since its store is away; `None`: its own state decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<FallbackPolicy>,
}

impl Held {
    fn new(limit: DeliveryLimit) -> Held {
        let stand_in = |shared: Shared| {
            // Checked before; a share that is no limit admits nothing.
            let stand_in = shared.outage.stand_in(limit.limit, shared.instances).unwrap_or(StandIn::Closed);
            Outside { stand_in, refused_until: None }
        };
        Held { own: Limiter::new(limit.limit), outside: limit.shared.map(stand_in), limit }
    }

    /// The same, with what was spent under another limit of its name.
    fn carried_over(mut self, before: &Held, now: Timestamp) -> Held {
        self.own = before.own.carried_over(self.limit.limit, now);
        if let (Some(Outside { stand_in: StandIn::Local(limiter), .. }), Some(Outside { stand_in: StandIn::Local(spent), .. })) =
            (&mut self.outside, &before.outside)
        {
            *limiter = spent.carried_over(limiter.limit(), now);
        }
        self
    }

    /// How many deliveries would pass at `now`, and if none: when the next one would.
    fn left(&self, now: Timestamp, away: bool) -> (u64, Option<Timestamp>) {
        match &self.outside {
            Some(Outside { stand_in, .. }) if away => match stand_in {
                StandIn::Open => (u64::MAX, None),
                StandIn::Closed => (0, None),
                StandIn::Local(limiter) => self.left_of(limiter, now),
            },
            Some(Outside { refused_until: Some(until), .. }) if *until > now => (0, Some(*until)),
            _ => self.left_of(&self.own, now),
        }
    }

    fn left_of(&self, limiter: &Limiter, now: Timestamp) -> (u64, Option<Timestamp>) {
        let outlook = limiter.outlook(now, self.limit.request());
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
        Layers { held: limits.into_iter().map(Held::new).collect(), away: false }
    }

    /// Other limits from `now` on. What was spent of one stays spent under another of the same name.
    pub fn take_over(&mut self, limits: Vec<DeliveryLimit>, now: Timestamp) {
        let before = std::mem::take(&mut self.held);
        let carried = |limit: DeliveryLimit| {
            let held = Held::new(limit);
            match before.iter().find(|before| before.limit.name == held.limit.name) {
                Some(before) => held.carried_over(before, now),
                None => held,
            }
        };
        self.held = limits.into_iter().map(carried).collect();
    }

    /// Whether the shared store is away from now on.
    pub fn store_is_away(&mut self, away: bool) {
        self.away = away;
    }

    /// The limits that cover what leaves by this lane and of which the store decides, by their place; none while it is away.
    #[must_use]
    pub fn for_the_store(&self, lane: &Lane) -> Vec<usize> {
        let asked = |held: &Held| !self.away && held.outside.is_some() && held.limit.covers.covers(lane);
        self.held.iter().enumerate().filter_map(|(at, held)| asked(held).then_some(at)).collect()
    }

    /// The limit at this place.
    #[must_use]
    pub fn limit(&self, at: usize) -> Option<&DeliveryLimit> {
        self.held.get(at).map(|held| &held.limit)
    }

    /// The store refuses by the limit at this place, until then.
    pub fn store_refuses(&mut self, at: usize, until: Timestamp) {
        if let Some(Held { outside: Some(outside), .. }) = self.held.get_mut(at) {
            outside.refused_until = Some(until);
        }
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
        let refusing = covering.filter_map(|held| match held.left(now, self.away) {
            (0, retry_at) => Some(Refusal { by: held.limit.name.clone(), retry_at }),
            _ => None,
        });
        refusing.max_by_key(|refusal| refusal.retry_at.unwrap_or(Timestamp::MAX))
    }

    /// Decides on a delivery under all limits that cover its lane, and charges each of them or none. Where the store decides of
    /// some, it has admitted the delivery already, and what it admitted is charged here too.
    ///
    /// # Errors
    /// [`Refusal`] by the one that refuses for longest; nothing is charged then.
    pub fn admit(&mut self, lane: &Lane, now: Timestamp) -> Result<(), Refusal> {
        let (mut names, mut deciding): (Vec<&LimitName>, Vec<(&mut Limiter, Request)>) = (Vec::new(), Vec::new());
        let mut admitted_outside = Vec::new();
        for held in self.held.iter_mut().filter(|held| held.limit.covers.covers(lane)) {
            let request = held.limit.request();
            let limiter = match &mut held.outside {
                None => &mut held.own,
                Some(_) if !self.away => {
                    admitted_outside.push((&mut held.own, request));
                    continue;
                }
                Some(Outside { stand_in: StandIn::Local(limiter), .. }) => limiter,
                Some(Outside { stand_in: StandIn::Open, .. }) => continue,
                Some(Outside { stand_in: StandIn::Closed, .. }) => {
                    return Err(Refusal { by: held.limit.name.clone(), retry_at: None });
                }
            };
            names.push(&held.limit.name);
            deciding.push((limiter, request));
        }
        if let Err((at, decision)) = decide_all(&mut deciding, now) {
            return Err(Refusal { by: names[at].clone(), retry_at: decision.outlook.retry_at });
        }
        for (limiter, request) in admitted_outside {
            limiter.admit(now, request);
        }
        Ok(())
    }

    /// How much each limit would let pass at `now`.
    #[must_use]
    pub fn openings(&self, now: Timestamp) -> Openings {
        let left =
            |held: &Held| Opening { covers: held.limit.covers.clone(), left: held.left(now, self.away).0, asked_in_vain: false };
        Openings { limits: self.held.iter().map(left).collect() }
    }

    /// The next instant after `now` at which a limit of which nothing is left lets something pass again.
    #[must_use]
    pub fn next_opening(&self, now: Timestamp) -> Option<Timestamp> {
        self.held.iter().filter_map(|held| held.left(now, self.away).1).min()
    }

    /// How they stand at `now`, in their order.
    #[must_use]
    pub fn standings(&self, now: Timestamp) -> Vec<Standing> {
        let standing = |held: &Held| {
            let (left, retry_at) = held.left(now, self.away);
            let outage = held.limit.shared.filter(|_| self.away).map(|shared| shared.outage);
            let limit = held.limit.limit;
            let bucket = limit.bucket().map_or_else(String::new, |bucket| format!(", bucket {bucket}"));
            Standing {
                name: held.limit.name.clone(),
                covers: held.limit.covers.to_string(),
                limit: format!("{} {}{bucket}", limit.name(), limit.rate()),
                left: (left < u64::MAX).then_some(left),
                retry_at,
                outage,
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
