-- The tenth migration of SQLite, see there: a dead destination that takes messages again is a change as well.
ALTER TABLE changes
    DROP CONSTRAINT changes_what_check,
    ADD CONSTRAINT changes_what_check
        CHECK (what IN ('feed-stale', 'feed-fresh', 'destination-dead', 'destination-recovered', 'withholding-began',
                        'withholding-ended'));
CREATE INDEX changes_dead ON changes (change_key) WHERE what = 'destination-dead';

ALTER TABLE noticing ADD COLUMN recovered_at BIGINT;
ALTER TABLE noticing ADD COLUMN recovering_from BIGINT;

-- Of the column itself: a server counts what it reads of an index, not what it would compute of it.
CREATE INDEX subscribers_by_standing ON subscribers (standing) WHERE removed_at IS NULL;
