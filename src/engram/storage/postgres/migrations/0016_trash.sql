-- Conversations and memories that were deleted and can be restored until they expire. Their rows are in
-- `trash_part`, and in no other table but for the pieces of documents, which stay where they are.
CREATE TABLE trash (
    organization_id bigint NOT NULL,
    id              text   COLLATE "C" NOT NULL,            -- of the conversation or memory
    kind            text   COLLATE "C" NOT NULL CHECK (kind IN ('conversation', 'memory')),
    number          bigint NOT NULL,                        -- that its row had and will have again
    record          bigint,                                 -- number of what held its messages
    document        bigint,                                 -- number of the document of a memory
    project         text   COLLATE "C" NOT NULL,
    source          text   COLLATE "C",                     -- of a memory; the agent of a conversation
    title           text   COLLATE "C" NOT NULL,            -- of the conversation, or how the text begins
    sha256          bytea  CHECK (length(sha256) = 32),     -- of a memory's text
    messages        bigint NOT NULL,                        -- as the quota counts them
    stored_bytes    bigint NOT NULL,                        -- as the quota counts them
    trashed_at      bigint NOT NULL,
    expires_at      bigint NOT NULL,
    actor           text   COLLATE "C" NOT NULL,
    row_hash        bytea  NOT NULL,
    PRIMARY KEY (organization_id, id)
);

CREATE INDEX trash_expiry ON trash (organization_id, expires_at);
CREATE INDEX trash_order ON trash (organization_id, trashed_at);

CREATE TABLE trash_part (
    organization_id bigint NOT NULL,
    id              text   COLLATE "C" NOT NULL,            -- of the trash row
    position        bigint NOT NULL,                        -- 0, 1, 2 …
    sha256          bytea  NOT NULL CHECK (length(sha256) = 32),
    content         bytea  NOT NULL,                        -- MessagePack: a table, its columns, some rows
    row_hash        bytea  NOT NULL,
    PRIMARY KEY (organization_id, id, position),
    FOREIGN KEY (organization_id, id) REFERENCES trash (organization_id, id) ON DELETE CASCADE
);

-- How long things are kept. What a column leaves open, a rule says of all.
CREATE TABLE retention_rule (
    organization_id bigint NOT NULL,
    id              text   COLLATE "C" NOT NULL,                   -- derived from what it is of
    kind            text   COLLATE "C" CHECK (kind IN ('conversation', 'note', 'document')),
    project         text   COLLATE "C",
    source          text   COLLATE "C",                               -- of a memory; the agent of a conversation
    keep_days       bigint NOT NULL,
    created_at      bigint NOT NULL,
    actor           text   COLLATE "C" NOT NULL,
    row_hash        bytea  NOT NULL,
    PRIMARY KEY (organization_id, id)
);

-- What nobody may delete, expire or purge, whatever rules say.
CREATE TABLE legal_hold (
    organization_id bigint NOT NULL,
    id              text   COLLATE "C" NOT NULL,
    reason          text   COLLATE "C" NOT NULL,
    subject         text   COLLATE "C",                               -- id of one conversation or memory
    kind            text   COLLATE "C" CHECK (kind IN ('conversation', 'note', 'document')),
    project         text   COLLATE "C",
    source          text   COLLATE "C",
    created_at      bigint NOT NULL,
    actor           text   COLLATE "C" NOT NULL,
    row_hash        bytea  NOT NULL,
    PRIMARY KEY (organization_id, id)
);

ALTER TABLE trash ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON trash
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE trash_part ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON trash_part
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE retention_rule ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON retention_rule
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE legal_hold ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON legal_hold
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

GRANT SELECT, INSERT, UPDATE, DELETE ON trash, trash_part, retention_rule, legal_hold TO engram_app;

ALTER TABLE counters ADD COLUMN trashed_messages bigint NOT NULL DEFAULT 0;
