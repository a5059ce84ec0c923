//! Deliveries that are claimed and wait for a free connection of their channel, so that one that becomes free goes on at once
//! and not after the next turn of settling and claiming, with its sync of the disk.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::LEASE;
use crate::channel::{Channel, Lane};
use crate::store::{Claimed, Place};
use crate::time::{Span, Timestamp};

/// The most that waits by one lane.
const MAX_OF_LANE: usize = 512;
/// The most that waits in all.
const MAX: usize = 1_024;
/// What waited so long is given back: its channel is not as fast as it was, and its lease runs.
const MAX_WAIT: Span = Span::from_seconds(10);

/// What waits, a queue for each lane, in the order in which it leaves.
#[derive(Debug, Default)]
pub(super) struct LinedUp {
    queues: HashMap<Lane, BTreeMap<Place, Waiting>>,
    count: usize,
    /// Attempts that ended since the last claim: how fast each lane is.
    ended: HashMap<Lane, usize>,
}

#[derive(Debug)]
struct Waiting {
    claimed: Claimed,
    since: Timestamp,
}

impl LinedUp {
    pub fn push(&mut self, claimed: Claimed, now: Timestamp) {
        let queue = self.queues.entry(claimed.lane.clone()).or_default();
        if queue.insert(claimed.place, Waiting { claimed, since: now }).is_none() {
            self.count += 1;
        }
    }

    /// The next of a lane.
    pub fn next_of(&mut self, lane: &Lane) -> Option<Claimed> {
        let queue = self.queues.get_mut(lane)?;
        let next = queue.pop_first().map(|(_, waiting)| waiting.claimed);
        self.count -= usize::from(next.is_some());
        if queue.is_empty() {
            self.queues.remove(lane);
        }
        next
    }

    /// All lanes with the place of what is next, the first of all on top.
    pub fn heads(&self) -> BinaryHeap<Reverse<(Place, Lane)>> {
        let heads = self.queues.iter().filter_map(|(lane, queue)| Some((*queue.first_key_value()?.0, lane.clone())));
        heads.map(Reverse).collect()
    }

    pub fn head_of(&self, lane: &Lane) -> Option<Place> {
        Some(*self.queues.get(lane)?.first_key_value()?.0)
    }

    /// The lane of a channel whose next is the first of all that `may` go.
    pub fn first_lane_of(&self, channel: &Channel, may: impl Fn(&Lane) -> bool) -> Option<Lane> {
        let lanes = self.queues.iter().filter(|(lane, _)| lane.channel() == channel && may(lane));
        let heads = lanes.filter_map(|(lane, queue)| Some((*queue.first_key_value()?.0, lane)));
        heads.min_by_key(|(place, _)| *place).map(|(_, lane)| lane.clone())
    }

    /// How much waits by each lane.
    pub fn counts(&self) -> impl Iterator<Item = (&Lane, usize)> {
        self.queues.iter().map(|(lane, queue)| (lane, queue.len()))
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The rows of all that waits.
    pub fn keys(&self) -> Vec<i64> {
        self.queues.values().flat_map(BTreeMap::values).map(|waiting| waiting.claimed.delivery_key).collect()
    }

    /// An attempt by this lane has ended.
    pub fn note_end(&mut self, lane: &Lane) {
        match self.ended.get_mut(lane) {
            Some(count) => *count += 1,
            None => drop(self.ended.insert(lane.clone(), 1)),
        }
    }

    /// How much to claim ahead for which lanes: twice what each did since this was last asked, as far as `may` allows it,
    /// and how much in all.
    pub fn wanted(&mut self, may: impl Fn(&Lane) -> bool) -> (Vec<(Lane, usize)>, usize) {
        let ended = std::mem::take(&mut self.ended);
        let wanted = ended.into_iter().filter(|(lane, _)| may(lane)).map(|(lane, ended)| {
            let more = (2 * ended).min(MAX_OF_LANE).saturating_sub(self.queues.get(&lane).map_or(0, BTreeMap::len));
            (lane, more)
        });
        (wanted.filter(|(_, more)| *more > 0).collect(), MAX.saturating_sub(self.count))
    }

    /// Takes back what waited too long, what is among `keys`, and what waits by a lane that `may` not go on: the rows. What waited as
    /// long as its lease, since the whole process was stopped, is nobody's to give back.
    pub fn take_back(&mut self, keys: &[i64], may: impl Fn(&Lane) -> bool, now: Timestamp) -> Vec<i64> {
        let (mut taken, mut gone) = (Vec::new(), 0);
        self.queues.retain(|lane, queue| {
            let goes_on = may(lane);
            queue.retain(|_, waiting| {
                let stays = goes_on
                    && waiting.since <= now
                    && now.since(waiting.since) <= MAX_WAIT
                    && !keys.contains(&waiting.claimed.delivery_key);
                if !stays && waiting.since <= now && now.since(waiting.since) >= LEASE {
                    gone += 1;
                } else if !stays {
                    taken.push(waiting.claimed.delivery_key);
                }
                stays
            });
            !queue.is_empty()
        });
        self.count -= taken.len() + gone;
        taken
    }

    /// Takes everything back.
    pub fn take_all(&mut self) -> Vec<i64> {
        let keys = self.keys();
        *self = LinedUp::default();
        keys
    }
}
