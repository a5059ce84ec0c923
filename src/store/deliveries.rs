//! The outbox as the daemon works on it: claiming what is due, channel by channel, and settling what became of each attempt; many
//! rows in one transaction.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashSet};

use serde::Deserialize;

use super::leases::{Claim, Letters, Settlement, lease_sql, settle_one, take_back_leases};
use super::messages::Reader;
use super::rows::{At, Json, optional_at};
use super::sql::{self, OptionalExtension, Row, Statement, Transaction, named_params, params};
use super::unsubscribe::{Waiting, drop_of_the_gone};
use super::{Store, StoreError, queries, step};
use crate::alert::{Alert, Content};
use crate::channel::{Channel, Lane};
use crate::subscriber::{Destination, Enrolment, Preset};
use crate::time::Timestamp;

/// A delivery that this owner may attempt until the lease ends.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub delivery_key: i64,
    /// Its place in the order in which deliveries leave.
    pub place: Place,
    pub lane: Lane,
    pub alert: Alert,
    /// Whose it is.
    pub enrolment: Enrolment,
    pub destination: Destination,
    /// The form of a webhook's message.
    pub preset: Preset,
    /// Signs the webhook, where the subscriber has one.
    pub secret: Option<String>,
    /// How often it was attempted before.
    pub attempts: u32,
    /// From when its age counts: it was created then, put back by hand, or no longer held by a limit.
    pub waits_since: Timestamp,
    /// When the event of which it is the first alert was first seen; `None` for a digest and what tells of changes.
    pub first_seen_at: Option<Timestamp>,
}

/// What a claim finds.
#[derive(Debug)]
pub struct Claims {
    /// What its owner may attempt now.
    pub claimed: Vec<Claimed>,
    /// How many leases, of whomever, had run out unsettled. What was leased is due again, and may arrive a second time.
    pub ran_out: usize,
}

/// How much may leave by which lane, while places are given out, the first of all first.
pub trait Room {
    /// The most that this lane has room for.
    fn of(&mut self, lane: &Lane) -> usize;

    /// Takes one place of the room that lanes share: whether there was one.
    fn take(&mut self, lane: &Lane) -> bool;
}

/// Room that no lane shares with another.
impl<F: Fn(&Lane) -> usize> Room for F {
    fn of(&mut self, lane: &Lane) -> usize {
        self(lane)
    }

    fn take(&mut self, _: &Lane) -> bool {
        true
    }
}

/// What is claimed beyond the room that there is now, by lanes that will soon have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead<'a> {
    /// How much of each.
    pub lanes: &'a [(Lane, usize)],
    /// The most in all.
    pub most: usize,
}

impl Store {
    /// Leases deliveries that are due or whose lease ran out, the largest magnitude first, from each lane no more than it
    /// has `room` for. A lane without room costs one look at an index, however much waits for it.
    ///
    /// A paused or disabled subscriber's wait until it is resumed. One that cannot be read is a dead letter at once, so that
    /// it holds up no other.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written.
    pub fn claim(&mut self, claim: Claim<'_>, mut room: impl Fn(&Lane) -> usize) -> Result<Vec<Claimed>, StoreError> {
        let begin = self.connection.begin_beside_others();
        let transaction = begin.map_err(step("begin claiming deliveries"))?;
        let claims = claim_within(&transaction, claim, &mut room, Ahead::default())?;
        transaction.commit().map_err(step("commit the leases"))?;
        Ok(claims.claimed)
    }

    /// Records what became of attempts, all in one transaction. One whose lease went to another owner is left to that owner.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written; nothing is recorded then.
    pub fn settle(&mut self, owner: &str, settled: &[(i64, Settlement)], now: Timestamp) -> Result<(), StoreError> {
        let begin = self.connection.begin_beside_others();
        let transaction = begin.map_err(step("begin settling deliveries"))?;
        settle_within(&transaction, owner, settled, now)?;
        transaction.commit().map_err(step("commit the settled deliveries"))
    }

    /// [`Store::settle`] and [`Store::claim`] in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written; nothing is settled or claimed then.
    pub fn settle_and_claim(
        &mut self,
        settled: &[(i64, Settlement)],
        claim: Claim<'_>,
        room: &mut impl Room,
        ahead: Ahead<'_>,
    ) -> Result<Claims, StoreError> {
        let begin = self.connection.begin_beside_others();
        let transaction = begin.map_err(step("begin settling deliveries"))?;
        settle_within(&transaction, claim.owner, settled, claim.now)?;
        let claims = claim_within(&transaction, claim, room, ahead)?;
        transaction.commit().map_err(step("commit the settled deliveries and the leases"))?;
        Ok(claims)
    }

    /// Of these deliveries those that are not to be attempted any more: no longer this owner's, or of a subscriber who was
    /// paused, disabled or removed.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn called_back(&self, owner: &str, delivery_keys: &[i64]) -> Result<Vec<i64>, StoreError> {
        if delivery_keys.is_empty() {
            return Ok(Vec::new());
        }
        let read = || -> sql::Result<HashSet<i64>> {
            let mut look = self.connection.prepare_cached(queries::STILL_CLAIMED)?;
            let still_claimed = look.query_map([owner], |row| row.get(0))?;
            still_claimed.collect()
        };
        let still_claimed = read().map_err(step("look whether deliveries are still to be attempted"))?;
        Ok(delivery_keys.iter().copied().filter(|key| !still_claimed.contains(key)).collect())
    }

    /// Gives up what waits for a channel since before `before`, except for paused or disabled subscribers: how many.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be written.
    pub fn give_up(&mut self, channel: &Channel, before: Timestamp, reason: &str, now: Timestamp) -> Result<usize, StoreError> {
        let sql = "UPDATE outbox SET status = 'dead', settled_at = :now, detail = :reason
                   WHERE (channel = :channel OR channel >= :channel || ' #' AND channel < :channel || ' $') AND status = 'due' AND coalesce(retried_at, created_at) < :before
                     AND (SELECT standing = 'active' FROM subscribers AS s WHERE s.subscriber_key = outbox.subscriber_key)";
        let parameters = named_params! {
            ":now": At(now), ":reason": reason, ":channel": channel.as_str(), ":before": At(before),
        };
        self.connection.execute(sql, parameters).map_err(step("give up what waited too long"))
    }

    /// The first instant after `now` at which something becomes due or a lease runs out; `None` if nothing will.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let next = self.connection.prepare_cached(queries::NEXT_DUE);
        next.and_then(|mut statement| statement.query_row([At(now)], |row| optional_at(row, "at")))
            .map_err(step("find what is due next"))
    }
}

/// A due delivery's place in the order: the larger magnitude first, an unknown one last, then what is due the longest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    magnitude: f64,
    due_at: i64,
    delivery_key: i64,
}

impl Eq for Place {}

impl Ord for Place {
    /// What leaves later is greater, so that a heap gives up the last.
    fn cmp(&self, other: &Place) -> Ordering {
        let by_size = other.magnitude.total_cmp(&self.magnitude);
        by_size.then(self.due_at.cmp(&other.due_at)).then(self.delivery_key.cmp(&other.delivery_key))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn claim_within(
    transaction: &Transaction<'_>,
    claim: Claim<'_>,
    room: &mut impl Room,
    ahead: Ahead<'_>,
) -> Result<Claims, StoreError> {
    drop_of_the_gone(transaction, Waiting::Leased { until: claim.now }, claim.now)?;
    let ran_out = take_back_leases(transaction, Letters::Outbox, claim.now)?;
    let places = first_in_line(transaction, claim, room).map_err(step("find due deliveries"))?;
    let mut claimed = claim_places(transaction, claim, places)?;
    if !ahead.lanes.is_empty() && ahead.most > 0 {
        let places = next_in_line(transaction, claim.now, ahead).map_err(step("find due deliveries"))?;
        claimed.extend(claim_places(transaction, claim, places)?);
    }
    Ok(Claims { claimed, ran_out })
}

/// Leases what is at these places, as far as it can be read.
fn claim_places(transaction: &Transaction<'_>, claim: Claim<'_>, places: Vec<Place>) -> Result<Vec<Claimed>, StoreError> {
    let (mut claimed, mut messages) = (Vec::with_capacity(places.len()), Reader::default());
    let mut read = transaction.prepare_cached(queries::CLAIMED).map_err(step("read a due delivery"))?;
    let mut leases = transaction.batch(&lease_sql(Letters::Outbox)).map_err(step("lease deliveries"))?;
    for place in places {
        let found = read.query_row([place.delivery_key], |row| Ok(claimed_from_row(row, place, &mut messages)));
        match found.map_err(step("read a due delivery"))? {
            Ok(found) => {
                leases.add(params![found.delivery_key, claim.owner, At(claim.until())]).map_err(step("lease a delivery"))?;
                claimed.push(found);
            }
            Err(fault) => bury(transaction, place.delivery_key, &fault, claim.now)?,
        }
    }
    leases.finish().map_err(step("lease deliveries"))?;
    Ok(claimed)
}

/// The places of what is claimed, in order: the best of all lanes, no more of one than it has room for.
fn first_in_line(transaction: &Transaction<'_>, claim: Claim<'_>, room: &mut impl Room) -> sql::Result<Vec<Place>> {
    let mut best = Best { places: BinaryHeap::new(), most: claim.most };
    let mut next_lane = transaction.prepare_cached(queries::NEXT_CHANNEL)?;
    let mut due = transaction.prepare_cached(queries::DUE)?;
    let (mut lanes, mut after): (Vec<Lane>, Option<String>) = (Vec::new(), None);
    while let Some(name) =
        next_lane.query_row([after.as_deref().unwrap_or_default()], |row| row.get::<_, String>(0)).optional()?
    {
        let lane = Lane::from_text(name.clone());
        best.add(&mut due, (&lane, lanes.len()), room.of(&lane), claim.now)?;
        lanes.push(lane);
        after = Some(name);
    }
    Ok(best.into_places(|lane| room.take(&lanes[lane])))
}

/// The same among some lanes, whose room is their own.
fn next_in_line(transaction: &Transaction<'_>, now: Timestamp, ahead: Ahead<'_>) -> sql::Result<Vec<Place>> {
    let mut best = Best { places: BinaryHeap::new(), most: ahead.most };
    let mut due = transaction.prepare_cached(queries::DUE)?;
    for (number, (lane, room)) in ahead.lanes.iter().enumerate() {
        best.add(&mut due, (lane, number), *room, now)?;
    }
    Ok(best.into_places(|_| true))
}

/// The first places found so far with the numbers of their lanes, the last of them on top.
struct Best {
    places: BinaryHeap<(Place, usize)>,
    most: usize,
}

impl Best {
    /// Takes in what is due by a lane, as far as it has room.
    fn add(&mut self, due: &mut Statement<'_>, (lane, number): (&Lane, usize), room: usize, now: Timestamp) -> sql::Result<()> {
        let mut left = room.min(self.most);
        if left == 0 {
            return Ok(());
        }
        let mut rows = due.query(
            named_params! { ":channel": lane.as_str(), ":now": At(now), ":most": i64::try_from(left).unwrap_or(i64::MAX) },
        )?;
        while left > 0
            && let Some(row) = rows.next()?
        {
            let magnitude: Option<f64> = row.get("magnitude")?;
            let place = Place {
                magnitude: magnitude.unwrap_or(f64::NEG_INFINITY),
                due_at: row.get("due_at")?,
                delivery_key: row.get("delivery_key")?,
            };
            if self.places.len() >= self.most {
                // The lane's further rows come after this one.
                if self.places.peek().is_none_or(|(last, _)| *last < place) {
                    break;
                }
                self.places.pop();
            }
            self.places.push((place, number));
            left -= 1;
        }
        Ok(())
    }

    /// The places in order, as far as there is room that their lanes share.
    fn into_places(self, mut take: impl FnMut(usize) -> bool) -> Vec<Place> {
        self.places.into_sorted_vec().into_iter().filter_map(|(place, lane)| take(lane).then_some(place)).collect()
    }
}

fn settle_within(
    transaction: &Transaction<'_>,
    owner: &str,
    settled: &[(i64, Settlement)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let delivered_sql = "UPDATE outbox
        SET status = 'delivered', detail = ?2, settled_at = ?3, lease_owner = NULL, lease_until = NULL
        WHERE delivery_key = ?1 AND status = 'leased' AND lease_owner = ?4";
    let mut delivered = transaction.batch(delivered_sql).map_err(step("settle deliveries"))?;
    for one in settled {
        let (delivery_key, settlement) = one;
        if let Settlement::Delivered { detail } = settlement {
            delivered.add(params![delivery_key, detail, At(now), owner]).map_err(step("settle a delivery"))?;
            continue;
        }
        let was_ours = settle_one(transaction, Letters::Outbox, owner, one, now)?;
        if let Settlement::Retry { .. } | Settlement::GivenBack = settlement {
            // Whoever left while the attempt was under way gets no further one.
            drop_of_the_gone(transaction, Waiting::One(*delivery_key), now)?;
        }
        if let Settlement::Dead { reason, disable: true } = settlement
            && was_ours
        {
            transaction
                .execute(
                    "UPDATE subscribers SET standing = 'disabled', standing_reason = ?2
                     WHERE standing = 'active' AND subscriber_key = (SELECT subscriber_key FROM outbox WHERE delivery_key = ?1)",
                    params![delivery_key, reason],
                )
                .map_err(step("disable a subscriber"))?;
        }
    }
    delivered.finish().map_err(step("settle deliveries"))
}

/// Makes a delivery that cannot be read a dead letter.
fn bury(transaction: &Transaction<'_>, delivery_key: i64, fault: &sql::Error, now: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE outbox SET status = 'dead', settled_at = ?2, detail = ?3, lease_owner = NULL, lease_until = NULL
               WHERE delivery_key = ?1";
    let detail = format!("it cannot be read in the database: {fault}");
    let done = transaction.execute(sql, params![delivery_key, At(now), detail]);
    done.map(|_| ()).map_err(step("set a delivery aside that cannot be read"))
}

/// Of a subscriber's settings, what an attempt needs.
#[derive(Deserialize)]
struct WhereTo {
    destination: Destination,
    #[serde(default)]
    preset: Preset,
}

fn claimed_from_row(row: &Row<'_>, place: Place, messages: &mut Reader) -> sql::Result<Claimed> {
    let attempts: i64 = row.get("attempts")?;
    let alert = messages.read(row)?;
    let WhereTo { destination, preset } = row.get::<_, Json<WhereTo>>("settings")?.0;
    Ok(Claimed {
        delivery_key: row.get("delivery_key")?,
        place,
        lane: Lane::from_text(row.get("channel")?),
        first_seen_at: if matches!(alert.content, Content::Event { .. }) { optional_at(row, "first_seen_at")? } else { None },
        alert,
        enrolment: Enrolment { number: row.get("subscriber_key")?, at: row.get::<_, At>("enrolled_at")?.0 },
        destination,
        preset,
        secret: row.get("secret")?,
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        waits_since: row.get::<_, At>("waits_since")?.0,
    })
}
