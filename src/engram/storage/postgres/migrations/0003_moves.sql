-- Organisations that are being copied here from another database, or were. The copy's rows have
-- their number here from its beginning; `organization` knows it when it is complete.
CREATE TABLE move (
    organization_id text   COLLATE "C" PRIMARY KEY,
    number          bigint NOT NULL UNIQUE,
    state           text   COLLATE "C" NOT NULL CHECK (state IN ('copying', 'stale', 'done')), -- stale: copy again
    table_name      text   COLLATE "C",                    -- that was written last
    last_key        text   COLLATE "C",                    -- of its last row, a JSON list
    changed_at      bigint NOT NULL
);

GRANT SELECT, INSERT, UPDATE, DELETE ON move TO engram_app;
