-- Requests of keys, by day in UTC.
CREATE TABLE key_day (
    organization_id TEXT    NOT NULL REFERENCES organization (organization_id) ON DELETE CASCADE,
    key_id          TEXT    NOT NULL REFERENCES api_key (key_id) ON DELETE CASCADE,
    day             TEXT    NOT NULL,                  -- as in 2026-01-31
    requests        INTEGER NOT NULL,
    PRIMARY KEY (organization_id, key_id, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX key_day_key ON key_day (key_id);

ALTER TABLE usage_day ADD COLUMN messages INTEGER NOT NULL DEFAULT 0; -- appended and captured
