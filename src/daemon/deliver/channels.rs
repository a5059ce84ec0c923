//! How many attempts each channel may have now: bounded, growing with its answers, evenly spaced where the operator sets a
//! rate, as many as the operator's limits let pass, and none while its breaker is open. In memory: a daemon that starts knows nothing bad of anybody.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::lined_up::LinedUp;
use crate::breaker::{Allowed, Breaker, Change};
use crate::channel::{Channel, Lane};
use crate::limiter::{Algorithm, Limit, Limiter, Request};
use crate::limits::{DeliveryLimit, Layers, Openings, Standing};
use crate::rate::Rate;
use crate::shared::SharedStore;
use crate::store::Room;
use crate::time::{Span, Timestamp};

/// Attempts under way by a channel that has not answered yet; each answer allows one more.
pub const FIRST_PER_CHANNEL: usize = 16;
/// The most attempts under way at one webhook host.
pub const MAX_PER_HOST: usize = 128;
/// The most attempts under way by the mail relay, each with a connection of its own.
pub const MAX_PER_RELAY: usize = 32;
/// How far ahead of its turn a delivery is claimed by a channel with a limit; it leaves at its turn.
pub const AHEAD: Span = Span::from_millis(100);
/// Channels remembered; beyond it those that have nothing to remember are forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// The operator's limits on what leaves: they space, they never drop.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    /// Messages by the mail relay.
    pub email: Option<Rate>,
    /// Requests to each webhook host.
    pub per_host: Option<Rate>,
    /// Requests to these hosts instead, with their ports where they are not the usual ones.
    pub hosts: BTreeMap<String, Rate>,
    /// Limits that cover what leaves together, checked.
    pub limits: Vec<DeliveryLimit>,
    /// Where the state of those is that several instances share; there is one if any is.
    pub store: Option<Arc<SharedStore>>,
}

/// All channels.
#[derive(Debug)]
pub(super) struct Channels {
    egress: Egress,
    layers: Layers,
    known: HashMap<Channel, State>,
}

#[derive(Debug)]
struct State {
    breaker: Breaker,
    under_way: usize,
    most: usize,
    queue: Option<Limiter>,
    /// Since when it has not answered.
    failing_since: Option<Timestamp>,
}

/// Whose place an attempt takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// One of the channel's.
    Alert,
    /// One of its own, beside them: a notice to the operator. It takes its turn where what leaves is limited.
    Notice,
}

/// What an attempt told of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Answered,
    Failed { retry_after: Option<Span> },
    Nothing,
}

/// How much room each lane has, for one claim: its channel's, as far as all limits that cover it let pass.
#[derive(Debug)]
pub(super) struct Rooms {
    known: HashMap<Channel, usize>,
    egress: Egress,
    openings: Openings,
    now: Timestamp,
}

impl Rooms {
    fn of_channel(&mut self, channel: &Channel) -> &mut usize {
        let (egress, now) = (&self.egress, self.now);
        self.known.entry(channel.clone()).or_insert_with(|| State::fresh(egress, channel).room(now))
    }

    /// Which limits, by their place, let nothing pass by a lane for which something waits.
    pub fn refusing(&self) -> Vec<usize> {
        self.openings.asked_in_vain().collect()
    }
}

impl Room for Rooms {
    fn of(&mut self, lane: &Lane) -> usize {
        let room = *self.of_channel(lane.channel());
        if room == 0 { 0 } else { room.min(self.openings.of(lane)) }
    }

    fn take(&mut self, lane: &Lane) -> bool {
        let took = *self.of_channel(lane.channel()) > 0 && self.openings.take(lane);
        *self.of_channel(lane.channel()) -= usize::from(took);
        took
    }
}

impl Class {
    const fn places(self) -> usize {
        match self {
            Class::Alert => 1,
            Class::Notice => 0,
        }
    }
}

impl Egress {
    fn of(&self, channel: &Channel) -> Option<Rate> {
        match channel.host() {
            None => self.email,
            Some(host) => self.hosts.get(host).copied().or(self.per_host),
        }
    }

    /// The queue in which a channel's deliveries wait for their turn: without an end, so that nothing is refused.
    fn queue(&self, channel: &Channel) -> Option<Limiter> {
        let limit = Limit::new(Algorithm::LeakyBucket, self.of(channel)?, Some(Limit::MAX_BUCKET.into())).ok()?;
        Some(Limiter::new(limit))
    }
}

impl Channels {
    pub fn new(egress: Egress) -> Channels {
        Channels { layers: Layers::new(egress.limits.clone()), egress, known: HashMap::new() }
    }

    /// Other limits from now on. A queue whose rate stays keeps its turns, and a limit what was spent of it.
    pub fn limit(&mut self, egress: Egress, now: Timestamp) {
        self.layers.take_over(egress.limits.clone(), now);
        for (channel, state) in &mut self.known {
            if self.egress.of(channel) != egress.of(channel) {
                state.queue = egress.queue(channel);
            }
        }
        self.egress = egress;
    }

    /// How much room there is at `now` beside what is lined up already. A channel that is not known yet has room for its first
    /// attempts.
    pub fn rooms(&self, now: Timestamp, lined_up: &LinedUp) -> Rooms {
        let known = self.known.iter().map(|(channel, state)| (channel.clone(), state.room(now))).collect();
        let mut rooms = Rooms { known, egress: self.egress.clone(), openings: self.layers.openings(now), now };
        for (lane, count) in lined_up.counts() {
            let room = rooms.of_channel(lane.channel());
            *room = room.saturating_sub(count);
            rooms.openings.set_aside(lane, count);
        }
        rooms
    }

    /// Whether there is room for another attempt at `now`.
    pub fn has_room(&self, lane: &Lane, now: Timestamp) -> bool {
        self.known.get(lane.channel()).is_none_or(|state| state.room(now) > 0) && self.layers.refusal(lane, now).is_none()
    }

    /// Whether there is room, or will be when an attempt ends: neither its breaker nor a limit holds everything up.
    pub fn has_room_later(&self, lane: &Lane, now: Timestamp) -> bool {
        let held_up = |state: &State| matches!(state.breaker.allows(now), Allowed::Nothing { .. });
        !self.known.get(lane.channel()).is_some_and(held_up) && self.layers.refusal(lane, now).is_none()
    }

    /// Whether deliveries may be claimed before there is room: by a channel that answers, and has no turns to wait for.
    pub fn may_line_up(&self, lane: &Lane, now: Timestamp) -> bool {
        let free = |state: &State| state.queue.is_none() && state.breaker.allows(now) == Allowed::All;
        self.known.get(lane.channel()).is_some_and(free) && !self.layers.cover(lane)
    }

    /// Whether what leaves by this lane may have waited for a limit or for its turn.
    pub fn is_limited(&self, lane: &Lane) -> bool {
        self.egress.of(lane.channel()).is_some() || self.layers.cover(lane)
    }

    /// Whether what waits for this channel has waited so long for it alone: where a limit may have held it up before, only
    /// how long the channel has been failing is known.
    pub fn failed_for(&self, channel: &Channel, span: Span, now: Timestamp) -> bool {
        let may_be_limited = self.egress.of(channel).is_some() || self.layers.reach(channel);
        let failing = self.known.get(channel).and_then(|state| state.failing_since);
        !may_be_limited || failing.is_some_and(|since| now.since(since) >= span)
    }

    /// How much the limits let pass at `now`.
    pub fn openings(&self, now: Timestamp) -> Openings {
        self.layers.openings(now)
    }

    /// The limits.
    pub fn layers(&mut self) -> &mut Layers {
        &mut self.layers
    }

    /// The limits that cover a lane, by their place.
    pub fn covering(&self, lane: &Lane) -> Vec<usize> {
        self.layers.covering(lane)
    }

    /// How the limits stand at `now`.
    pub fn standings(&self, now: Timestamp) -> Vec<Standing> {
        self.layers.standings(now)
    }

    /// What its breaker allows at `now`.
    pub fn allows(&self, channel: &Channel, now: Timestamp) -> Allowed {
        self.known.get(channel).map_or(Allowed::All, |state| state.breaker.allows(now))
    }

    /// How long what begins at `now` waits for its turn, where what leaves is limited.
    pub fn wait(&self, channel: &Channel, now: Timestamp) -> Span {
        let queue = self.known.get(channel).and_then(|state| state.queue.as_ref());
        queue.map_or(Span::ZERO, |queue| queue.departure(now).since(now))
    }

    /// An attempt that there was room for begins, and is charged to the limits that cover it: when it may leave.
    pub fn begun(&mut self, lane: &Lane, class: Class, now: Timestamp) -> Timestamp {
        // There was room for it, so none refuses.
        let _ = self.layers.admit(lane, now);
        let state = self.state(lane.channel());
        state.under_way += class.places();
        state.breaker.begun();
        state.queue.as_mut().map_or(now, |queue| queue.admit_departing(now, Request::ONE).1)
    }

    /// An attempt has ended. `random` is one draw from all 64-bit numbers.
    pub fn ended(&mut self, channel: &Channel, class: Class, told: Told, now: Timestamp, random: u64) -> Option<Change> {
        let state = self.state(channel);
        state.under_way = state.under_way.saturating_sub(class.places());
        match told {
            Told::Answered => {
                let most = if channel.is_email() { MAX_PER_RELAY } else { MAX_PER_HOST };
                state.most = (state.most + 1).min(most);
                state.failing_since = None;
                state.breaker.succeeded()
            }
            Told::Failed { retry_after } => {
                state.most = FIRST_PER_CHANNEL;
                state.failing_since.get_or_insert(now);
                state.breaker.failed(now, retry_after, random)
            }
            Told::Nothing => {
                state.breaker.told_nothing(now);
                None
            }
        }
    }

    /// The next instant after `now` at which a channel has more room without anything having ended.
    pub fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        let changes = self.known.values().filter_map(|state| state.next_change(now)).chain(self.layers.next_opening(now));
        changes.filter(|at| *at > now).min()
    }

    fn state(&mut self, channel: &Channel) -> &mut State {
        if self.known.len() >= MAX_REMEMBERED && !self.known.contains_key(channel) {
            self.known.retain(|_, state| state.under_way > 0 || !state.breaker.is_untouched() || state.queue.is_some());
            if self.known.len() >= MAX_REMEMBERED {
                // So many that all have something: they are tried as if they were new.
                self.known.retain(|_, state| state.under_way > 0);
            }
        }
        let egress = &self.egress;
        self.known.entry(channel.clone()).or_insert_with(|| State::fresh(egress, channel))
    }
}

impl State {
    fn fresh(egress: &Egress, channel: &Channel) -> State {
        State {
            breaker: Breaker::default(),
            under_way: 0,
            most: FIRST_PER_CHANNEL,
            queue: egress.queue(channel),
            failing_since: None,
        }
    }

    fn room(&self, now: Timestamp) -> usize {
        let most = match self.breaker.allows(now) {
            Allowed::All => self.most.saturating_sub(self.under_way),
            Allowed::One => 1,
            Allowed::Nothing { .. } => 0,
        };
        let Some(queue) = &self.queue else { return most };
        let mut queue = queue.clone();
        let turns = (0..most).take_while(|_| queue.admit_departing(now, Request::ONE).1.since(now) <= AHEAD);
        turns.count()
    }

    fn next_change(&self, now: Timestamp) -> Option<Timestamp> {
        match self.breaker.allows(now) {
            Allowed::Nothing { until } => until,
            _ => self.queue.as_ref().map(|queue| queue.departure(now).minus(AHEAD)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2025-07-30".parse().expect("a date")
    }

    fn hook(host: &str) -> Channel {
        Channel::from_text(format!("https://{host}"))
    }

    fn lane(channel: &Channel) -> Lane {
        Lane::untagged(channel.clone())
    }

    fn answer(channels: &mut Channels, channel: &Channel, told: Told) {
        channels.begun(&lane(channel), Class::Alert, now());
        channels.ended(channel, Class::Alert, told, now(), u64::MAX);
    }

    #[test]
    fn a_channel_earns_its_room_by_answering() {
        let mut channels = Channels::new(Egress::default());
        let (host, relay) = (hook("example.org"), Channel::from_text("email".into()));
        for (channel, most) in [(&host, MAX_PER_HOST), (&relay, MAX_PER_RELAY)] {
            let room = |channels: &Channels| channels.rooms(now(), &LinedUp::default()).of(&lane(channel));
            assert_eq!(room(&channels), FIRST_PER_CHANNEL, "before it is known");
            channels.begun(&lane(channel), Class::Alert, now());
            assert_eq!(room(&channels), FIRST_PER_CHANNEL - 1);
            channels.begun(&lane(channel), Class::Notice, now());
            assert_eq!(room(&channels), FIRST_PER_CHANNEL - 1, "a notice takes no place");
            channels.ended(channel, Class::Notice, Told::Nothing, now(), 0);
            assert_eq!(room(&channels), FIRST_PER_CHANNEL - 1, "and leaves none");
            channels.ended(channel, Class::Alert, Told::Answered, now(), 0);
            assert_eq!(room(&channels), FIRST_PER_CHANNEL + 1);
            for _ in 0..200 {
                answer(&mut channels, channel, Told::Answered);
            }
            assert_eq!(room(&channels), most);
            answer(&mut channels, channel, Told::Failed { retry_after: None });
            assert_eq!(room(&channels), FIRST_PER_CHANNEL, "and loses it by failing");
        }
    }

    #[test]
    fn a_hosts_own_rate_stands_before_the_rate_of_all() {
        let rate = |text: &str| Some(text.parse::<Rate>().expect(text));
        let egress = Egress {
            email: rate("20/s"),
            per_host: rate("10/s"),
            hosts: [("discord.com".to_owned(), "30/m".parse().expect("a rate"))].into(),
            ..Egress::default()
        };
        for (channel, expected) in [
            ("email", "20/s"),
            ("https://example.org", "10/s"),
            ("https://discord.com", "30/m"),
            ("https://discord.com:8443", "10/s"),
        ] {
            assert_eq!(egress.of(&Channel::from_text(channel.into())), rate(expected), "{channel}");
        }
        let mut channels = Channels::new(egress);
        let example = hook("example.org");
        // Ten a second: two of them leave within the tenth of a second that is looked ahead.
        assert_eq!(channels.rooms(now(), &LinedUp::default()).of(&lane(&example)), 2);
        let turns: Vec<u64> = (0..2).map(|_| channels.begun(&lane(&example), Class::Alert, now()).since(now()).ticks()).collect();
        assert_eq!(turns, [0, 100_000]);
        assert_eq!(channels.rooms(now(), &LinedUp::default()).of(&lane(&example)), 0);
        let waits = [&example, &hook("other.example")].map(|channel| channels.wait(channel, now()));
        assert_eq!(waits, [Span::from_millis(200), Span::ZERO], "what has no room waits for its turn");
        assert_eq!(channels.next_change(now()), Some(now().plus(Span::from_millis(100))), "the third's turn, less what is ahead");
    }

    #[test]
    fn other_limits_hold_at_once_and_what_is_known_stays() {
        let rate = |text: &str| Some(text.parse::<Rate>().expect(text));
        let (slow, fast, relay) = (hook("slow"), hook("fast"), Channel::from_text("email".into()));
        let limits = |per_host, email| Egress { email, per_host, ..Egress::default() };
        let mut channels = Channels::new(limits(rate("10/s"), None));
        for _ in 0..5 {
            answer(&mut channels, &slow, Told::Failed { retry_after: None });
        }
        channels.begun(&lane(&fast), Class::Alert, now());
        channels.begun(&lane(&relay), Class::Alert, now());
        let turns = |channels: &Channels, channel: &Channel| channels.rooms(now(), &LinedUp::default()).of(&lane(channel));
        assert_eq!((turns(&channels, &slow), turns(&channels, &fast)), (0, 1));
        channels.limit(limits(rate("10/s"), rate("1/s")), now());
        assert_eq!(turns(&channels, &slow), 0, "its breaker is open");
        assert_eq!(turns(&channels, &fast), 1, "its queue goes on");
        assert_eq!(turns(&channels, &relay), 1, "a limit of its own from now on");
        channels.limit(Egress::default(), now());
        assert_eq!(turns(&channels, &fast), FIRST_PER_CHANNEL - 1);
    }

    #[test]
    fn channels_with_nothing_to_remember_are_forgotten() {
        let mut channels = Channels::new(Egress::default());
        answer(&mut channels, &hook("broken"), Told::Failed { retry_after: None });
        channels.begun(&lane(&hook("busy")), Class::Alert, now());
        for at in 0..2 * MAX_REMEMBERED {
            answer(&mut channels, &hook(&format!("h{at}")), Told::Answered);
        }
        assert!(channels.known.len() <= MAX_REMEMBERED);
        assert!([hook("broken"), hook("busy")].iter().all(|channel| channels.known.contains_key(channel)));
    }
}
