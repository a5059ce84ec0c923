-- A dead destination that takes messages again is a change as well. The table is made anew, since what it may hold is checked.
CREATE TABLE changes_of_now (
    change_key      INTEGER PRIMARY KEY AUTOINCREMENT,
    what            TEXT NOT NULL
                    CHECK (what IN ('feed-stale', 'feed-fresh', 'destination-dead', 'destination-recovered', 'withholding-began',
                                    'withholding-ended')),
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
INSERT INTO changes_of_now SELECT * FROM changes;
DROP TABLE changes;
ALTER TABLE changes_of_now RENAME TO changes;
CREATE INDEX changes_of_subscriber ON changes (subscriber_key, change_key);
CREATE INDEX changes_dead ON changes (change_key) WHERE what = 'destination-dead';

-- Dead destinations are looked at again from time to time, some at once: when all last were, and from which change on while
-- some are left.
ALTER TABLE noticing ADD COLUMN recovered_at INTEGER;
ALTER TABLE noticing ADD COLUMN recovering_from INTEGER;

-- Subscribers are counted every few seconds; that does not go through their rows. By the first letter, so that no other query takes this
-- index for a short cut: most are active.
CREATE INDEX subscribers_by_standing ON subscribers (substr(standing, 1, 1)) WHERE removed_at IS NULL;
