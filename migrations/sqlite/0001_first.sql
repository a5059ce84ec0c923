-- The first schema. Instants are microseconds since 1970-01-01T00:00:00Z. An applied migration is never edited.

-- Tells our databases from other programs': "thro".
PRAGMA application_id = 0x7468726F;

-- One row: what this installation is and what it last saw of its feed.
CREATE TABLE installation (
    only            INTEGER PRIMARY KEY CHECK (only = 1),
    key             TEXT NOT NULL,              -- part of every alert's id, so that ids of two installations differ
    feed_url        TEXT,                       -- of the last successful poll
    generated_at    INTEGER,                    -- the newest content seen from that feed
    polled_at       INTEGER                     -- the last successful poll; NULL before the first
) STRICT;

-- What is known of each earthquake. `body` is the event as JSON.
CREATE TABLE events (
    event_key       INTEGER PRIMARY KEY,
    preferred_id    TEXT NOT NULL,
    origin_at       INTEGER NOT NULL,
    magnitude       REAL,
    body            TEXT NOT NULL,
    first_seen_at   INTEGER NOT NULL,
    changed_at      INTEGER NOT NULL,
    fate            TEXT NOT NULL CHECK (fate IN ('open', 'baseline', 'too-old', 'future', 'merged')),
    merged_into     INTEGER REFERENCES events (event_key),
    -- The subscriber from which deciding goes on; NULL when every subscriber has been decided.
    dispatch_from   INTEGER,
    CHECK ((fate = 'merged') = (merged_into IS NOT NULL)),
    CHECK (dispatch_from IS NULL OR fate IN ('open', 'baseline'))
) STRICT;
CREATE INDEX events_to_dispatch ON events (magnitude DESC, origin_at) WHERE dispatch_from IS NOT NULL;
CREATE INDEX events_merged ON events (merged_into) WHERE merged_into IS NOT NULL;

-- Every id ever associated with an event.
CREATE TABLE event_ids (
    id              TEXT PRIMARY KEY,
    event_key       INTEGER NOT NULL REFERENCES events (event_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX event_ids_of_event ON event_ids (event_key);

-- What was known, and when it was seen.
CREATE TABLE revisions (
    event_key       INTEGER NOT NULL REFERENCES events (event_key),
    seen_at         INTEGER NOT NULL,
    body            TEXT NOT NULL,
    changes         TEXT NOT NULL,              -- what changed, comma separated; 'new' for the first
    PRIMARY KEY (event_key, seen_at)
) STRICT, WITHOUT ROWID;

-- `settings` is the subscriber as JSON; the limiter's state is NULL while nothing is spent.
CREATE TABLE subscribers (
    subscriber_key  INTEGER PRIMARY KEY AUTOINCREMENT,
    name            TEXT NOT NULL,
    settings        TEXT NOT NULL,
    secret          TEXT,                       -- signs webhooks
    standing        TEXT NOT NULL CHECK (standing IN ('active', 'paused', 'disabled')),
    standing_reason TEXT,
    created_at      INTEGER NOT NULL,
    active_since    INTEGER NOT NULL,           -- when added or last resumed: what matched before is not news
    interest_since  INTEGER NOT NULL,           -- when the interest was last changed: likewise
    removed_at      INTEGER,
    limiter         BLOB,
    wake_at         INTEGER,                    -- when to ask the limiter again on behalf of what is withheld
    CHECK ((standing = 'disabled') = (standing_reason IS NOT NULL))
) STRICT;
CREATE UNIQUE INDEX subscribers_by_name ON subscribers (name) WHERE removed_at IS NULL;
CREATE INDEX subscribers_to_wake ON subscribers (wake_at) WHERE wake_at IS NOT NULL;

-- The ledger: one decision for each event and each subscriber whose interest it matches.
CREATE TABLE decisions (
    event_key       INTEGER NOT NULL REFERENCES events (event_key),
    subscriber_key  INTEGER NOT NULL REFERENCES subscribers (subscriber_key),
    decided_at      INTEGER NOT NULL,
    outcome         TEXT NOT NULL CHECK (outcome IN ('alerted', 'digested', 'pending', 'waiting', 'withheld', 'undecided')),
    reason          TEXT NOT NULL,
    refused         INTEGER NOT NULL CHECK (refused IN (0, 1)),  -- what the limiter said, whatever became of it
    remaining       INTEGER,
    retry_at        INTEGER,
    delivery_key    INTEGER REFERENCES outbox (delivery_key),
    PRIMARY KEY (event_key, subscriber_key),
    CHECK ((outcome IN ('alerted', 'digested')) = (delivery_key IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX decisions_of_subscriber ON decisions (subscriber_key, outcome);

-- One row for each message; `alert` is the message as JSON.
CREATE TABLE outbox (
    delivery_key    INTEGER PRIMARY KEY AUTOINCREMENT,
    subscriber_key  INTEGER NOT NULL REFERENCES subscribers (subscriber_key),
    alert_id        TEXT NOT NULL UNIQUE,
    magnitude       REAL,                       -- of the largest event in it
    alert           TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    due_at          INTEGER NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('due', 'leased', 'delivered', 'dead', 'dropped')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    lease_owner     TEXT,
    lease_until     INTEGER,
    settled_at      INTEGER,
    detail          TEXT,                       -- what the last attempt said
    CHECK ((status = 'leased') = (lease_owner IS NOT NULL AND lease_until IS NOT NULL)),
    CHECK ((status IN ('delivered', 'dead', 'dropped')) = (settled_at IS NOT NULL))
) STRICT;
CREATE INDEX outbox_due ON outbox (due_at, magnitude DESC) WHERE status = 'due';
CREATE INDEX outbox_leased ON outbox (lease_until) WHERE status = 'leased';
CREATE INDEX outbox_of_subscriber ON outbox (subscriber_key, status);
