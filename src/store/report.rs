//! Adding up: what became of the decisions of a stretch of time, subscriber by subscriber.

use std::collections::BTreeMap;

use rusqlite::params;

use super::rows::{At, Json, Word};
use super::{Store, StoreError, step};
use crate::plan::Outcome;
use crate::subscriber::{Destination, Mode, Standing, Subscriber};
use crate::time::Timestamp;
use crate::withholding::{DAY, Day, MAX_DAYS};

/// What became of one subscriber's events and messages.
#[derive(Clone, Debug)]
pub struct SubscriberReport {
    pub name: String,
    pub standing: Standing,
    /// Why it is disabled.
    pub standing_reason: Option<String>,
    pub destination: Destination,
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
}

impl Store {
    /// What became of the events decided from `from` (inclusive) to `to` (exclusive), for each subscriber who is there, in
    /// order of name.
    ///
    /// # Errors
    /// [`StoreError::Sql`] if the database, or the settings of a subscriber in it, cannot be read.
    pub fn report(&self, from: Timestamp, to: Timestamp) -> Result<Vec<SubscriberReport>, StoreError> {
        // One moment for all the sums.
        let moment = self.connection.unchecked_transaction().map_err(step("begin a report"))?;
        let mut reports = self.report_subscribers().map_err(step("read the subscribers"))?;
        self.add_decisions(&mut reports, from, to).map_err(step("add up the decisions"))?;
        self.add_days(&mut reports, to).map_err(step("add up the days"))?;
        self.add_dead(&mut reports, from, to).map_err(step("count dead letters"))?;
        moment.finish().map_err(step("end a report"))?;
        let mut reports: Vec<_> = reports.into_values().collect();
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(reports)
    }

    fn report_subscribers(&self) -> rusqlite::Result<BTreeMap<i64, SubscriberReport>> {
        let sql = "SELECT subscriber_key, name, standing, standing_reason, settings FROM subscribers WHERE removed_at IS NULL";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map([], |row| {
            let settings = row.get::<_, Json<Subscriber>>("settings")?.0;
            let report = SubscriberReport {
                name: row.get("name")?,
                standing: row.get::<_, Word<Standing>>("standing")?.0,
                standing_reason: row.get("standing_reason")?,
                destination: settings.destination,
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

    fn add_decisions(
        &self,
        reports: &mut BTreeMap<i64, SubscriberReport>,
        from: Timestamp,
        to: Timestamp,
    ) -> rusqlite::Result<()> {
        let sql = "SELECT subscriber_key, outcome, count(*), sum(refused) FROM decisions
                   WHERE decided_at >= ?1 AND decided_at < ?2 GROUP BY subscriber_key, outcome";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query(params![At(from), At(to)])?;
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

    fn add_days(&self, reports: &mut BTreeMap<i64, SubscriberReport>, to: Timestamp) -> rusqlite::Result<()> {
        let sql = "SELECT subscriber_key, (?2 - 1 - decided_at) / ?3 AS day, count(*), sum(refused) FROM decisions
                   WHERE decided_at >= ?1 AND decided_at < ?2 GROUP BY subscriber_key, day";
        let mut statement = self.connection.prepare(sql)?;
        let day = i64::try_from(DAY.ticks()).unwrap_or(i64::MAX);
        let first = (0..MAX_DAYS).fold(to, |at, _| at.minus(DAY));
        let mut rows = statement.query(params![At(first), At(to), day])?;
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

    fn add_dead(&self, reports: &mut BTreeMap<i64, SubscriberReport>, from: Timestamp, to: Timestamp) -> rusqlite::Result<()> {
        let sql = "SELECT subscriber_key, count(*) FROM outbox
                   WHERE status = 'dead' AND settled_at >= ?1 AND settled_at < ?2 GROUP BY subscriber_key";
        let mut statement = self.connection.prepare(sql)?;
        let mut rows = statement.query(params![At(from), At(to)])?;
        while let Some(row) = rows.next()? {
            if let Some(report) = reports.get_mut(&row.get(0)?) {
                report.dead = count(row.get(1)?);
            }
        }
        Ok(())
    }
}

/// A count of rows, which is never negative.
fn count(rows: i64) -> u64 {
    u64::try_from(rows).unwrap_or_default()
}
