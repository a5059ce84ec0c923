-- Quiet hours: an outcome more, 'held'. A check cannot be changed, so the table is made anew around its rows.

CREATE TABLE decisions_anew (
    event_key       INTEGER NOT NULL REFERENCES events (event_key),
    subscriber_key  INTEGER NOT NULL REFERENCES subscribers (subscriber_key),
    decided_at      INTEGER NOT NULL,
    outcome         TEXT NOT NULL
                    CHECK (outcome IN ('alerted', 'digested', 'pending', 'waiting', 'held', 'withheld', 'undecided')),
    reason          TEXT NOT NULL,
    refused         INTEGER NOT NULL CHECK (refused IN (0, 1)),  -- what the limiter said, whatever became of it
    remaining       INTEGER,
    retry_at        INTEGER,
    delivery_key    INTEGER REFERENCES outbox (delivery_key),
    PRIMARY KEY (event_key, subscriber_key),
    CHECK ((outcome IN ('alerted', 'digested')) = (delivery_key IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO decisions_anew SELECT * FROM decisions;
DROP TABLE decisions;
ALTER TABLE decisions_anew RENAME TO decisions;
CREATE INDEX decisions_of_subscriber ON decisions (subscriber_key, outcome);
