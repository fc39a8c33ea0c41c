-- Conversations and memories that were deleted and can be restored until they expire. Their rows are in
-- `trash_part`, and in no other table but for the pieces of documents, which stay where they are.
CREATE TABLE trash (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,                   -- of the conversation or memory
    kind            TEXT    NOT NULL CHECK (kind IN ('conversation', 'memory')),
    number          INTEGER NOT NULL,                   -- that its row had and will have again
    record          INTEGER,                            -- number of what held its messages
    document        INTEGER,                            -- number of the document of a memory
    project         TEXT    NOT NULL,
    source          TEXT,                               -- of a memory; the agent of a conversation
    title           TEXT    NOT NULL,                   -- of the conversation, or how the text begins
    sha256          BLOB    CHECK (length(sha256) = 32),-- of a memory's text
    messages        INTEGER NOT NULL,                   -- as the quota counts them
    stored_bytes    INTEGER NOT NULL,                   -- as the quota counts them
    trashed_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX trash_expiry ON trash (organization_id, expires_at);
CREATE INDEX trash_order ON trash (organization_id, trashed_at);

CREATE TABLE trash_part (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,                   -- of the trash row
    position        INTEGER NOT NULL,                   -- 0, 1, 2 …
    sha256          BLOB    NOT NULL CHECK (length(sha256) = 32),
    content         BLOB    NOT NULL,                   -- MessagePack: a table, its columns, some rows
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id, position),
    FOREIGN KEY (organization_id, id) REFERENCES trash (organization_id, id) ON DELETE CASCADE
) STRICT;

-- How long things are kept. What a column leaves open, a rule says of all.
CREATE TABLE retention_rule (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,                   -- derived from what it is of
    kind            TEXT    CHECK (kind IN ('conversation', 'note', 'document')),
    project         TEXT,
    source          TEXT,                               -- of a memory; the agent of a conversation
    keep_days       INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

-- What nobody may delete, expire or purge, whatever rules say.
CREATE TABLE legal_hold (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    subject         TEXT,                               -- id of one conversation or memory
    kind            TEXT    CHECK (kind IN ('conversation', 'note', 'document')),
    project         TEXT,
    source          TEXT,
    created_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

ALTER TABLE counters ADD COLUMN trashed_messages INTEGER NOT NULL DEFAULT 0;
