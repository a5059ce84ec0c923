-- The ledger is kept for a while, not for ever. `ledger_from`: what was decided before it may be gone; NULL while nothing is.
ALTER TABLE installation ADD COLUMN ledger_from INTEGER;

-- When the last was deleted of what was decided on an event and of its older versions. The event itself stays, with its ids:
-- what a feed still shows, or shows again, is known.
ALTER TABLE events ADD COLUMN pruned_at INTEGER;
CREATE INDEX events_to_prune ON events (changed_at) WHERE pruned_at IS NULL OR pruned_at < changed_at;

-- A message goes with the last decision that it told of.
CREATE INDEX decisions_of_message ON decisions (delivery_key) WHERE delivery_key IS NOT NULL;

-- Of a subscriber's decisions only what waits is asked for often. An index of all would be written in as many places as there
-- are subscribers, for every event; the rest is found event by event. (SQLite would build a table for `IN` at every write.)
DROP INDEX decisions_of_subscriber;
CREATE INDEX decisions_waiting ON decisions (subscriber_key) WHERE outcome = 'pending' OR outcome = 'waiting' OR outcome = 'held';
-- Without the status, so that a claim and a receipt leave it alone.
DROP INDEX outbox_of_subscriber;
CREATE INDEX outbox_of_subscriber ON outbox (subscriber_key);
