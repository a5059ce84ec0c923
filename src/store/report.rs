//! Adding up: what became of the decisions of a stretch of time, subscriber by subscriber.

use std::collections::BTreeMap;

use super::queries;
use super::rows::{At, Json, Word};
use super::sql::{self, Params, params};
use super::{Store, StoreError, step};
use crate::limiter::Policy;
use crate::plan::Outcome;
use crate::subscriber::{Destination, Mode, Standing, Subscriber};
use crate::time::Timestamp;
use crate::withholding::{DAY, Day, MAX_DAYS, sustained};

/// What became of one subscriber's events and messages.
#[derive(Clone, Debug)]
pub struct SubscriberReport {
    pub name: String,
    pub standing: Standing,
    /// Why it is disabled.
    pub standing_reason: Option<String>,
    pub destination: Destination,
    pub policy: Policy,
    pub mode: Mode,
    /// Decisions in the stretch, in the order of [`Outcome::ALL`].
    pub outcomes: [u64; Outcome::ALL.len()],
    /// Of them those that the limiter refused.
    pub refused: u64,
    /// Messages that were given up in the stretch and not put back.
    pub dead: u64,
    /// The days up to the end of the stretch, the last first, at most [`MAX_DAYS`].
    pub days: Vec<Day>,
}

impl SubscriberReport {
    /// All its decisions in the stretch.
    #[must_use]
    pub fn matched(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// How many ended so.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u64 {
        Outcome::ALL.iter().zip(self.outcomes).filter(|(known, _)| **known == outcome).map(|(_, count)| count).sum()
    }

    /// Of what matched, the share that was refused, 0 to 1; nothing of nothing.
    #[must_use]
    pub fn share_refused(&self) -> f64 {
        if self.matched() == 0 { 0.0 } else { self.refused as f64 / self.matched() as f64 }
    }

    /// For how many days its events have been withheld, if that is sustained. In shadow mode nothing is.
    #[must_use]
    pub fn sustained_days(&self) -> Option<usize> {
        sustained(&self.days).filter(|_| self.mode == Mode::Enforce)
    }

    /// Whether nothing more goes to its destination, or something could not go.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.standing == Standing::Disabled || self.dead > 0
    }

    /// Puts those first of whom the largest share was refused; equals stay as they are.
    pub fn sort_by_share(reports: &mut [SubscriberReport]) {
        reports.sort_by(|a, b| b.share_refused().total_cmp(&a.share_refused()).then(b.refused.cmp(&a.refused)));
    }
}

/// The reports by the subscribers' keys, on their way.
type Reports = BTreeMap<i64, SubscriberReport>;

impl Store {
    /// What became of the events decided from `from` (inclusive) to `to` (exclusive), for each subscriber who is there, in
    /// order of name. It reads all decisions.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database, or the settings of a subscriber in it, cannot be read.
    pub fn report(&self, from: Timestamp, to: Timestamp) -> Result<Vec<SubscriberReport>, StoreError> {
        // One moment for all the sums.
        let moment = self.connection.begin_reading().map_err(step("begin a report"))?;
        let mut reports = self.reports(EVERYONE, params![]).map_err(step("read the subscribers"))?;
        self.add_outcomes(&mut reports, OUTCOMES, params![At(from), At(to)]).map_err(step("add up the decisions"))?;
        self.add_days(&mut reports, DAYS, params![At(first_day(to)), At(to), day()]).map_err(step("add up the days"))?;
        self.add_dead(&mut reports, DEAD, params![At(from), At(to)]).map_err(step("count dead letters"))?;
        moment.commit().map_err(step("end a report"))?;
        Ok(in_order_of_name(reports))
    }

    /// The same for the first `most` whose names begin with `prefix`, in order of name. It reads their decisions alone.
    ///
    /// # Errors
    /// As [`Store::report`].
    pub fn report_named(
        &self,
        prefix: &str,
        most: usize,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<SubscriberReport>, StoreError> {
        let moment = self.connection.begin_reading().map_err(step("begin a report"))?;
        // No name has a character beyond this one.
        let (end, most) = (format!("{prefix}\u{7f}"), i64::try_from(most).unwrap_or(i64::MAX));
        let named = self.reports(queries::SUBSCRIBERS_NAMED, params![prefix, end, most]);
        let mut reports = named.map_err(step("read the subscribers"))?;
        for key in reports.keys().copied().collect::<Vec<_>>() {
            let of_one = params![key, At(from), At(to)];
            self.add_outcomes(&mut reports, queries::OUTCOMES_OF_ONE, of_one).map_err(step("add up the decisions"))?;
            let days = params![key, At(first_day(to)), At(to), day()];
            self.add_days(&mut reports, queries::DAYS_OF_ONE, days).map_err(step("add up the days"))?;
            self.add_dead(&mut reports, queries::DEAD_OF_ONE, of_one).map_err(step("count dead letters"))?;
        }
        moment.commit().map_err(step("end a report"))?;
        Ok(in_order_of_name(reports))
    }

    /// Whether there are more subscribers than this, without counting further.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database cannot be read.
    pub fn has_more_subscribers_than(&self, number: u32) -> Result<bool, StoreError> {
        let up_to = i64::from(number) + 1;
        let count = self.connection.query_row(queries::SUBSCRIBERS_UP_TO, [up_to], |row| row.get::<_, i64>(0));
        Ok(count.map_err(step("count the subscribers"))? == up_to)
    }

    fn reports(&self, sql: &str, parameters: impl Params) -> sql::Result<Reports> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(parameters, |row| {
            let settings = row.get::<_, Json<Subscriber>>("settings")?.0;
            let report = SubscriberReport {
                name: row.get("name")?,
                standing: row.get::<_, Word<Standing>>("standing")?.0,
                standing_reason: row.get("standing_reason")?,
                destination: settings.destination,
                policy: settings.policy,
                mode: settings.mode,
                outcomes: [0; Outcome::ALL.len()],
                refused: 0,
                dead: 0,
                days: Vec::new(),
            };
            Ok((row.get("subscriber_key")?, report))
        })?;
        rows.collect()
    }

    fn add_outcomes(&self, reports: &mut Reports, sql: &str, parameters: impl Params) -> sql::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        while let Some(row) = rows.next()? {
            let Some(report) = reports.get_mut(&row.get(0)?) else { continue };
            let outcome = row.get::<_, Word<Outcome>>(1)?.0;
            if let Some(at) = Outcome::ALL.iter().position(|known| *known == outcome) {
                report.outcomes[at] = count(row.get(2)?);
            }
            report.refused += count(row.get(3)?);
        }
        Ok(())
    }

    fn add_days(&self, reports: &mut Reports, sql: &str, parameters: impl Params) -> sql::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        while let Some(row) = rows.next()? {
            let Some(report) = reports.get_mut(&row.get(0)?) else { continue };
            let at = usize::try_from(row.get::<_, i64>(1)?).unwrap_or(usize::MAX);
            if at < MAX_DAYS {
                report.days.resize(report.days.len().max(at + 1), Day::default());
                report.days[at] = Day { matched: count(row.get(2)?), refused: count(row.get(3)?) };
            }
        }
        Ok(())
    }

    fn add_dead(&self, reports: &mut Reports, sql: &str, parameters: impl Params) -> sql::Result<()> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        while let Some(row) = rows.next()? {
            if let Some(report) = reports.get_mut(&row.get(0)?) {
                report.dead = count(row.get(1)?);
            }
        }
        Ok(())
    }
}

/// Everyone's, where all are read: [`queries`] has those of one subscriber.
const EVERYONE: &str =
    "SELECT subscriber_key, name, standing, standing_reason, settings FROM subscribers WHERE removed_at IS NULL";
const OUTCOMES: &str = "SELECT subscriber_key, outcome, count(*), sum(refused) FROM decisions
    WHERE decided_at >= ?1 AND decided_at < ?2 GROUP BY subscriber_key, outcome";
const DAYS: &str = "SELECT subscriber_key, (?2 - 1 - decided_at) / ?3 AS day, count(*), sum(refused) FROM decisions
    WHERE decided_at >= ?1 AND decided_at < ?2 GROUP BY subscriber_key, day";
const DEAD: &str = "SELECT subscriber_key, count(*) FROM outbox
    WHERE status = 'dead' AND settled_at >= ?1 AND settled_at < ?2 GROUP BY subscriber_key";

fn in_order_of_name(reports: Reports) -> Vec<SubscriberReport> {
    let mut reports: Vec<_> = reports.into_values().collect();
    reports.sort_by(|a, b| a.name.cmp(&b.name));
    reports
}

/// Where the days that are looked back begin.
fn first_day(to: Timestamp) -> Timestamp {
    (0..MAX_DAYS).fold(to, |at, _| at.minus(DAY))
}

fn day() -> i64 {
    i64::try_from(DAY.ticks()).unwrap_or(i64::MAX)
}

/// A count of rows, which is never negative.
fn count(rows: i64) -> u64 {
    u64::try_from(rows).unwrap_or_default()
}
