//! Deliveries that are claimed and wait for a free connection of their channel, so that one that becomes free goes on at once
//! and not after the next turn of settling and claiming, with its sync of the disk.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::deliver::LEASE;
use crate::channel::Channel;
use crate::store::{Claimed, Place};
use crate::time::{Span, Timestamp};

/// The most that waits for one channel.
const MAX_OF_CHANNEL: usize = 512;
/// The most that waits in all.
const MAX: usize = 1_024;
/// What waited so long is given back: its channel is not as fast as it was, and its lease runs.
const MAX_WAIT: Span = Span::from_seconds(10);

/// What waits, a queue for each channel, in the order in which it leaves.
#[derive(Debug, Default)]
pub(super) struct LinedUp {
    queues: HashMap<Channel, BTreeMap<Place, Waiting>>,
    count: usize,
    /// Attempts that ended since the last claim: how fast each channel is.
    ended: HashMap<Channel, usize>,
}

#[derive(Debug)]
struct Waiting {
    claimed: Claimed,
    since: Timestamp,
}

impl LinedUp {
    pub fn push(&mut self, claimed: Claimed, now: Timestamp) {
        let queue = self.queues.entry(claimed.channel.clone()).or_default();
        if queue.insert(claimed.place, Waiting { claimed, since: now }).is_none() {
            self.count += 1;
        }
    }

    /// The next of a channel.
    pub fn next_of(&mut self, channel: &Channel) -> Option<Claimed> {
        let queue = self.queues.get_mut(channel)?;
        let next = queue.pop_first().map(|(_, waiting)| waiting.claimed);
        self.count -= usize::from(next.is_some());
        if queue.is_empty() {
            self.queues.remove(channel);
        }
        next
    }

    /// All channels with the place of what is next, the first of all on top.
    pub fn heads(&self) -> BinaryHeap<Reverse<(Place, Channel)>> {
        let heads = self.queues.iter().filter_map(|(channel, queue)| Some((*queue.first_key_value()?.0, channel.clone())));
        heads.map(Reverse).collect()
    }

    pub fn head_of(&self, channel: &Channel) -> Option<Place> {
        Some(*self.queues.get(channel)?.first_key_value()?.0)
    }

    pub fn count_of(&self, channel: &Channel) -> usize {
        self.queues.get(channel).map_or(0, BTreeMap::len)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The rows of all that waits.
    pub fn keys(&self) -> Vec<i64> {
        self.queues.values().flat_map(BTreeMap::values).map(|waiting| waiting.claimed.delivery_key).collect()
    }

    /// An attempt by this channel has ended.
    pub fn note_end(&mut self, channel: &Channel) {
        match self.ended.get_mut(channel) {
            Some(count) => *count += 1,
            None => drop(self.ended.insert(channel.clone(), 1)),
        }
    }

    /// How much to claim ahead for which channels: twice what each did since this was last asked, as far as `may` allows it,
    /// and how much in all.
    pub fn wanted(&mut self, may: impl Fn(&Channel) -> bool) -> (Vec<(Channel, usize)>, usize) {
        let ended = std::mem::take(&mut self.ended);
        let wanted = ended.into_iter().filter(|(channel, _)| may(channel)).map(|(channel, ended)| {
            let more = (2 * ended).min(MAX_OF_CHANNEL).saturating_sub(self.count_of(&channel));
            (channel, more)
        });
        (wanted.filter(|(_, more)| *more > 0).collect(), MAX.saturating_sub(self.count))
    }

    /// Takes back what waited too long, what is among `keys`, and what waits for a channel that `may` not go on: the rows. What
    /// waited as long as its lease, since the whole process was stopped, is nobody's to give back.
    pub fn take_back(&mut self, keys: &[i64], may: impl Fn(&Channel) -> bool, now: Timestamp) -> Vec<i64> {
        let (mut taken, mut gone) = (Vec::new(), 0);
        self.queues.retain(|channel, queue| {
            let goes_on = may(channel);
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
