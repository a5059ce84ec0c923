//! How many attempts each channel may have now: bounded, growing with its answers, evenly spaced where the operator sets a
//! limit, and none while its breaker is open. In memory: a daemon that starts knows nothing bad of anybody.

use std::collections::{BTreeMap, HashMap};

use super::lined_up::LinedUp;
use crate::breaker::{Allowed, Breaker, Change};
use crate::channel::Channel;
use crate::limiter::{Algorithm, Limit, Limiter, Request};
use crate::rate::Rate;
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// Messages by the mail relay.
    pub email: Option<Rate>,
    /// Requests to each webhook host.
    pub per_host: Option<Rate>,
    /// Requests to these hosts instead, with their ports where they are not the usual ones.
    pub hosts: BTreeMap<String, Rate>,
}

/// All channels.
#[derive(Debug)]
pub(super) struct Channels {
    egress: Egress,
    known: HashMap<Channel, State>,
}

#[derive(Debug)]
struct State {
    breaker: Breaker,
    under_way: usize,
    most: usize,
    queue: Option<Limiter>,
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

/// How much room each channel has, for one claim.
#[derive(Debug)]
pub(super) struct Rooms {
    known: HashMap<Channel, usize>,
    egress: Egress,
    now: Timestamp,
}

impl Rooms {
    pub fn of(&self, channel: &Channel) -> usize {
        self.known.get(channel).copied().unwrap_or_else(|| State::fresh(&self.egress, channel).room(self.now))
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
        Channels { egress, known: HashMap::new() }
    }

    /// Other limits from now on. A queue whose rate stays keeps its turns.
    pub fn limit(&mut self, egress: Egress) {
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
        let room = |channel, state: &State| state.room(now).saturating_sub(lined_up.count_of(channel));
        let known = self.known.iter().map(|(channel, state)| (channel.clone(), room(channel, state)));
        Rooms { known: known.collect(), egress: self.egress.clone(), now }
    }

    /// Whether there is room for another attempt at `now`.
    pub fn has_room(&self, channel: &Channel, now: Timestamp) -> bool {
        self.known.get(channel).is_none_or(|state| state.room(now) > 0)
    }

    /// Whether there is room, or will be when an attempt ends: its breaker does not hold everything up.
    pub fn has_room_later(&self, channel: &Channel, now: Timestamp) -> bool {
        let held_up = |state: &State| matches!(state.breaker.allows(now), Allowed::Nothing { .. });
        !self.known.get(channel).is_some_and(held_up)
    }

    /// Whether deliveries may be claimed before there is room: by a channel that answers, and has no turns to wait for.
    pub fn may_line_up(&self, channel: &Channel, now: Timestamp) -> bool {
        let free = |state: &State| state.queue.is_none() && state.breaker.allows(now) == Allowed::All;
        self.known.get(channel).is_some_and(free)
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

    /// An attempt that there was room for begins: when it may leave.
    pub fn begun(&mut self, channel: &Channel, class: Class, now: Timestamp) -> Timestamp {
        let state = self.state(channel);
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
                state.breaker.succeeded()
            }
            Told::Failed { retry_after } => {
                state.most = FIRST_PER_CHANNEL;
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
        self.known.values().filter_map(|state| state.next_change(now)).filter(|at| *at > now).min()
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
        State { breaker: Breaker::default(), under_way: 0, most: FIRST_PER_CHANNEL, queue: egress.queue(channel) }
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

    fn answer(channels: &mut Channels, channel: &Channel, told: Told) {
        channels.begun(channel, Class::Alert, now());
        channels.ended(channel, Class::Alert, told, now(), u64::MAX);
    }

    #[test]
    fn a_channel_earns_its_room_by_answering() {
        let mut channels = Channels::new(Egress::default());
        let (host, relay) = (hook("example.org"), Channel::from_text("email".into()));
        for (channel, most) in [(&host, MAX_PER_HOST), (&relay, MAX_PER_RELAY)] {
            let room = |channels: &Channels| channels.rooms(now(), &LinedUp::default()).of(channel);
            assert_eq!(room(&channels), FIRST_PER_CHANNEL, "before it is known");
            channels.begun(channel, Class::Alert, now());
            assert_eq!(room(&channels), FIRST_PER_CHANNEL - 1);
            channels.begun(channel, Class::Notice, now());
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
        assert_eq!(channels.rooms(now(), &LinedUp::default()).of(&example), 2);
        let turns: Vec<u64> = (0..2).map(|_| channels.begun(&example, Class::Alert, now()).since(now()).ticks()).collect();
        assert_eq!(turns, [0, 100_000]);
        assert_eq!(channels.rooms(now(), &LinedUp::default()).of(&example), 0);
        let waits = [&example, &hook("other.example")].map(|channel| channels.wait(channel, now()));
        assert_eq!(waits, [Span::from_millis(200), Span::ZERO], "what has no room waits for its turn");
        assert_eq!(channels.next_change(now()), Some(now().plus(Span::from_millis(100))), "the third's turn, less what is ahead");
    }

    #[test]
    fn other_limits_hold_at_once_and_what_is_known_stays() {
        let rate = |text: &str| Some(text.parse::<Rate>().expect(text));
        let (slow, fast, relay) = (hook("slow"), hook("fast"), Channel::from_text("email".into()));
        let limits = |per_host, email| Egress { email, per_host, hosts: BTreeMap::new() };
        let mut channels = Channels::new(limits(rate("10/s"), None));
        for _ in 0..5 {
            answer(&mut channels, &slow, Told::Failed { retry_after: None });
        }
        channels.begun(&fast, Class::Alert, now());
        channels.begun(&relay, Class::Alert, now());
        let turns = |channels: &Channels, channel: &Channel| channels.rooms(now(), &LinedUp::default()).of(channel);
        assert_eq!((turns(&channels, &slow), turns(&channels, &fast)), (0, 1));
        channels.limit(limits(rate("10/s"), rate("1/s")));
        assert_eq!(turns(&channels, &slow), 0, "its breaker is open");
        assert_eq!(turns(&channels, &fast), 1, "its queue goes on");
        assert_eq!(turns(&channels, &relay), 1, "a limit of its own from now on");
        channels.limit(Egress::default());
        assert_eq!(turns(&channels, &fast), FIRST_PER_CHANNEL - 1);
    }

    #[test]
    fn channels_with_nothing_to_remember_are_forgotten() {
        let mut channels = Channels::new(Egress::default());
        answer(&mut channels, &hook("broken"), Told::Failed { retry_after: None });
        channels.begun(&hook("busy"), Class::Alert, now());
        for at in 0..2 * MAX_REMEMBERED {
            answer(&mut channels, &hook(&format!("h{at}")), Told::Answered);
        }
        assert!(channels.known.len() <= MAX_REMEMBERED);
        assert!([hook("broken"), hook("busy")].iter().all(|channel| channels.known.contains_key(channel)));
    }
}
