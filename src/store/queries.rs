//! The queries of the hot paths, side by side because a test shows that none of them reads a whole table.

use super::messages::{message_columns, message_pieces};

/// All events that are one quake with the given one: the one that it was taken for, what was taken for that, and what was
/// merged into any of these.
macro_rules! quake_of {
    ($event:literal) => {
        concat!(
            "(WITH first (key) AS (SELECT coalesce(duplicate_of, event_key) FROM events WHERE event_key = ",
            $event,
            "),
              solution (key) AS (SELECT key FROM first UNION ALL
                                 SELECT event_key FROM events WHERE duplicate_of = (SELECT key FROM first))
              SELECT key FROM solution UNION ALL SELECT event_key FROM events WHERE merged_into IN (SELECT key FROM solution))"
        )
    };
}
pub(super) use quake_of;

/// Decisions with their events and messages.
macro_rules! ledger_columns {
    () => {
        "SELECT s.name, e.body, d.decided_at, d.outcome, d.reason, d.refused, d.remaining, d.retry_at,
                o.alert_id, o.status, o.created_at, o.due_at, o.settled_at, o.detail"
    };
}
pub(super) use ledger_columns;

/// Subscribers `s` with the states of their limiters.
macro_rules! with_limiters {
    () => {
        "SELECT s.subscriber_key, s.name, s.settings, s.standing, s.standing_reason, s.unsubscribed_at, s.created_at, s.active_since,
            s.interest_since, l.state
        FROM subscribers AS s LEFT JOIN limiters AS l ON l.subscriber_key = s.subscriber_key"
    };
}
pub(super) use with_limiters;

/// Whether the changes `l` and `c` are of the same subscriber, or both of the feed, and of the same. Said so that a server looks into
/// an index, too.
macro_rules! of_the_same {
    () => {
        "(l.subscriber_key = c.subscriber_key OR (l.subscriber_key IS NULL AND c.subscriber_key IS NULL))
           AND substr(l.what, 1, 4) = substr(c.what, 1, 4)"
    };
}

/// The largest event that is not decided for all, with when its quake was first seen and whether that was at the start.
pub(super) const NEXT_DISPATCH: &str = "SELECT e.event_key, e.body, q.first_seen_at, e.changed_at,
      q.fate = 'baseline' AS baseline, e.unconfirmed, e.dispatch_from
    FROM events AS e CROSS JOIN events AS q ON q.event_key = coalesce(e.duplicate_of, e.event_key)
    WHERE e.dispatch_from IS NOT NULL ORDER BY e.magnitude DESC NULLS LAST, e.origin_at LIMIT 1";

/// The next active subscribers.
pub(super) const CANDIDATES: &str = concat!(
    with_limiters!(),
    " WHERE s.subscriber_key >= ?1 AND s.subscriber_key < ?3 AND standing = 'active' AND removed_at IS NULL
    ORDER BY s.subscriber_key LIMIT ?2"
);

/// The subscribers in a range with a decision on an event's quake.
pub(super) const DECIDED: &str = concat!(
    "SELECT subscriber_key FROM decisions
    WHERE subscriber_key >= ?2 AND subscriber_key < ?3 AND event_key IN ",
    quake_of!("?1")
);

/// What was known at an instant of an event's quake.
pub(super) const EARLIER_VERSIONS: &str = concat!(
    "SELECT r.body FROM revisions AS r WHERE r.event_key IN ",
    quake_of!("?1"),
    " AND r.seen_at = (SELECT max(seen_at) FROM revisions WHERE event_key = r.event_key AND seen_at <= ?2)"
);

/// The solutions whose origins lie within a span, each with its quake; those of one quake as they became known.
pub(super) const AROUND: &str = "SELECT coalesce(duplicate_of, event_key), body FROM events
    WHERE origin_at BETWEEN ?1 AND ?2 AND fate <> 'merged' AND withdrawn_at IS NULL ORDER BY event_key LIMIT ?3";

/// The newest quakes, newest first.
pub(super) const NEWEST_EVENTS: &str = "SELECT body FROM events
    WHERE fate <> 'merged' AND withdrawn_at IS NULL AND duplicate_of IS NULL ORDER BY origin_at DESC, event_key DESC LIMIT ?1";

/// The events that were taken for others.
pub(super) const JOINED: &str = "SELECT d.event_key, d.body, e.body, d.duplicate_since
    FROM events AS d CROSS JOIN events AS e ON e.event_key = d.duplicate_of WHERE d.duplicate_of IS NOT NULL";

/// The event itself if it was taken for another, or those that were taken for it.
pub(super) const JOINED_WITH: &str = "SELECT d.event_key, d.body, e.body, d.duplicate_since
    FROM events AS d CROSS JOIN events AS e ON e.event_key = d.duplicate_of
    WHERE d.duplicate_of IS NOT NULL AND (d.event_key = ?1 OR d.duplicate_of = ?1)";

/// Those who may be told now of what was withheld.
pub(super) const WAKING: &str =
    concat!(with_limiters!(), " WHERE wake_at <= ?1 AND standing = 'active' AND removed_at IS NULL ORDER BY wake_at LIMIT ?2");

/// An event whose time to be confirmed has run out.
pub(super) const TO_CONFIRM: &str = "SELECT event_key, body FROM events WHERE confirm_by <= ?1 ORDER BY confirm_by LIMIT 1";

/// When somebody may be told next, of what was withheld, of an update that waits, or of an event that is not confirmed.
pub(super) const NEXT_WAKE: &str = "SELECT min(at) AS at FROM (
    SELECT min(wake_at) AS at FROM subscribers WHERE wake_at IS NOT NULL AND standing = 'active' AND removed_at IS NULL
    UNION ALL
    SELECT min(update_wake_at) AS at FROM subscribers
    WHERE update_wake_at IS NOT NULL AND standing = 'active' AND removed_at IS NULL
    UNION ALL
    SELECT min(confirm_by) AS at FROM events WHERE confirm_by IS NOT NULL) AS instants";

/// The largest event with a version that is not told to all, and that version.
pub(super) const NEXT_UPDATE: &str = "SELECT event_key, body, update_from,
      (SELECT max(seen_at) FROM revisions WHERE event_key = events.event_key) AS revision
    FROM events WHERE update_from IS NOT NULL ORDER BY magnitude DESC NULLS LAST, origin_at LIMIT 1";

/// The next active subscribers who were told of an event or of one that was merged into it.
pub(super) const LISTENERS: &str = concat!(
    with_limiters!(),
    " WHERE s.subscriber_key >= :from AND standing = 'active' AND removed_at IS NULL
      AND EXISTS (SELECT 1 FROM decisions AS d
                  WHERE d.subscriber_key = s.subscriber_key AND d.delivery_key IS NOT NULL
                    AND d.event_key IN (SELECT :event UNION ALL SELECT event_key FROM events WHERE merged_into = :event))
    ORDER BY s.subscriber_key LIMIT :chunk"
);

/// For whom a version is decided, of a range of subscribers.
pub(super) const UPDATED: &str =
    "SELECT subscriber_key FROM updates WHERE event_key = ?1 AND subscriber_key BETWEEN ?2 AND ?3 AND revision = ?4";

/// What each of a range of subscribers was told of an event and of those that were merged into it, message after message: the version
/// that was the newest when the message was made. The first, if the message is dated before it, as earlier versions of the program
/// did where several daemons worked.
pub(super) const TOLD: &str =
    "SELECT d.subscriber_key, o.delivery_key, o.alert_id, o.created_at AS sent_at, d.outcome = 'digested' AS digest,
      coalesce((SELECT r.body FROM revisions AS r WHERE r.event_key = d.event_key AND r.seen_at <= o.created_at
                ORDER BY r.seen_at DESC LIMIT 1),
               (SELECT r.body FROM revisions AS r WHERE r.event_key = d.event_key ORDER BY r.seen_at LIMIT 1)) AS body
    FROM decisions AS d CROSS JOIN outbox AS o ON o.delivery_key = d.delivery_key
    WHERE d.subscriber_key BETWEEN ?2 AND ?3
      AND d.event_key IN (SELECT ?1 UNION ALL SELECT event_key FROM events WHERE merged_into = ?1)
    UNION ALL
    SELECT u.subscriber_key, o.delivery_key, o.alert_id, o.created_at, FALSE, r.body FROM updates AS u
    CROSS JOIN outbox AS o ON o.delivery_key = u.delivery_key
    CROSS JOIN revisions AS r ON r.event_key = u.event_key AND r.seen_at = u.revision
    WHERE u.subscriber_key BETWEEN ?2 AND ?3
      AND u.event_key IN (SELECT ?1 UNION ALL SELECT event_key FROM events WHERE merged_into = ?1)
    ORDER BY 1, 2";

/// Those who may be told now of an update that waits.
pub(super) const WAKING_FOR_UPDATES: &str = concat!(
    with_limiters!(),
    " WHERE update_wake_at <= ?1 AND standing = 'active' AND removed_at IS NULL ORDER BY update_wake_at LIMIT ?2"
);

/// The largest event of which an update waits for a subscriber, as it is known now.
pub(super) const LARGEST_WAITING_UPDATE: &str = "SELECT e.event_key, e.body,
      (SELECT max(seen_at) FROM revisions WHERE event_key = e.event_key)
    FROM updates AS u CROSS JOIN events AS e
      ON e.event_key = (SELECT coalesce(merged_into, event_key) FROM events WHERE event_key = u.event_key)
    WHERE u.subscriber_key = ?1 AND u.outcome = 'waiting' ORDER BY e.magnitude DESC NULLS LAST, u.update_key LIMIT 1";

/// What is withheld from a subscriber and still to be told.
pub(super) const HELD: &str =
    "SELECT event_key, body, decided_at, outcome = 'held', unconfirmed, changed_at FROM decisions JOIN events USING (event_key)
    WHERE subscriber_key = ?1 AND (outcome = 'pending' OR outcome = 'waiting' OR outcome = 'held') ORDER BY decided_at, event_key LIMIT ?2";

/// The next channel for which something waits.
pub(super) const NEXT_CHANNEL: &str = "SELECT channel FROM outbox WHERE status = 'due' AND channel > ?1 ORDER BY channel LIMIT 1";

/// Whether the subscriber of a message `o` gets messages. Asked of each by its key: a server that knows nothing of a new table yet
/// takes active subscribers for few, and would go through all of them for each message.
macro_rules! gets_messages {
    () => {
        "(SELECT s.standing = 'active' AND s.removed_at IS NULL FROM subscribers AS s WHERE s.subscriber_key = o.subscriber_key)"
    };
}

/// What is due by a channel, the largest first.
pub(super) const DUE: &str = concat!(
    "SELECT o.delivery_key, o.magnitude, o.due_at FROM outbox AS o
    WHERE o.channel = :channel AND o.status = 'due' AND o.due_at <= :now AND ",
    gets_messages!(),
    " ORDER BY o.magnitude DESC NULLS LAST, o.due_at LIMIT :most/*+ FOR UPDATE OF o SKIP LOCKED*/"
);

/// All that is needed to attempt a delivery.
pub(super) const CLAIMED: &str = concat!(
    "SELECT ",
    message_columns!(),
    ", o.delivery_key, o.channel, o.attempts, coalesce(o.retried_at, o.created_at) AS waits_since, s.settings, s.secret,
        s.subscriber_key, s.created_at AS enrolled_at,
        (SELECT coalesce(q.first_seen_at, e.first_seen_at) FROM events AS e LEFT JOIN events AS q ON q.event_key = e.merged_into
         WHERE e.event_key = o.event_key) AS first_seen_at
    FROM outbox AS o CROSS JOIN subscribers AS s ON s.subscriber_key = o.subscriber_key",
    message_pieces!(),
    "WHERE o.delivery_key = ?1"
);

/// The claimed deliveries that are still their owner's and their subscribers' to get. A lease always has an end.
pub(super) const STILL_CLAIMED: &str = concat!(
    "SELECT o.delivery_key FROM outbox AS o
    WHERE o.status = 'leased' AND o.lease_until > 0 AND o.lease_owner = ?1 AND ",
    gets_messages!()
);

/// What is still to be done: events, messages; and active subscribers.
pub(super) const BACKLOG: &str = "SELECT
    (SELECT count(*) FROM events WHERE dispatch_from IS NOT NULL),
    (SELECT count(*) FROM outbox WHERE status = 'due') + (SELECT count(*) FROM outbox WHERE status = 'leased'),
    (SELECT count(*) FROM subscribers WHERE removed_at IS NULL AND substr(standing, 1, 1) = 'a')";

/// How many there are of what. Of messages the number tells which was made first, as an index has it and their rows need not.
pub(super) const STANDING: &str = "SELECT
    (SELECT count(*) FROM events WHERE merged_into IS NULL) AS events,
    (SELECT max(origin_at) FROM events WHERE merged_into IS NULL) AS newest,
    (SELECT count(*) FROM events WHERE dispatch_from IS NOT NULL) AS undecided,
    (SELECT count(*) FROM subscribers WHERE removed_at IS NULL AND substr(standing, 1, 1) = 'a') AS active,
    (SELECT count(*) FROM subscribers WHERE removed_at IS NULL AND substr(standing, 1, 1) = 'p') AS paused,
    (SELECT count(*) FROM subscribers WHERE removed_at IS NULL AND substr(standing, 1, 1) = 'd') AS disabled,
    (SELECT count(*) FROM outbox WHERE status = 'due') AS due,
    (SELECT count(*) FROM outbox WHERE status = 'leased') AS leased,
    (SELECT count(*) FROM outbox WHERE status = 'dead') AS dead,
    (SELECT created_at FROM outbox WHERE delivery_key = (SELECT min(first) FROM (
        SELECT min(+delivery_key) AS first FROM outbox WHERE status = 'due'
        UNION ALL SELECT min(+delivery_key) FROM outbox WHERE status = 'leased') AS firsts)) AS oldest";

/// When something becomes due next, or a lease runs out, after an instant.
pub(super) const NEXT_DUE: &str = "SELECT min(at) AS at FROM (
    SELECT * FROM (SELECT due_at AS at FROM outbox
                   WHERE status = 'due' AND due_at > created_at AND due_at > ?1 ORDER BY due_at LIMIT 1) AS due
    UNION ALL
    SELECT * FROM (SELECT lease_until AS at FROM outbox WHERE status = 'leased' AND lease_until > ?1 ORDER BY lease_until LIMIT 1) AS leased) AS instants";

/// The event that has an id.
pub(super) const KNOWN: &str =
    "SELECT event_key, body FROM events WHERE event_key = (SELECT event_key FROM event_ids WHERE id = ?1)";

/// The events since an instant that somebody was told of, the newest first.
pub(super) const TOLD_EVENTS: &str = "SELECT body FROM events
    WHERE origin_at >= ?1 AND fate IN ('open', 'baseline') AND withdrawn_at IS NULL
      AND EXISTS (SELECT 1 FROM decisions AS d
                  WHERE d.event_key IN (SELECT events.event_key UNION ALL
                                        SELECT m.event_key FROM events AS m WHERE m.merged_into = events.event_key)
                    AND d.outcome IN ('alerted', 'digested'))
    ORDER BY origin_at DESC LIMIT ?2";

/// The first event from a place on that has not changed since an instant, nor what it was merged into, and about which
/// nobody is still to be asked or told.
pub(super) const PRUNABLE_EVENT: &str = "SELECT event_key, changed_at FROM events AS e
    WHERE (pruned_at IS NULL OR pruned_at < changed_at) AND changed_at < :before AND changed_at >= :changed_at
      AND (changed_at > :changed_at OR event_key >= :event)
      AND dispatch_from IS NULL AND update_from IS NULL AND confirm_by IS NULL
      AND coalesce((SELECT changed_at FROM events WHERE event_key = e.merged_into), 0) < :before
    ORDER BY changed_at, event_key LIMIT 1";

/// Deletes updates of an event that are settled.
pub(super) const PRUNE_UPDATES: &str = "DELETE FROM updates WHERE update_key IN (
      SELECT u.update_key FROM updates AS u LEFT JOIN outbox AS o USING (delivery_key)
      WHERE u.event_key = :event AND u.decided_at < :before AND u.outcome <> 'waiting'
        AND (u.delivery_key IS NULL OR o.settled_at < :before) LIMIT :step)
    RETURNING delivery_key";

/// The decisions on an event of the next subscribers, and whether they may go: settled, without updates, and not what an
/// update that waits may refer to.
pub(super) const PRUNABLE_DECISIONS: &str = "SELECT d.subscriber_key, d.delivery_key,
      d.decided_at < :before AND d.outcome NOT IN ('pending', 'waiting', 'held')
        AND (d.delivery_key IS NULL OR coalesce(o.settled_at < :before, FALSE))
        AND NOT EXISTS (SELECT 1 FROM updates AS u WHERE u.subscriber_key = d.subscriber_key
                        AND u.event_key IN (:event, (SELECT merged_into FROM events WHERE event_key = :event)))
        AND NOT EXISTS (SELECT 1 FROM updates AS u WHERE u.subscriber_key = d.subscriber_key AND u.outcome = 'waiting')
    FROM decisions AS d LEFT JOIN outbox AS o USING (delivery_key)
    WHERE d.event_key = :event AND d.subscriber_key >= :from ORDER BY d.subscriber_key LIMIT :step";

/// A subscriber's decisions by outcome, found event by event.
pub(super) const COUNT_OUTCOMES: &str = "SELECT d.outcome, count(*)
    FROM events AS e CROSS JOIN decisions AS d USING (event_key) WHERE d.subscriber_key = ?1 GROUP BY d.outcome";

/// A subscriber's messages by status.
pub(super) const COUNT_MESSAGES: &str = "SELECT o.status, count(*)
    FROM events AS e CROSS JOIN outbox AS o ON o.event_key = e.event_key
    WHERE o.subscriber_key = ?1 GROUP BY o.status";

/// Dead letters that were not noticed yet, with whose they are.
pub(super) const UNNOTICED: &str = "SELECT o.delivery_key, o.subscriber_key, o.channel, o.settled_at, o.detail,
      s.name, s.standing, s.active_since, s.settings -> '$.destination' AS destination,
      s.removed_at IS NOT NULL OR s.unsubscribed_at IS NOT NULL AS gone
    FROM outbox AS o CROSS JOIN subscribers AS s USING (subscriber_key)
    WHERE o.status = 'dead' AND o.noticed = 0 ORDER BY o.delivery_key LIMIT ?1";

/// The last time that a subscriber's destination was found dead, if nothing has happened since that makes it another time.
pub(super) const KNOWN_DEAD: &str = "SELECT 1 FROM changes AS c
    WHERE c.change_key = (SELECT max(change_key) FROM changes
                          WHERE subscriber_key = :subscriber AND what = 'destination-dead')
      AND c.destination = :destination AND c.since >= :active_since
      AND NOT EXISTS (SELECT 1 FROM changes AS l
                      WHERE l.subscriber_key = :subscriber AND l.change_key > c.change_key AND l.what = 'destination-recovered')
      AND NOT EXISTS (SELECT 1 FROM events AS e CROSS JOIN outbox AS o ON o.event_key = e.event_key
                      WHERE o.subscriber_key = :subscriber AND o.status = 'delivered' AND o.delivery_key >= c.delivery_key)";

/// Destinations that were found dead, in order, of those who are still subscribers; and when they took a message again, be it
/// one that was given up and put back, if nothing was noticed of them since.
pub(super) const DEATHS: &str = "SELECT c.change_key, c.subscriber_key, s.name, c.since,
      CASE WHEN NOT EXISTS (SELECT 1 FROM changes AS l
                            WHERE l.subscriber_key = c.subscriber_key AND l.change_key > c.change_key
                              AND (l.what = 'destination-dead' OR l.what = 'destination-recovered'))
           THEN (SELECT min(o.settled_at) FROM events AS e CROSS JOIN outbox AS o ON o.event_key = e.event_key
                 WHERE o.subscriber_key = c.subscriber_key AND o.delivery_key >= c.delivery_key AND o.status = 'delivered')
           END AS recovered_at
    FROM changes AS c CROSS JOIN subscribers AS s USING (subscriber_key)
    WHERE c.what = 'destination-dead' AND c.change_key >= ?1 AND s.removed_at IS NULL ORDER BY c.change_key LIMIT ?2";

/// The next changes from one on, and whether they may go: told, old, and neither how something stands now nor what that is
/// compared with. Of what has a beginning and an end the words begin alike.
pub(super) const PRUNABLE_CHANGES: &str = concat!(
    "SELECT c.change_key,
      c.noticed_at < :before AND c.change_key <= (SELECT told_to FROM noticing)
        AND (EXISTS (SELECT 1 FROM changes AS l WHERE l.change_key > c.change_key AND ",
    of_the_same!(),
    ") OR (c.what IN ('feed-fresh', 'destination-recovered', 'withholding-ended')
                 AND NOT EXISTS (SELECT 1 FROM changes AS l WHERE l.change_key < c.change_key AND ",
    of_the_same!(),
    "))
             OR EXISTS (SELECT 1 FROM subscribers AS s WHERE s.subscriber_key = c.subscriber_key AND s.removed_at IS NOT NULL))
    FROM changes AS c WHERE c.change_key >= :from ORDER BY c.change_key LIMIT :step"
);

/// Deletes messages to the operator that were settled long ago.
pub(super) const PRUNE_NOTICES: &str = "DELETE FROM notices WHERE delivery_key IN (
      SELECT delivery_key FROM notices
      WHERE status IN ('delivered', 'dead', 'dropped') AND way IN ('email', 'webhook') AND due_at < :before AND settled_at < :before
      LIMIT :step)";

/// What was decided and what refused, a day at a time, for a range of subscribers.
pub(super) const DAYS_OF_RANGE: &str = "SELECT d.subscriber_key, (:to - 1 - d.decided_at) / :day AS day,
      count(*) AS matched, sum(d.refused) AS refused
    FROM events AS e CROSS JOIN decisions AS d ON d.event_key = e.event_key AND d.subscriber_key BETWEEN :first AND :last
    WHERE e.changed_at >= :changed_since AND d.decided_at >= :from AND d.decided_at < :to
    GROUP BY d.subscriber_key, day";

/// What was noticed of a range of subscribers, in order.
pub(super) const CHANGES_OF_RANGE: &str = "SELECT subscriber_key, what FROM changes
    WHERE subscriber_key BETWEEN ?1 AND ?2 ORDER BY subscriber_key, change_key";

/// The message to the operator by one way that has been due the longest.
pub(super) const DUE_NOTICE: &str = "SELECT delivery_key, alert, attempts, coalesce(retried_at, created_at) AS waits_since
    FROM notices WHERE status = 'due' AND way = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT 1";

/// A message to the operator that is due or under way.
pub(super) const HAS_NOTICES: &str = "SELECT 1 FROM notices WHERE status IN ('due', 'leased') LIMIT 1";

/// When a message to the operator becomes due next, after an instant.
pub(super) const NEXT_NOTICE: &str = "SELECT min(at) AS at FROM (
    SELECT min(due_at) AS at FROM notices WHERE status = 'due' AND way = 'email' AND due_at > ?1
    UNION ALL SELECT min(due_at) FROM notices WHERE status = 'due' AND way = 'webhook' AND due_at > ?1
    UNION ALL SELECT min(lease_until) FROM notices WHERE status = 'leased') AS instants";

/// A subscriber's decisions of a stretch, the last first, found event by event.
pub(super) const LEDGER_BETWEEN: &str = concat!(
    ledger_columns!(),
    " FROM events AS e CROSS JOIN decisions AS d ON d.event_key = e.event_key AND d.subscriber_key = ?1
      CROSS JOIN subscribers AS s ON s.subscriber_key = d.subscriber_key LEFT JOIN outbox AS o ON o.delivery_key = d.delivery_key
      WHERE d.decided_at >= ?2 AND d.decided_at < ?3
      ORDER BY d.decided_at DESC, d.event_key DESC LIMIT ?4"
);

/// A subscriber's messages of a stretch, the last first.
pub(super) const MESSAGES_BETWEEN: &str = concat!(
    "SELECT ",
    message_columns!(),
    ", o.due_at FROM events AS e CROSS JOIN outbox AS o ON o.event_key = e.event_key
      CROSS JOIN subscribers AS s ON s.subscriber_key = o.subscriber_key",
    message_pieces!(),
    "WHERE o.subscriber_key = ?1 AND o.created_at >= ?2 AND o.created_at < ?3 ORDER BY o.delivery_key DESC LIMIT ?4"
);

/// The messages that were made last.
pub(super) const LAST_MESSAGES: &str = concat!(
    "SELECT o.*, s.name, s.standing, c.content, t.terms FROM outbox AS o CROSS JOIN subscribers AS s
    ON s.subscriber_key = o.subscriber_key",
    message_pieces!(),
    "ORDER BY o.delivery_key DESC LIMIT ?1"
);

/// The quakes of a stretch, the last first, each with what was decided on it for a subscriber, where something was.
pub(super) const QUAKES_BETWEEN: &str = concat!(
    "SELECT e.body, (SELECT d.outcome FROM decisions AS d WHERE d.subscriber_key = ?3 AND d.event_key IN ",
    quake_of!("e.event_key"),
    " LIMIT 1) AS outcome
    FROM events AS e
    WHERE e.origin_at >= ?1 AND e.origin_at < ?2 AND e.fate <> 'merged' AND e.duplicate_of IS NULL AND e.withdrawn_at IS NULL
    ORDER BY e.origin_at DESC LIMIT ?4"
);

/// Whether there are more subscribers than so many.
pub(super) const SUBSCRIBERS_UP_TO: &str =
    "SELECT count(*) FROM (SELECT 1 FROM subscribers WHERE removed_at IS NULL LIMIT ?1) AS those";

/// The first subscribers by name whose names lie in a range.
pub(super) const SUBSCRIBERS_NAMED: &str = "SELECT subscriber_key, name, standing, standing_reason, settings FROM subscribers
    WHERE removed_at IS NULL AND name >= ?1 AND name < ?2 ORDER BY name LIMIT ?3";

/// What became of one subscriber's decisions, of its days, found event by event, and of its messages.
pub(super) const OUTCOMES_OF_ONE: &str = "SELECT d.subscriber_key, d.outcome, count(*), sum(d.refused)
    FROM events AS e CROSS JOIN decisions AS d ON d.event_key = e.event_key AND d.subscriber_key = ?1
    WHERE d.decided_at >= ?2 AND d.decided_at < ?3 GROUP BY d.subscriber_key, d.outcome";
pub(super) const DAYS_OF_ONE: &str = "SELECT d.subscriber_key, (?3 - 1 - d.decided_at) / ?4 AS day, count(*), sum(d.refused)
    FROM events AS e CROSS JOIN decisions AS d ON d.event_key = e.event_key AND d.subscriber_key = ?1
    WHERE d.decided_at >= ?2 AND d.decided_at < ?3 GROUP BY d.subscriber_key, day";
pub(super) const DEAD_OF_ONE: &str = "SELECT subscriber_key, count(*) FROM outbox
    WHERE subscriber_key = ?1 AND status = 'dead' AND settled_at >= ?2 AND settled_at < ?3 GROUP BY subscriber_key";

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

    /// The tables as queries name them.
    const TABLES: [&str; 17] = [
        "events",
        "event_ids",
        "revisions",
        "subscribers",
        "decisions",
        "outbox",
        "updates",
        "changes",
        "notices",
        "c",
        "l",
        "s",
        "d",
        "e",
        "o",
        "r",
        "u",
    ];

    #[test]
    fn no_hot_query_reads_a_whole_table_or_sorts_what_an_index_has_in_order() {
        for (name, sql, walks, sorts) in [
            ("KNOWN", KNOWN, vec![], false),
            ("TOLD_EVENTS", TOLD_EVENTS, vec![], false),
            ("NEXT_DISPATCH", NEXT_DISPATCH, vec!["SCAN e USING INDEX events_to_dispatch"], false),
            ("CANDIDATES", CANDIDATES, vec![], false),
            ("DECIDED", DECIDED, vec![], false),
            ("EARLIER_VERSIONS", EARLIER_VERSIONS, vec![], false),
            // Few lie around one origin.
            ("AROUND", AROUND, vec![], true),
            ("NEWEST_EVENTS", NEWEST_EVENTS, vec!["SCAN events USING INDEX events_by_origin"], false),
            ("JOINED", JOINED, vec![], false),
            ("JOINED_WITH", JOINED_WITH, vec![], false),
            ("WAKING", WAKING, vec![], false),
            ("NEXT_WAKE", NEXT_WAKE, vec![], false),
            ("TO_CONFIRM", TO_CONFIRM, vec![], false),
            ("NEXT_UPDATE", NEXT_UPDATE, vec!["SCAN events USING INDEX events_to_update"], false),
            ("LISTENERS", LISTENERS, vec![], false),
            ("UPDATED", UPDATED, vec![], false),
            // What a chunk of subscribers was told of one event is sorted, and what waits for one.
            ("TOLD", TOLD, vec![], true),
            ("WAKING_FOR_UPDATES", WAKING_FOR_UPDATES, vec![], false),
            ("LARGEST_WAITING_UPDATE", LARGEST_WAITING_UPDATE, vec![], true),
            // What one subscriber is owed is sorted: it is only what waits now.
            ("HELD", HELD, vec![], true),
            ("NEXT_CHANNEL", NEXT_CHANNEL, vec![], false),
            ("DUE", DUE, vec![], false),
            ("CLAIMED", CLAIMED, vec![], false),
            ("STILL_CLAIMED", STILL_CLAIMED, vec![], false),
            ("NEXT_DUE", NEXT_DUE, vec![], false),
            ("PRUNABLE_EVENT", PRUNABLE_EVENT, vec![], false),
            ("PRUNE_UPDATES", PRUNE_UPDATES, vec![], false),
            ("PRUNABLE_DECISIONS", PRUNABLE_DECISIONS, vec![], false),
            // Events are few beside decisions; a subscriber's rows are looked up for each.
            ("COUNT_OUTCOMES", COUNT_OUTCOMES, vec!["SCAN e USING COVERING INDEX events_by_change"], false),
            ("COUNT_MESSAGES", COUNT_MESSAGES, vec!["SCAN e USING COVERING INDEX events_by_change"], false),
            (
                "BACKLOG",
                BACKLOG,
                vec![
                    "SCAN events USING INDEX events_to_dispatch",
                    "SCAN outbox USING COVERING INDEX outbox_of_channel",
                    "SCAN outbox USING COVERING INDEX outbox_leased",
                ],
                false,
            ),
            ("UNNOTICED", UNNOTICED, vec!["SCAN o USING INDEX outbox_unnoticed"], false),
            (
                "STANDING",
                STANDING,
                vec![
                    // Events are few; the others are counted in indexes.
                    "SCAN events",
                    "SCAN events USING INDEX events_to_dispatch",
                    "SCAN outbox USING COVERING INDEX outbox_of_channel",
                    "SCAN outbox USING COVERING INDEX outbox_leased",
                    "SCAN outbox USING COVERING INDEX outbox_dead",
                ],
                false,
            ),
            ("KNOWN_DEAD", KNOWN_DEAD, vec!["SCAN e USING COVERING INDEX events_by_change"], false),
            ("DEATHS", DEATHS, vec![], false),
            ("PRUNABLE_CHANGES", PRUNABLE_CHANGES, vec![], false),
            ("PRUNE_NOTICES", PRUNE_NOTICES, vec![], false),
            ("DAYS_OF_RANGE", DAYS_OF_RANGE, vec![], false),
            ("CHANGES_OF_RANGE", CHANGES_OF_RANGE, vec![], false),
            ("DUE_NOTICE", DUE_NOTICE, vec![], false),
            ("NEXT_NOTICE", NEXT_NOTICE, vec![], false),
            ("HAS_NOTICES", HAS_NOTICES, vec![], false),
            // One subscriber's decisions and messages.
            ("LEDGER_BETWEEN", LEDGER_BETWEEN, vec!["SCAN e"], true),
            ("MESSAGES_BETWEEN", MESSAGES_BETWEEN, vec!["SCAN e USING COVERING INDEX events_by_change"], true),
            ("OUTCOMES_OF_ONE", OUTCOMES_OF_ONE, vec!["SCAN e USING COVERING INDEX events_by_change"], false),
            ("DAYS_OF_ONE", DAYS_OF_ONE, vec!["SCAN e USING COVERING INDEX events_by_change"], false),
            ("DEAD_OF_ONE", DEAD_OF_ONE, vec![], false),
            // From its end, and no further than asked for.
            ("LAST_MESSAGES", LAST_MESSAGES, vec!["SCAN o"], false),
            ("QUAKES_BETWEEN", QUAKES_BETWEEN, vec![], false),
            ("SUBSCRIBERS_UP_TO", SUBSCRIBERS_UP_TO, vec!["SCAN subscribers USING INDEX subscribers_by_standing"], false),
            ("SUBSCRIBERS_NAMED", SUBSCRIBERS_NAMED, vec![], false),
        ] {
            let plan = plan(sql);
            let scans: Vec<&String> = plan
                .iter()
                .filter(|line| {
                    TABLES.iter().any(|table| **line == format!("SCAN {table}") || line.starts_with(&format!("SCAN {table} ")))
                })
                .collect();
            assert_eq!(scans, walks, "{name}: {plan:#?}");
            assert_eq!(plan.iter().any(|line| line.contains("TEMP B-TREE FOR ORDER BY")), sorts, "{name}: {plan:#?}");
        }
    }
}
