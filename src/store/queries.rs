//! The queries of the hot paths, side by side because a test shows that none of them reads a whole table.

/// The largest event that is not decided for all.
pub(super) const NEXT_DISPATCH: &str =
    "SELECT event_key, body, first_seen_at, changed_at, fate = 'baseline' AS baseline, dispatch_from FROM events
    WHERE dispatch_from IS NOT NULL ORDER BY magnitude DESC, origin_at LIMIT 1";

/// The next active subscribers without a decision on an event or on one that was merged into it.
pub(super) const CANDIDATES: &str = "SELECT * FROM subscribers AS s
    WHERE subscriber_key >= :from AND standing = 'active' AND removed_at IS NULL
      AND NOT EXISTS (SELECT 1 FROM decisions AS d
                      WHERE d.subscriber_key = s.subscriber_key
                        AND d.event_key IN (SELECT :event UNION ALL SELECT event_key FROM events WHERE merged_into = :event))
    ORDER BY subscriber_key LIMIT :chunk";

/// What was known at an instant of an event and of those that were merged into it.
pub(super) const EARLIER_VERSIONS: &str = "SELECT r.body FROM revisions AS r
    WHERE r.event_key IN (SELECT ?1 UNION ALL SELECT event_key FROM events WHERE merged_into = ?1)
      AND r.seen_at = (SELECT max(seen_at) FROM revisions WHERE event_key = r.event_key AND seen_at <= ?2)";

/// Who may be told now of what was withheld.
pub(super) const WAKING: &str = "SELECT subscriber_key, name FROM subscribers
    WHERE wake_at <= ?1 AND standing = 'active' AND removed_at IS NULL ORDER BY wake_at LIMIT 1";

/// When somebody may be told next.
pub(super) const NEXT_WAKE: &str =
    "SELECT min(wake_at) AS at FROM subscribers WHERE wake_at IS NOT NULL AND standing = 'active' AND removed_at IS NULL";

/// What is withheld from a subscriber and still to be told.
pub(super) const HELD: &str = "SELECT event_key, body, decided_at, outcome = 'held' FROM decisions JOIN events USING (event_key)
    WHERE subscriber_key = ?1 AND outcome IN ('pending', 'waiting', 'held') ORDER BY decided_at, event_key LIMIT ?2";

/// What is due or whose lease ran out, the largest first.
pub(super) const CLAIM: &str = "SELECT o.delivery_key, o.alert, o.attempts, o.created_at, s.settings, s.secret
    FROM outbox AS o JOIN subscribers AS s USING (subscriber_key)
    WHERE ((o.status = 'due' AND o.due_at <= :now) OR (o.status = 'leased' AND o.lease_until <= :now))
      AND s.standing = 'active' AND s.removed_at IS NULL
    ORDER BY o.magnitude DESC, o.due_at LIMIT :most";

/// When something is due next. Each part walks its index in order of time and stops at the first that is not held up.
pub(super) const NEXT_DUE: &str = "SELECT min(at) AS at FROM (
    SELECT * FROM (SELECT o.due_at AS at FROM outbox AS o CROSS JOIN subscribers AS s USING (subscriber_key)
                   WHERE o.status = 'due' AND s.standing = 'active' AND s.removed_at IS NULL
                   ORDER BY o.due_at LIMIT 1)
    UNION ALL
    SELECT * FROM (SELECT o.lease_until AS at FROM outbox AS o CROSS JOIN subscribers AS s USING (subscriber_key)
                   WHERE o.status = 'leased' AND s.standing = 'active' AND s.removed_at IS NULL
                   ORDER BY o.lease_until LIMIT 1))";

/// The event that has an id.
pub(super) const KNOWN: &str =
    "SELECT event_key, body FROM events WHERE event_key = (SELECT event_key FROM event_ids WHERE id = ?1)";

/// The events since an instant that somebody was told of, the newest first.
pub(super) const TOLD: &str = "SELECT body FROM events
    WHERE origin_at >= ?1 AND fate IN ('open', 'baseline')
      AND EXISTS (SELECT 1 FROM decisions AS d
                  WHERE d.event_key IN (SELECT events.event_key UNION ALL
                                        SELECT m.event_key FROM events AS m WHERE m.merged_into = events.event_key)
                    AND d.outcome IN ('alerted', 'digested'))
    ORDER BY origin_at DESC LIMIT ?2";

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// How the database goes about a query on the newest schema.
    fn plan(sql: &str) -> Vec<String> {
        let connection = Connection::open_in_memory().expect("a database");
        for migration in super::super::MIGRATIONS {
            connection.execute_batch(migration).expect("the schema");
        }
        let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect(sql);
        let mut rows = explain.raw_query();
        let mut plan = Vec::new();
        while let Some(row) = rows.next().expect(sql) {
            plan.push(row.get("detail").expect(sql));
        }
        plan
    }

    #[test]
    fn no_hot_query_reads_a_whole_table_or_sorts_what_an_index_has_in_order() {
        for (name, sql, walks, sorts) in [
            ("KNOWN", KNOWN, vec![], false),
            ("TOLD", TOLD, vec![], false),
            ("NEXT_DISPATCH", NEXT_DISPATCH, vec!["SCAN events USING INDEX events_to_dispatch"], false),
            ("CANDIDATES", CANDIDATES, vec![], false),
            ("EARLIER_VERSIONS", EARLIER_VERSIONS, vec![], false),
            ("WAKING", WAKING, vec![], false),
            ("NEXT_WAKE", NEXT_WAKE, vec![], false),
            // What one subscriber is owed, and what is due, is sorted: both are only what waits now.
            ("HELD", HELD, vec![], true),
            ("CLAIM", CLAIM, vec![], true),
            ("NEXT_DUE", NEXT_DUE, vec!["SCAN o USING INDEX outbox_due", "SCAN o USING INDEX outbox_leased"], false),
        ] {
            let plan = plan(sql);
            let tables = ["events", "event_ids", "revisions", "subscribers", "decisions", "outbox", "s", "d", "e", "o", "r"];
            let scans: Vec<&String> = plan
                .iter()
                .filter(|line| {
                    tables.iter().any(|table| **line == format!("SCAN {table}") || line.starts_with(&format!("SCAN {table} ")))
                })
                .collect();
            assert_eq!(scans, walks, "{name}: {plan:#?}");
            assert_eq!(plan.iter().any(|line| line.contains("TEMP B-TREE FOR ORDER BY")), sorts, "{name}: {plan:#?}");
        }
    }
}
