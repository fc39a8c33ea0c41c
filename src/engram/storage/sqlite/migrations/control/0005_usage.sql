-- What organisations did, by day in UTC.
CREATE TABLE usage_day (
    organization_id TEXT    NOT NULL REFERENCES organization (organization_id) ON DELETE CASCADE,
    day             TEXT    NOT NULL,                  -- as in 2026-01-31
    requests        INTEGER NOT NULL DEFAULT 0,
    searches        INTEGER NOT NULL DEFAULT 0,
    embedded_texts  INTEGER NOT NULL DEFAULT 0,
    bytes_stored    INTEGER NOT NULL DEFAULT 0,        -- that the quota counts, when last seen
    PRIMARY KEY (organization_id, day)
) STRICT, WITHOUT ROWID;
