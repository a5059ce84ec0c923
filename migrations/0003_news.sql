-- Solutions of one quake that are not linked yet, updates and withdrawals, events that await confirmation.

-- The event that this one was taken for, by time, place and magnitude: always one that stands for itself. NULL if none.
ALTER TABLE events ADD COLUMN duplicate_of INTEGER REFERENCES events (event_key);
ALTER TABLE events ADD COLUMN duplicate_since INTEGER CHECK ((duplicate_since IS NULL) = (duplicate_of IS NULL));
CREATE INDEX events_by_origin ON events (origin_at);
CREATE INDEX events_duplicates ON events (duplicate_of) WHERE duplicate_of IS NOT NULL;
