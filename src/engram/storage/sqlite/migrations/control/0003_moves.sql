-- Organisations that are being copied here from another database, or were. The copy's rows have
-- their number here from its beginning; `organization` knows it when it is complete.
CREATE TABLE move (
    organization_id TEXT    PRIMARY KEY,
    number          INTEGER NOT NULL UNIQUE,
    state           TEXT    NOT NULL CHECK (state IN ('copying', 'stale', 'done')), -- stale: copy again
    table_name      TEXT,                              -- that was written last
    last_key        TEXT,                              -- of its last row, a JSON list
    changed_at      INTEGER NOT NULL
) STRICT;
