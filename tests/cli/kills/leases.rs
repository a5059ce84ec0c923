//! Leases that were lost, as the database recorded it when it happened, and what they explain: a message that was accepted comes
//! again only after a lease of it was lost, and a lease is lost only by a daemon that was disturbed while it held it.

use std::collections::BTreeMap;

use throttler::daemon::deliver::LEASE;
use throttler::time::Timestamp;

use crate::server::Asker;

/// A lease that was not settled: it ran out, or its daemon died and the next one knew of it.
#[derive(Clone, Debug)]
pub struct Lost {
    pub alert: String,
    pub owner: String,
    /// From this instant on it is nobody's.
    pub at: Timestamp,
}

/// What kept a daemon, or all of them, from writing what they knew, from one instant to another.
#[derive(Clone, Debug)]
pub struct Disturbance {
    pub process: Option<u32>,
    pub from: Timestamp,
    pub to: Timestamp,
}

impl Disturbance {
    fn hits(&self, lease: &Lost) -> bool {
        let is_its = self.process.is_none_or(|process| lease.owner.starts_with(&format!("process {process} ")));
        is_its && self.from <= lease.at && self.to >= lease.at.minus(LEASE)
    }
}

/// Has a server note from now on each lease that runs out, in a schema beside: a receipt, a failure and a delivery that is given back
/// change more in a row than whose it is.
pub fn trace(asker: &mut Asker) {
    let schema = asker.rows("SELECT current_schema() || '_lost'").expect("an answer").swap_remove(0).swap_remove(0);
    let sql = format!(
        "CREATE SCHEMA {schema};
         CREATE TABLE {schema}.leases (alert_id TEXT NOT NULL, owner TEXT NOT NULL, until BIGINT NOT NULL);
         CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO {schema}.leases VALUES (OLD.alert_id, OLD.lease_owner, OLD.lease_until);
             RETURN NULL;
         END $$;
         CREATE TRIGGER ran_out AFTER UPDATE ON outbox FOR EACH ROW
         WHEN (OLD.status = 'leased' AND NEW.status = 'due' AND NEW.attempts = OLD.attempts AND NEW.due_at = OLD.due_at
               AND NEW.detail IS NOT DISTINCT FROM OLD.detail)
         EXECUTE FUNCTION {schema}.note()"
    );
    asker.rows(&sql).expect("a trigger");
}

/// The leases that ran out since.
pub fn ran_out(asker: &mut Asker) -> Vec<Lost> {
    let schema = asker.rows("SELECT current_schema() || '_lost'").expect("an answer").swap_remove(0).swap_remove(0);
    let rows = asker.rows(&format!("SELECT alert_id, owner, until FROM {schema}.leases")).expect("an answer");
    let lost = rows.into_iter().map(|row| {
        let [alert, owner, until] = row.try_into().expect("three columns");
        let at = Timestamp::from_ticks(until.parse().expect("ticks")).expect("an instant");
        Lost { alert, owner, at }
    });
    lost.collect()
}

/// What came again without a reason, by when each message was accepted and that was told to its sender: before its first repeat one
/// lease of it was lost, before its second another.
pub fn unexplained(accepted: &BTreeMap<String, Vec<Timestamp>>, lost: &[Lost]) -> Vec<String> {
    let mut losses: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for lease in lost {
        losses.entry(&lease.alert).or_default().push(lease.at);
    }
    let mut unexplained = Vec::new();
    for (alert, times) in accepted {
        let losses = losses.get(alert.as_str()).map_or(&[][..], Vec::as_slice);
        for (repeats, at) in times.iter().enumerate() {
            if losses.iter().filter(|lost| *lost <= at).count() < repeats {
                unexplained.push(format!("{alert} was accepted at {times:?}, and its leases were lost at {losses:?}"));
            }
        }
    }
    unexplained
}

/// The leases that were lost by daemons which nobody disturbed while they held them.
pub fn lost_alone(lost: &[Lost], disturbances: &[Disturbance]) -> Vec<String> {
    let alone = lost.iter().filter(|lease| !disturbances.iter().any(|disturbance| disturbance.hits(lease)));
    alone.map(|lease| format!("{lease:?}")).collect()
}
