//! What has changed that the operator may want to hear of: each change once, compared with what was noticed before. The rows
//! of other stages are read, and nothing of theirs is written but that a dead letter was noticed.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{At, Word, optional_at};
use super::sql::{self, Connection, OptionalExtension, Row, Transaction, named_params, params};
use super::{Store, StoreError, queries, step};
use crate::channel::{Channel, Lane};
use crate::freshness::Freshness;
use crate::notice::What;
use crate::subscriber::{Mode, Standing};
use crate::time::{Span, Timestamp};
use crate::withholding::{DAY, Day, RULE, SUSTAINED_DAYS, sustained};

/// Dead letters that are looked at in one step.
const MAX_DEAD: usize = 500;
/// Deaths that are looked at in one step, for whether they are over.
const MAX_DEATHS: usize = 500;
/// How often all of them are looked at.
const RECOVERIES_EVERY: Span = Span::from_seconds(60);
/// Subscribers whose withholding is judged in one step, by their numbers.
const RANGE: i64 = 500;
/// A decision comes within this after its event last changed, also after a pause of the daemon.
const DECIDED_WITHIN: Span = DAY;
/// Why withholding is no longer sustained.
const NO_MORE: &str = "on the last day no more than half of the matched events were refused, or fewer than 4 matched";

/// How far the judgement of all subscribers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judging {
    /// The last one is less than a day old.
    NotDue,
    /// One step was made.
    Going { began: usize, ended: usize },
}

/// A destination that was found dead.
struct Death {
    change_key: i64,
    subscriber_key: i64,
    name: String,
    since: Timestamp,
    /// When it took a message again, if it did and that was not noticed yet.
    recovered_at: Option<Timestamp>,
}

/// A change about to be recorded.
struct Noticed<'a> {
    what: What,
    subscriber: Option<(i64, &'a str)>,
    since: Timestamp,
    detail: &'a str,
    /// Of a dead destination.
    dead: Option<(i64, &'a str)>,
}

/// A dead letter that was not looked at yet.
struct DeadLetter {
    delivery_key: i64,
    subscriber_key: i64,
    name: String,
    channel: Channel,
    settled_at: Timestamp,
    detail: Option<String>,
    standing: Standing,
    active_since: Timestamp,
    gone: bool,
    destination: String,
}

impl Store {
    /// Records that the feed went stale, or recovered, if that is a change: whether it is.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written.
    pub fn notice_feed(&mut self, found: Freshness, now: Timestamp) -> Result<bool, StoreError> {
        if change_of_feed(&self.connection, found, now)?.is_none() {
            return Ok(false);
        }
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin noticing the feed"))?;
        // Asked again when nobody else writes: another daemon may have been quicker.
        let Some((what, since, detail)) = change_of_feed(&transaction, found, now)? else { return Ok(false) };
        record(&transaction, &Noticed { what, subscriber: None, since, detail: &detail, dead: None }, now)?;
        transaction.commit().map_err(step("commit what was noticed of the feed"))?;
        Ok(true)
    }

    /// Looks at up to 500 dead letters that were not looked at yet: how many, and of them those that made a destination
    /// dead which was not known to be. A destination is known to be dead until it takes a message, or is resumed or
    /// replaced.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written.
    pub fn notice_dead(&mut self, now: Timestamp) -> Result<(usize, usize), StoreError> {
        let any = self.connection.prepare_cached(queries::UNNOTICED).and_then(|mut find| find.exists([1]));
        if !any.map_err(step("look for dead letters"))? {
            return Ok((0, 0));
        }
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin noticing dead letters"))?;
        let letters = dead_letters(&transaction).map_err(step("read dead letters"))?;
        let mut destinations = 0;
        for letter in &letters {
            if !letter.gone && !is_known(&transaction, letter)? {
                let disabled = if letter.standing == Standing::Disabled { "; the subscriber is disabled" } else { "" };
                let detail = format!("{}: {}{disabled}", letter.channel, letter.detail.as_deref().unwrap_or("given up"));
                let noticed = Noticed {
                    what: What::DestinationDead,
                    subscriber: Some((letter.subscriber_key, &letter.name)),
                    since: letter.settled_at,
                    detail: &detail,
                    dead: Some((letter.delivery_key, &letter.destination)),
                };
                record(&transaction, &noticed, now)?;
                destinations += 1;
            }
            let mark = "UPDATE outbox SET noticed = 1 WHERE delivery_key = ?1";
            let marked = transaction.prepare_cached(mark).and_then(|mut mark| mark.execute([letter.delivery_key]));
            marked.map_err(step("mark a dead letter as noticed"))?;
        }
        transaction.commit().map_err(step("commit what was noticed of dead letters"))?;
        Ok((letters.len(), destinations))
    }

    /// One step of looking, once a minute, whether dead destinations took a message since: at the next 500 of them, how many did.
    /// `None` if there is nothing to look at now.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written.
    pub fn notice_recovered(&mut self, now: Timestamp) -> Result<Option<usize>, StoreError> {
        let sql = "SELECT recovered_at, recovering_from,
                          EXISTS (SELECT 1 FROM changes WHERE what = 'destination-dead') AS any FROM noticing";
        let read = |row: &Row<'_>| Ok((optional_at(row, "recovered_at")?, row.get("recovering_from")?, row.get("any")?));
        let found = self.connection.prepare_cached(sql).and_then(|mut find| find.query_row([], read));
        let (last, from, any): (_, Option<i64>, bool) = found.map_err(step("read when recoveries were looked for"))?;
        // A clock that was set back is followed.
        let is_due = last.is_none_or(|at| at > now || now.since(at) >= RECOVERIES_EVERY);
        if !any || (from.is_none() && !is_due) {
            return Ok(None);
        }
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin looking for recoveries"))?;
        let deaths = deaths(&transaction, from.unwrap_or(0)).map_err(step("read which destinations are dead"))?;
        let mut recovered = 0;
        for death in &deaths {
            let Some(at) = death.recovered_at else { continue };
            let noticed = Noticed {
                what: What::DestinationRecovered,
                subscriber: Some((death.subscriber_key, &death.name)),
                since: at,
                detail: &format!("a message arrived, for the first time since {}", death.since),
                dead: None,
            };
            record(&transaction, &noticed, now)?;
            recovered += 1;
        }
        let next = deaths.last().filter(|_| deaths.len() == MAX_DEATHS).map(|death| death.change_key + 1);
        let sql = "UPDATE noticing SET recovering_from = :next, recovered_at = iif(:done = 1, :now, recovered_at)";
        let parameters = named_params! { ":next": next, ":done": next.is_none(), ":now": At(now) };
        transaction.execute(sql, parameters).map_err(step("record how far recoveries are looked for"))?;
        transaction.commit().map_err(step("commit the noticed recoveries"))?;
        Ok(Some(recovered))
    }

    /// One step of judging, once a day, for whom withholding is sustained: of the next 500 subscribers, as things were when
    /// the judgement began.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read or written.
    pub fn judge_withholding(&mut self, now: Timestamp) -> Result<Judging, StoreError> {
        let read = |row: &Row<'_>| {
            let from: Option<i64> = row.get("judging_from")?;
            Ok((optional_at(row, "judged_at")?, optional_at(row, "judging_at")?, from.unwrap_or(0)))
        };
        let found = self.connection.query_row("SELECT judged_at, judging_at, judging_from FROM noticing", [], read);
        let (judged_at, judging_at, from) = found.map_err(step("read when withholding was judged"))?;
        // A clock that was set back is followed.
        let is_due = judged_at.is_none_or(|at| at > now || now.since(at) >= DAY);
        if judging_at.is_none() && !is_due {
            return Ok(Judging::NotDue);
        }
        let as_of = judging_at.unwrap_or(now);
        let begin = self.connection.begin();
        let transaction = begin.map_err(step("begin judging withholding"))?;
        let judged = judge_range(&transaction, from, as_of, now)?;
        let last: i64 = transaction
            .query_row("SELECT coalesce(max(subscriber_key), 0) FROM subscribers", [], |row| row.get(0))
            .map_err(step("count the subscribers"))?;
        let next = from.saturating_add(RANGE);
        let sql = "UPDATE noticing SET judged_at = iif(:done = 1, :as_of, judged_at), judging_at = iif(:done = 1, NULL, :as_of),
                                       judging_from = iif(:done = 1, NULL, :next)";
        let parameters = named_params! { ":done": next > last, ":as_of": At(as_of), ":next": next };
        transaction.execute(sql, parameters).map_err(step("record how far withholding is judged"))?;
        transaction.commit().map_err(step("commit the judged withholding"))?;
        Ok(judged)
    }
}

/// What the freshness of the feed is a change to, if it is one: since when, and in words.
fn change_of_feed(
    connection: &Connection,
    found: Freshness,
    now: Timestamp,
) -> Result<Option<(What, Timestamp, String)>, StoreError> {
    let sql = "SELECT what, since FROM changes WHERE subscriber_key IS NULL ORDER BY change_key DESC LIMIT 1";
    let read = |row: &Row<'_>| Ok((row.get::<_, Word<What>>("what")?.0, row.get::<_, At>("since")?.0));
    let last = connection.query_row(sql, [], read).optional().map_err(step("read how the feed was"))?;
    Ok(match (last, found) {
        (Some((What::FeedStale, since)), Freshness::Fresh) => {
            Some((What::FeedFresh, now, format!("{found} again, for the first time since {since}")))
        }
        (None | Some((What::FeedFresh, _)), Freshness::Stale { since, .. }) => Some((What::FeedStale, since, found.to_string())),
        _ => None,
    })
}

fn record(transaction: &Transaction<'_>, noticed: &Noticed<'_>, now: Timestamp) -> Result<(), StoreError> {
    let sql = "INSERT INTO changes (what, subscriber_key, subscriber, since, noticed_at, detail, delivery_key, destination)
               VALUES (:what, :key, :name, :since, :now, :detail, :delivery, :destination)";
    let done = transaction.prepare_cached(sql).and_then(|mut insert| {
        insert.execute(named_params! {
            ":what": noticed.what.name(), ":key": noticed.subscriber.map(|(key, _)| key),
            ":name": noticed.subscriber.map(|(_, name)| name), ":since": At(noticed.since), ":now": At(now),
            ":detail": noticed.detail, ":delivery": noticed.dead.map(|(key, _)| key),
            ":destination": noticed.dead.map(|(_, destination)| destination),
        })
    });
    done.map(|_| ()).map_err(step("record what has changed"))
}

fn dead_letters(transaction: &Transaction<'_>) -> sql::Result<Vec<DeadLetter>> {
    let mut find = transaction.prepare_cached(queries::UNNOTICED)?;
    let rows = find.query_map([i64::try_from(MAX_DEAD).unwrap_or(i64::MAX)], |row| {
        Ok(DeadLetter {
            delivery_key: row.get("delivery_key")?,
            subscriber_key: row.get("subscriber_key")?,
            name: row.get("name")?,
            channel: Lane::from_text(row.get("channel")?).channel().clone(),
            settled_at: row.get::<_, At>("settled_at")?.0,
            detail: row.get("detail")?,
            standing: row.get::<_, Word<Standing>>("standing")?.0,
            active_since: row.get::<_, At>("active_since")?.0,
            gone: row.get("gone")?,
            destination: row.get("destination")?,
        })
    })?;
    rows.collect()
}

/// The next deaths of those who are still subscribers.
fn deaths(transaction: &Transaction<'_>, from: i64) -> sql::Result<Vec<Death>> {
    let mut find = transaction.prepare_cached(queries::DEATHS)?;
    let rows = find.query_map(params![from, i64::try_from(MAX_DEATHS).unwrap_or(i64::MAX)], |row| {
        Ok(Death {
            change_key: row.get("change_key")?,
            subscriber_key: row.get("subscriber_key")?,
            name: row.get("name")?,
            since: row.get::<_, At>("since")?.0,
            recovered_at: optional_at(row, "recovered_at")?,
        })
    })?;
    rows.collect()
}

/// Whether the destination was known to be dead when this message to it was given up.
fn is_known(transaction: &Transaction<'_>, letter: &DeadLetter) -> Result<bool, StoreError> {
    let found = transaction.prepare_cached(queries::KNOWN_DEAD).and_then(|mut find| {
        find.exists(named_params! {
            ":subscriber": letter.subscriber_key, ":destination": letter.destination, ":active_since": At(letter.active_since),
        })
    });
    found.map_err(step("look whether a destination was known to be dead"))
}

/// Judges the subscribers from a number on, and records who passed into sustained withholding, and out of it.
fn judge_range(transaction: &Transaction<'_>, from: i64, as_of: Timestamp, now: Timestamp) -> Result<Judging, StoreError> {
    let mut withheld = withheld(transaction, from, as_of).map_err(step("add up what was withheld"))?;
    let mut names = BTreeMap::new();
    let known = known_withheld(transaction, from).map_err(step("read for whom withholding was sustained"))?;
    let since = (0..SUSTAINED_DAYS).fold(as_of, |at, _| at.minus(DAY));
    let (mut began, mut over) = (0, 0);
    for key in withheld.union(&known) {
        if let Some((name, mode)) = name_and_mode(transaction, *key)? {
            names.insert(*key, (name, mode));
        }
    }
    // Shadow mode withholds nothing.
    withheld.retain(|key| names.get(key).is_some_and(|(_, mode)| *mode == Mode::Enforce));
    for key in withheld.symmetric_difference(&known) {
        // A subscriber who was removed is nobody's concern any more.
        let Some((name, _)) = names.get(key) else { continue };
        let (what, since, detail) = if known.contains(key) {
            over += 1;
            (What::WithholdingEnded, as_of, NO_MORE)
        } else {
            began += 1;
            (What::WithholdingBegan, since, RULE)
        };
        record(transaction, &Noticed { what, subscriber: Some((*key, name)), since, detail, dead: None }, now)?;
    }
    Ok(Judging::Going { began, ended: over })
}

fn name_and_mode(transaction: &Transaction<'_>, key: i64) -> Result<Option<(String, Mode)>, StoreError> {
    let sql = "SELECT name, coalesce(settings ->> '$.mode', 'enforce') AS mode FROM subscribers
               WHERE subscriber_key = ?1 AND removed_at IS NULL";
    let read = |row: &Row<'_>| Ok((row.get("name")?, row.get::<_, Word<Mode>>("mode")?.0));
    let found = transaction.prepare_cached(sql).and_then(|mut find| find.query_row([key], read).optional());
    found.map_err(step("read for whom withholding may be sustained"))
}

/// For whom withholding is sustained, by the rule of `withholding`, whatever their mode.
fn withheld(transaction: &Transaction<'_>, from: i64, as_of: Timestamp) -> sql::Result<BTreeSet<i64>> {
    let first = (0..SUSTAINED_DAYS).fold(as_of, |at, _| at.minus(DAY));
    let mut add_up = transaction.prepare_cached(queries::DAYS_OF_RANGE)?;
    let mut rows = add_up.query(named_params! {
        ":changed_since": At(first.minus(DECIDED_WITHIN)), ":from": At(first), ":to": At(as_of),
        ":day": i64::try_from(DAY.ticks()).unwrap_or(i64::MAX), ":first": from, ":last": from.saturating_add(RANGE - 1),
    })?;
    let mut days: BTreeMap<i64, [Day; SUSTAINED_DAYS]> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        let day = usize::try_from(row.get::<_, i64>("day")?).unwrap_or(usize::MAX);
        if let Some(day) = days.entry(row.get("subscriber_key")?).or_default().get_mut(day) {
            *day = Day { matched: count("matched")?, refused: count("refused")? };
        }
    }
    Ok(days.into_iter().filter(|(_, days)| sustained(days).is_some()).map(|(key, _)| key).collect())
}

/// For whom it was sustained when it was last judged.
fn known_withheld(transaction: &Transaction<'_>, from: i64) -> sql::Result<BTreeSet<i64>> {
    let mut find = transaction.prepare_cached(queries::CHANGES_OF_RANGE)?;
    let mut rows = find.query(params![from, from.saturating_add(RANGE - 1)])?;
    let mut known = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let key = row.get("subscriber_key")?;
        match row.get::<_, Word<What>>("what")?.0 {
            What::WithholdingBegan => known.insert(key),
            What::WithholdingEnded => known.remove(&key),
            What::FeedStale | What::FeedFresh | What::DestinationDead | What::DestinationRecovered => false,
        };
    }
    Ok(known)
}
