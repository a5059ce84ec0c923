-- The outbox by channel: what is limited and breaks together. 'email' for the mail relay, the origin for a webhook.
ALTER TABLE outbox ADD COLUMN channel TEXT NOT NULL DEFAULT 'email';
-- An origin ends at the first slash after the host; stored URLs are normalized and have one.
UPDATE outbox SET channel = (
    SELECT substr(url, 1, 7 + instr(substr(url, 9), '/'))
    FROM (SELECT json_extract(settings, '$.destination.webhook') AS url FROM subscribers AS s
          WHERE s.subscriber_key = outbox.subscriber_key))
WHERE (SELECT json_extract(settings, '$.destination.webhook') FROM subscribers AS s
       WHERE s.subscriber_key = outbox.subscriber_key) IS NOT NULL;

-- When a dead letter was put back by hand: its age counts from then.
ALTER TABLE outbox ADD COLUMN retried_at INTEGER;

DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (due_at) WHERE status = 'due';
CREATE INDEX outbox_of_channel ON outbox (channel, magnitude DESC, due_at) WHERE status = 'due';
CREATE INDEX outbox_dead ON outbox (settled_at) WHERE status = 'dead';

-- When this file was made as a backup; NULL in the database of a daemon.
ALTER TABLE installation ADD COLUMN backup_at INTEGER;
