-- Bodies of documents, from the first part of their upload on.
CREATE TABLE document (
    number             INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id    INTEGER NOT NULL,
    id                 TEXT    NOT NULL UNIQUE,
    memory             INTEGER,
    state              TEXT    NOT NULL CHECK (state IN
        ('uploading', 'indexing', 'indexed', 'unreadable', 'forgotten')),
    waits_since        INTEGER,
    name               TEXT,
    media_type         TEXT    NOT NULL,
    tier               INTEGER CHECK (tier IN (0, 1, 2)),
    size_bytes         INTEGER NOT NULL DEFAULT 0,
    sha256             BLOB    CHECK (length(sha256) = 32),
    is_converted       INTEGER NOT NULL DEFAULT 0 CHECK (is_converted IN (0, 1)),
    text_bytes         INTEGER,
    text_bytes_indexed INTEGER NOT NULL DEFAULT 0,
    created_at         INTEGER NOT NULL,
    parts              INTEGER NOT NULL DEFAULT 0,
    part_sha256        BLOB,
    announced_bytes    INTEGER,
    lease_owner        TEXT,
    lease_until        INTEGER,
    problem            TEXT,
    options            TEXT,
    chunker            TEXT,
    content_encoding   TEXT,
    content            ANY,
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CHECK ((content IS NULL) = (content_encoding IS NULL))
) STRICT;

CREATE INDEX document_waiting ON document (organization_id, state, waits_since)
    WHERE waits_since IS NOT NULL;
CREATE INDEX document_content ON document (organization_id, sha256) WHERE sha256 IS NOT NULL;

CREATE TABLE document_piece (
    key              INTEGER PRIMARY KEY,
    organization_id  INTEGER NOT NULL,
    size_bytes       INTEGER NOT NULL,
    content_encoding TEXT    NOT NULL,
    sha256           BLOB    NOT NULL CHECK (length(sha256) = 32),
    content          BLOB    NOT NULL
) STRICT;
