-- What each daemon on this server tells of itself, as it does in the file beside its lock: for whoever asks how they stand.
CREATE TABLE daemons (
    host        TEXT NOT NULL,                  -- the machine's name for itself
    files       TEXT NOT NULL,                  -- where it has its files, which are nobody else's on that machine
    session     INTEGER NOT NULL,               -- the server's process that spoke to it when this was written
    noted_at    BIGINT NOT NULL,                -- microseconds since 1970, by the server's clock
    note        TEXT NOT NULL,                  -- JSON
    PRIMARY KEY (host, files)
);
