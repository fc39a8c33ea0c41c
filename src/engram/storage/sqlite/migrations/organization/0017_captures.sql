-- Which message of a source each captured message is, so that none is stored twice.
CREATE TABLE captured_message (
    organization_id INTEGER NOT NULL,
    conversation    INTEGER NOT NULL REFERENCES conversation (number) ON DELETE CASCADE,
    identity        TEXT    NOT NULL,                   -- derived from the source's own id
    sequence        INTEGER NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (conversation, identity)
) STRICT, WITHOUT ROWID;

-- Captured conversations that were deleted; they are not captured again.
CREATE TABLE forgotten_session (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,                   -- of the conversation
    forgotten_at    INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
