-- Since when the feed's content may be incomplete: there was an outage longer than the feed reaches back, and what came and
-- went meanwhile has not been asked for yet. NULL: nothing is known to be missing.
ALTER TABLE installation ADD COLUMN gap_since INTEGER;
