-- Conversations with their messages, and all that is derived from them.
-- Times are microseconds since 1970, UTC. Row ids named `key` are made by
-- `engram.model.row_keys`: a conversation's number above, a position in it below, so that
-- the key of a message is also the proof that its sequence is unique.

CREATE TABLE conversation (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: keys are made of it
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL UNIQUE,
    title           TEXT,
    agent_id        TEXT,
    project         TEXT    NOT NULL,
    metadata        TEXT    NOT NULL,                   -- JSON
    is_default      INTEGER NOT NULL DEFAULT 0 CHECK (is_default IN (0, 1)),
    message_count   INTEGER NOT NULL DEFAULT 0,
    content_bytes   INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX conversation_default ON conversation (organization_id) WHERE is_default = 1;
CREATE INDEX conversation_created ON conversation (organization_id, created_at, id);
CREATE INDEX conversation_updated ON conversation (organization_id, updated_at, id);
CREATE INDEX conversation_length ON conversation (organization_id, message_count, id);
CREATE INDEX conversation_project ON conversation (organization_id, project, updated_at, id);
CREATE INDEX conversation_agent ON conversation (organization_id, agent_id, updated_at, id)
    WHERE agent_id IS NOT NULL;

CREATE TABLE conversation_tag (
    organization_id INTEGER NOT NULL,
    conversation    INTEGER NOT NULL REFERENCES conversation (number) ON DELETE CASCADE,
    position        INTEGER NOT NULL,                   -- tags come back in the order given
    tag             TEXT    NOT NULL,
    PRIMARY KEY (conversation, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX conversation_tag_found
    ON conversation_tag (organization_id, tag, conversation);

-- The content comes last: the small columns are then read without its overflow pages.
CREATE TABLE message (
    key              INTEGER PRIMARY KEY,               -- conversation number and sequence
    organization_id  INTEGER NOT NULL,
    role             TEXT    NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
    characters       INTEGER NOT NULL,
    occurred_at      INTEGER,
    created_at       INTEGER NOT NULL,
    name             TEXT,
    tool_call_id     TEXT,
    tool_name        TEXT,
    content_encoding TEXT,
    sha256           BLOB    NOT NULL CHECK (length(sha256) = 32),
    metadata         TEXT,                              -- JSON
    content          ANY     NOT NULL
) STRICT;

CREATE INDEX message_legacy ON message (key)
    WHERE content_encoding IS NULL OR content_encoding = 'gzip+base64';

CREATE TABLE chunk (
    key             INTEGER PRIMARY KEY,                -- conversation number and window number
    organization_id INTEGER NOT NULL,
    start_sequence  INTEGER NOT NULL,
    end_sequence    INTEGER NOT NULL
) STRICT;

CREATE VIRTUAL TABLE message_words USING fts5(
    words, content = '', tokenize = "ascii tokenchars '_+#'"
);
CREATE VIRTUAL TABLE window_words USING fts5(
    words, content = '', tokenize = "ascii tokenchars '_+#'"
);

-- What the word indexes hold, word by word, for `verify`.
CREATE VIRTUAL TABLE message_word_places USING fts5vocab(message_words, instance);
CREATE VIRTUAL TABLE window_word_places USING fts5vocab(window_words, instance);

CREATE TABLE counters (
    organization_id INTEGER PRIMARY KEY,
    conversations   INTEGER NOT NULL DEFAULT 0,
    messages        INTEGER NOT NULL DEFAULT 0,
    content_bytes   INTEGER NOT NULL DEFAULT 0,
    chunks          INTEGER NOT NULL DEFAULT 0,
    vectors         INTEGER NOT NULL DEFAULT 0,
    pending         INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What upkeep has to know: one row.
CREATE TABLE upkeep (
    organization_id      INTEGER PRIMARY KEY,
    analyser_version     INTEGER NOT NULL,              -- of the words in the word indexes
    dictionary_due_bytes INTEGER NOT NULL,              -- train when so much text is stored
    rebuild_id           TEXT,                          -- while new word indexes are built
    rebuild_version      INTEGER,                       -- the analyser of the new ones
    rebuild_upto         INTEGER,                       -- the last conversation they hold
    rebuild_until        INTEGER                        -- abandoned if not continued by then
) STRICT;

CREATE TABLE dictionary (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,  -- as in the encoding `zstd:<id>`
    organization_id INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    trained_bytes   INTEGER NOT NULL,
    content         BLOB    NOT NULL                    -- itself compressed
) STRICT;

CREATE TABLE idempotency (
    organization_id INTEGER NOT NULL,
    key             TEXT    NOT NULL,
    conversation    INTEGER NOT NULL REFERENCES conversation (number) ON DELETE CASCADE,
    first_sequence  INTEGER NOT NULL,
    last_sequence   INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (organization_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_age ON idempotency (organization_id, created_at);
CREATE INDEX idempotency_conversation ON idempotency (conversation);

-- Actors, actions and subjects of the audit: every one is named in many rows.
CREATE TABLE audit_name (
    number          INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    name            TEXT    NOT NULL UNIQUE
) STRICT;

CREATE TABLE audit (
    at              INTEGER PRIMARY KEY,                -- one microsecond later when taken
    organization_id INTEGER NOT NULL,
    actor           INTEGER NOT NULL REFERENCES audit_name (number),
    action          INTEGER NOT NULL REFERENCES audit_name (number),
    subject         INTEGER REFERENCES audit_name (number),
    details         TEXT    NOT NULL                    -- JSON
) STRICT;

CREATE TABLE job (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL UNIQUE,
    kind            TEXT    NOT NULL,
    subject         TEXT    NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    available_at    INTEGER NOT NULL,
    lease_owner     TEXT,
    lease_until     INTEGER,
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

CREATE UNIQUE INDEX job_waiting ON job (organization_id, kind, subject)
    WHERE lease_owner IS NULL;
