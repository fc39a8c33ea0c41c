-- What users say of projects: that a name stands for another project, or that nothing is kept.
CREATE TABLE project_rule (
    organization_id bigint NOT NULL,
    project         text   COLLATE "C" NOT NULL,
    same_as         text   COLLATE "C",                     -- NULL: nothing of it is kept
    created_at      bigint NOT NULL,
    actor           text   COLLATE "C" NOT NULL,
    row_hash        bytea  NOT NULL,
    PRIMARY KEY (organization_id, project),
    CHECK (same_as <> project)
);

-- What acts on many things at once have changed, so that they can be taken back; the newest rows stay.
CREATE TABLE change_set (
    organization_id bigint NOT NULL,
    id              text   COLLATE "C" NOT NULL,
    at              bigint NOT NULL,
    actor           text   COLLATE "C" NOT NULL,
    kind            text   COLLATE "C" NOT NULL CHECK (kind IN ('importance', 'trash', 'merge')),
    items           text   COLLATE "C" NOT NULL,            -- a JSON object: ids, and what they were before
    PRIMARY KEY (organization_id, id)
);

CREATE INDEX change_set_age ON change_set (organization_id, at);

-- Requests of keys, by day in UTC.
CREATE TABLE key_day (
    organization_id text   COLLATE "C" NOT NULL
        REFERENCES organization (organization_id) ON DELETE CASCADE,
    key_id          text   COLLATE "C" NOT NULL REFERENCES api_key (key_id) ON DELETE CASCADE,
    day             text   COLLATE "C" NOT NULL,            -- as in 2026-01-31
    requests        bigint NOT NULL,
    PRIMARY KEY (organization_id, key_id, day)
);

CREATE INDEX key_day_key ON key_day (key_id);

ALTER TABLE usage_day ADD COLUMN messages bigint NOT NULL DEFAULT 0; -- appended and captured

ALTER TABLE project_rule ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON project_rule
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

ALTER TABLE change_set ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON change_set
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

ALTER TABLE key_day ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON key_day
    USING (current_setting('engram.control', true) = 'all'
        OR organization_id = nullif(current_setting('engram.public_id', true), ''))
    WITH CHECK (current_setting('engram.control', true) = 'all');

GRANT SELECT, INSERT, UPDATE, DELETE ON project_rule, change_set, key_day TO engram_app;
