-- Notices to the operator: what has changed, once each, and the messages that tell it.

-- What has changed, in the order in which it was noticed; no row is changed or removed. How something stands as far as the
-- operator is to know is its last row.
CREATE TABLE changes (
    change_key      INTEGER PRIMARY KEY AUTOINCREMENT,
    what            TEXT NOT NULL
                    CHECK (what IN ('feed-stale', 'feed-fresh', 'destination-dead', 'withholding-began', 'withholding-ended')),
    subscriber_key  INTEGER,                        -- NULL: it is the feed's
    subscriber      TEXT,                           -- its name then
    since           INTEGER NOT NULL,
    noticed_at      INTEGER NOT NULL,
    detail          TEXT NOT NULL,
    -- Of a dead destination the first message that was given up, and where it was to go, as JSON.
    delivery_key    INTEGER,
    destination     TEXT,
    CHECK ((what IN ('feed-stale', 'feed-fresh')) = (subscriber_key IS NULL) AND (subscriber_key IS NULL) = (subscriber IS NULL)),
    CHECK ((what = 'destination-dead') = (delivery_key IS NOT NULL AND destination IS NOT NULL))
) STRICT;
CREATE INDEX changes_of_subscriber ON changes (subscriber_key, change_key);

-- One row: how far noticing is.
CREATE TABLE noticing (
    only            INTEGER PRIMARY KEY CHECK (only = 1),
    told_to         INTEGER NOT NULL DEFAULT 0,     -- the last change that a message tells of
    limiter         BLOB,                           -- of the messages; NULL while nothing is spent
    -- Withholding is judged once a day, a range of subscribers at a time: when it last was, and, while it is, as of when and
    -- from which subscriber on.
    judged_at       INTEGER,
    judging_at      INTEGER,
    judging_from    INTEGER,
    CHECK ((judging_at IS NULL) = (judging_from IS NULL))
) STRICT;
INSERT INTO noticing (only) VALUES (1);

-- One row for each message and each way to the operator; `alert` is the message as JSON. Where a way leads is configured.
CREATE TABLE notices (
    delivery_key    INTEGER PRIMARY KEY AUTOINCREMENT,
    way             TEXT NOT NULL CHECK (way IN ('email', 'webhook')),
    alert_id        TEXT NOT NULL UNIQUE,
    alert           TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    due_at          INTEGER NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('due', 'leased', 'delivered', 'dead', 'dropped')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    lease_owner     TEXT,
    lease_until     INTEGER,
    retried_at      INTEGER,
    settled_at      INTEGER,
    detail          TEXT,                           -- what the last attempt said
    CHECK ((status = 'leased') = (lease_owner IS NOT NULL AND lease_until IS NOT NULL)),
    CHECK ((status IN ('delivered', 'dead', 'dropped')) = (settled_at IS NOT NULL))
) STRICT;
CREATE INDEX notices_by_status ON notices (status, way, due_at);

-- Whether a dead letter was noticed.
ALTER TABLE outbox ADD COLUMN noticed INTEGER NOT NULL DEFAULT 0 CHECK (noticed IN (0, 1));
CREATE INDEX outbox_unnoticed ON outbox (delivery_key) WHERE status = 'dead' AND noticed = 0;
CREATE INDEX events_by_change ON events (changed_at);
