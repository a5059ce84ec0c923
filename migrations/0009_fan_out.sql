-- One event to very many subscribers: what is written for each of them is narrow, in order, and checked cheaply. Checks of
-- `IN` with more than two words are spelled with `OR`: SQLite builds a table in memory for `IN` at every row that is written.
-- A check cannot be changed, so the tables are made anew around their rows, those that are referred to first.

-- A limiter's state is written at each decision, a subscriber's settings hardly ever. No row while nothing is spent.
CREATE TABLE limiters (
    subscriber_key  INTEGER PRIMARY KEY REFERENCES subscribers (subscriber_key),
    state           BLOB NOT NULL
) STRICT;
INSERT INTO limiters SELECT subscriber_key, limiter FROM subscribers WHERE limiter IS NOT NULL ORDER BY subscriber_key;
ALTER TABLE subscribers DROP COLUMN limiter;

-- What messages about one event alone say of it, as JSON: the same for all who are told of the same version.
CREATE TABLE contents (
    content_key     INTEGER PRIMARY KEY AUTOINCREMENT,
    event_key       INTEGER NOT NULL REFERENCES events (event_key),
    content         TEXT NOT NULL
) STRICT;
CREATE INDEX contents_of_event ON contents (event_key);

-- What messages say of a limit itself, as JSON: the same for all who have the same one.
CREATE TABLE terms (
    terms_key       INTEGER PRIMARY KEY AUTOINCREMENT,
    terms           TEXT NOT NULL UNIQUE
) STRICT;

-- One row for each message. What it says is kept as it was decided: in `alert`, as JSON, or, of a message about one event
-- alone, in the pieces that it shares with others and those of its own.
CREATE TABLE outbox_anew (
    delivery_key    INTEGER PRIMARY KEY AUTOINCREMENT,
    event_key       INTEGER NOT NULL REFERENCES events (event_key),     -- that its id names; of several, the first
    subscriber_key  INTEGER NOT NULL REFERENCES subscribers (subscriber_key),
    alert_id        TEXT NOT NULL,
    channel         TEXT NOT NULL DEFAULT 'email',
    magnitude       REAL,                       -- of the largest event in it
    alert           TEXT,
    content_key     INTEGER,                    -- of a row that goes with the last decision on its event, so after this one
    terms_key       INTEGER REFERENCES terms (terms_key),
    reason          TEXT,
    remaining       INTEGER,
    retry_at        INTEGER,
    reset_at        INTEGER,
    created_at      INTEGER NOT NULL,
    due_at          INTEGER NOT NULL,
    status          TEXT NOT NULL
                    CHECK (status = 'due' OR status = 'leased' OR status = 'delivered' OR status = 'dead' OR status = 'dropped'),
    attempts        INTEGER NOT NULL DEFAULT 0,
    lease_owner     TEXT,
    lease_until     INTEGER,
    retried_at      INTEGER,                    -- when a dead letter was put back by hand: its age counts from then
    settled_at      INTEGER,
    detail          TEXT,                       -- what the last attempt said
    noticed         INTEGER NOT NULL DEFAULT 0 CHECK (noticed = 0 OR noticed = 1),     -- whether a dead letter was noticed
    CHECK ((alert IS NULL) = (content_key IS NOT NULL AND terms_key IS NOT NULL AND reason IS NOT NULL
                              AND remaining IS NOT NULL AND retry_at IS NOT NULL AND reset_at IS NOT NULL)),
    CHECK ((status = 'leased') = (lease_owner IS NOT NULL AND lease_until IS NOT NULL)),
    CHECK ((status = 'delivered' OR status = 'dead' OR status = 'dropped') = (settled_at IS NOT NULL))
) STRICT;
-- An id is the installation's key, the subscriber's, the event's, and mostly nothing more.
INSERT INTO outbox_anew (delivery_key, event_key, subscriber_key, alert_id, channel, magnitude, alert, created_at, due_at, status,
                         attempts, lease_owner, lease_until, retried_at, settled_at, detail, noticed)
SELECT delivery_key, CAST(substr(rest, instr(rest, '-') + 1) AS INTEGER), subscriber_key, alert_id, channel, magnitude, alert,
       created_at, due_at, status, attempts, lease_owner, lease_until, retried_at, settled_at, detail, noticed
FROM (SELECT *, substr(alert_id, instr(alert_id, '-') + 1) AS rest FROM outbox) ORDER BY delivery_key;

CREATE TABLE decisions_anew (
    event_key       INTEGER NOT NULL REFERENCES events (event_key),
    subscriber_key  INTEGER NOT NULL REFERENCES subscribers (subscriber_key),
    decided_at      INTEGER NOT NULL,
    outcome         TEXT NOT NULL
                    CHECK (outcome = 'alerted' OR outcome = 'withheld' OR outcome = 'pending' OR outcome = 'digested'
                           OR outcome = 'waiting' OR outcome = 'held' OR outcome = 'undecided'),
    reason          TEXT NOT NULL,
    refused         INTEGER NOT NULL CHECK (refused = 0 OR refused = 1),  -- what the limiter said, whatever became of it
    remaining       INTEGER,
    retry_at        INTEGER,
    delivery_key    INTEGER REFERENCES outbox_anew (delivery_key),
    PRIMARY KEY (event_key, subscriber_key),
    CHECK ((outcome = 'alerted' OR outcome = 'digested') = (delivery_key IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO decisions_anew SELECT * FROM decisions ORDER BY event_key, subscriber_key;
DROP TABLE decisions;

CREATE TABLE updates_anew (
    update_key      INTEGER PRIMARY KEY AUTOINCREMENT,
    event_key       INTEGER NOT NULL REFERENCES events (event_key),
    subscriber_key  INTEGER NOT NULL REFERENCES subscribers (subscriber_key),
    revision        INTEGER NOT NULL,           -- the version: `seen_at` of its row in revisions
    kind            TEXT NOT NULL CHECK (kind = 'update' OR kind = 'withdrawal'),
    decided_at      INTEGER NOT NULL,
    outcome         TEXT NOT NULL
                    CHECK (outcome = 'sent' OR outcome = 'waiting' OR outcome = 'superseded' OR outcome = 'withheld'
                           OR outcome = 'undecided'),
    reason          TEXT NOT NULL,
    refused         INTEGER NOT NULL CHECK (refused = 0 OR refused = 1),  -- what the limiter said, whatever became of it
    retry_at        INTEGER,
    delivery_key    INTEGER UNIQUE REFERENCES outbox_anew (delivery_key),
    UNIQUE (event_key, subscriber_key, revision),
    CHECK ((outcome = 'sent') = (delivery_key IS NOT NULL)),
    CHECK (kind = 'update' OR (refused = 0 AND (outcome = 'sent' OR outcome = 'undecided')))
) STRICT;
INSERT INTO updates_anew SELECT * FROM updates ORDER BY update_key;
DELETE FROM sqlite_sequence WHERE name = 'updates_anew';
INSERT INTO sqlite_sequence (name, seq) SELECT 'updates_anew', seq FROM sqlite_sequence WHERE name = 'updates';
DROP TABLE updates;
ALTER TABLE updates_anew RENAME TO updates;
CREATE INDEX updates_of_subscriber ON updates (subscriber_key, outcome);

-- Keys are given once for all time: the counters go on where they were.
DELETE FROM sqlite_sequence WHERE name = 'outbox_anew';
INSERT INTO sqlite_sequence (name, seq) SELECT 'outbox_anew', seq FROM sqlite_sequence WHERE name = 'outbox';
DROP TABLE outbox;
ALTER TABLE outbox_anew RENAME TO outbox;
ALTER TABLE decisions_anew RENAME TO decisions;

-- In the order in which an event is decided. A subscriber's messages are found event by event.
CREATE UNIQUE INDEX outbox_by_event ON outbox (event_key, subscriber_key, alert_id);
CREATE INDEX outbox_of_channel ON outbox (channel, magnitude DESC, due_at) WHERE status = 'due';
-- What is due at once, which is nearly all, is not looked for by the time when it becomes so.
CREATE INDEX outbox_later ON outbox (due_at) WHERE status = 'due' AND due_at > created_at;
CREATE INDEX outbox_leased ON outbox (lease_until) WHERE status = 'leased';
CREATE INDEX outbox_dead ON outbox (settled_at) WHERE status = 'dead';
CREATE INDEX outbox_unnoticed ON outbox (delivery_key) WHERE status = 'dead' AND noticed = 0;
CREATE INDEX decisions_of_message ON decisions (delivery_key) WHERE delivery_key IS NOT NULL;
CREATE INDEX decisions_waiting ON decisions (subscriber_key) WHERE outcome = 'pending' OR outcome = 'waiting' OR outcome = 'held';
