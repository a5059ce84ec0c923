-- When its recipient left by the link in a message; NULL while it has not. Such a subscriber is disabled until it is resumed by hand.
ALTER TABLE subscribers ADD COLUMN unsubscribed_at INTEGER CHECK (unsubscribed_at IS NULL OR standing = 'disabled');
CREATE INDEX subscribers_gone ON subscribers (subscriber_key) WHERE unsubscribed_at IS NOT NULL;
