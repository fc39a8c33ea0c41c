-- The lists of conversations pass memories and documents over: these have numbers of their own.
DROP INDEX conversation_created;
DROP INDEX conversation_updated;
DROP INDEX conversation_length;
CREATE INDEX conversation_created ON conversation (organization_id, created_at, id)
    WHERE number < 4294967296;
CREATE INDEX conversation_updated ON conversation (organization_id, updated_at, id)
    WHERE number < 4294967296;
CREATE INDEX conversation_length ON conversation (organization_id, message_count, id)
    WHERE number < 4294967296;

CREATE TABLE episode (
    id              TEXT    PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    project         TEXT    NOT NULL,
    description     TEXT    NOT NULL,
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    summary         TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX episode_project ON episode (organization_id, project, started_at);

CREATE TABLE memory (
    number             INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id    INTEGER NOT NULL,
    id                 TEXT    NOT NULL UNIQUE,
    record             INTEGER UNIQUE REFERENCES conversation (number),
    project            TEXT    NOT NULL,
    memory_type        TEXT    NOT NULL CHECK (memory_type IN
        ('decision', 'pattern', 'error', 'context', 'architecture', 'preference')),
    category           TEXT    NOT NULL CHECK (category IN
        ('general', 'project', 'user_pref', 'technical', 'feedback')),
    source             TEXT    NOT NULL,
    importance         INTEGER NOT NULL CHECK (importance BETWEEN 0 AND 4),
    tags               TEXT    NOT NULL,
    immutable          INTEGER NOT NULL CHECK (immutable IN (0, 1)),
    episode_id         TEXT    REFERENCES episode (id) ON DELETE SET NULL,
    pattern_confidence REAL    CHECK (pattern_confidence BETWEEN 0 AND 1),
    valid_from         INTEGER,
    valid_to           INTEGER,
    expires_at         INTEGER,
    storage_mode       TEXT    NOT NULL CHECK (storage_mode IN ('focused', 'document')),
    document_id        TEXT,
    sha256             BLOB    NOT NULL CHECK (length(sha256) = 32),
    version            INTEGER NOT NULL DEFAULT 1,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    reason             TEXT,
    summary            TEXT
) STRICT;

CREATE INDEX memory_project ON memory (organization_id, project, number);
CREATE INDEX memory_content ON memory (organization_id, sha256) WHERE record IS NOT NULL;
CREATE INDEX memory_episode ON memory (episode_id) WHERE episode_id IS NOT NULL;
CREATE INDEX memory_timed ON memory (organization_id, record, valid_from, valid_to, expires_at)
    WHERE record IS NOT NULL
        AND (valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires_at IS NOT NULL);

CREATE TABLE memory_version (
    memory           INTEGER NOT NULL REFERENCES memory (number) ON DELETE CASCADE,
    version          INTEGER NOT NULL,
    organization_id  INTEGER NOT NULL,
    change           TEXT    NOT NULL CHECK (change IN ('update', 'invalidate', 'merge')),
    actor            TEXT    NOT NULL,
    recorded_at      INTEGER NOT NULL,
    ended_at         INTEGER NOT NULL,
    fields           TEXT    NOT NULL,
    sha256           BLOB    NOT NULL CHECK (length(sha256) = 32),
    content_bytes    INTEGER NOT NULL DEFAULT 0,
    content_encoding TEXT,
    content          ANY,
    PRIMARY KEY (memory, version),
    CHECK ((content IS NULL) = (content_encoding IS NULL))
) STRICT, WITHOUT ROWID;

CREATE TABLE relation (
    source          INTEGER NOT NULL REFERENCES memory (number) ON DELETE CASCADE,
    target          INTEGER NOT NULL REFERENCES memory (number) ON DELETE CASCADE,
    relation_type   TEXT    NOT NULL CHECK (relation_type IN
        ('caused_by', 'relates_to', 'depends_on', 'supersedes', 'used_in', 'resolved_by',
         'contradicts', 'supports', 'derived_from', 'part_of', 'follows')),
    organization_id INTEGER NOT NULL,
    strength        REAL    NOT NULL CHECK (strength BETWEEN 0 AND 1),
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (source, target, relation_type),
    CHECK (source <> target)
) STRICT, WITHOUT ROWID;

CREATE INDEX relation_target ON relation (target);

CREATE TABLE feedback (
    memory          INTEGER NOT NULL REFERENCES memory (number) ON DELETE CASCADE,
    number          INTEGER NOT NULL,
    organization_id INTEGER NOT NULL,
    helpful         INTEGER NOT NULL CHECK (helpful IN (0, 1)),
    event_id        TEXT,
    failure_class   TEXT,
    actor           TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    PRIMARY KEY (memory, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE tombstone (
    id              TEXT    PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    sha256          BLOB    NOT NULL CHECK (length(sha256) = 32),
    removed_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE counters ADD COLUMN memories INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counters ADD COLUMN documents INTEGER NOT NULL DEFAULT 0;

ALTER TABLE upkeep ADD COLUMN last_conversation INTEGER NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN last_memory INTEGER NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN last_document INTEGER NOT NULL DEFAULT 0;
UPDATE upkeep SET last_conversation =
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'conversation'), 0);
