-- Solutions of one quake that are not linked yet, updates and withdrawals, events that await confirmation.

-- The event that this one was taken for, by time, place and magnitude: always one that stands for itself. NULL if none.
ALTER TABLE events ADD COLUMN duplicate_of INTEGER REFERENCES events (event_key);
ALTER TABLE events ADD COLUMN duplicate_since INTEGER CHECK ((duplicate_since IS NULL) = (duplicate_of IS NULL));
CREATE INDEX events_by_origin ON events (origin_at);
CREATE INDEX events_duplicates ON events (duplicate_of) WHERE duplicate_of IS NOT NULL;

-- Later versions of what was told. `update_from` is the subscriber from which telling of the newest version goes on.
ALTER TABLE events ADD COLUMN update_from INTEGER;
ALTER TABLE events ADD COLUMN withdrawn_at INTEGER;
CREATE INDEX events_to_update ON events (magnitude DESC, origin_at) WHERE update_from IS NOT NULL;
-- When to ask the limiter again on behalf of updates that wait.
ALTER TABLE subscribers ADD COLUMN update_wake_at INTEGER;
CREATE INDEX subscribers_to_update ON subscribers (update_wake_at) WHERE update_wake_at IS NOT NULL;

-- One row for each version of an event that was worth telling a subscriber who had been told of it.
CREATE TABLE updates (
    update_key      INTEGER PRIMARY KEY AUTOINCREMENT,
    event_key       INTEGER NOT NULL REFERENCES events (event_key),
    subscriber_key  INTEGER NOT NULL REFERENCES subscribers (subscriber_key),
    revision        INTEGER NOT NULL,           -- the version: `seen_at` of its row in revisions
    kind            TEXT NOT NULL CHECK (kind IN ('update', 'withdrawal')),
    decided_at      INTEGER NOT NULL,
    outcome         TEXT NOT NULL CHECK (outcome IN ('sent', 'waiting', 'superseded', 'withheld', 'undecided')),
    reason          TEXT NOT NULL,
    refused         INTEGER NOT NULL CHECK (refused IN (0, 1)),  -- what the limiter said, whatever became of it
    retry_at        INTEGER,
    delivery_key    INTEGER UNIQUE REFERENCES outbox (delivery_key),
    UNIQUE (event_key, subscriber_key, revision),
    CHECK ((outcome = 'sent') = (delivery_key IS NOT NULL)),
    CHECK (kind = 'update' OR (refused = 0 AND outcome IN ('sent', 'undecided')))
) STRICT;
CREATE INDEX updates_of_subscriber ON updates (subscriber_key, outcome);

-- An event that one network's automatic solution makes implausibly large: until when it awaits confirmation, and whether that
-- time ran out.
ALTER TABLE events ADD COLUMN confirm_by INTEGER;
ALTER TABLE events ADD COLUMN unconfirmed INTEGER NOT NULL DEFAULT 0
    CHECK (unconfirmed IN (0, 1) AND (confirm_by IS NULL OR (unconfirmed = 0 AND dispatch_from IS NULL)));
CREATE INDEX events_to_confirm ON events (confirm_by) WHERE confirm_by IS NOT NULL;
