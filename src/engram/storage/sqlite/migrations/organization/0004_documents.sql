-- SQLite cannot change a check, so the table is made anew.
CREATE TABLE message_next (
    key              INTEGER PRIMARY KEY,
    organization_id  INTEGER NOT NULL,
    role             TEXT    NOT NULL
        CHECK (role IN ('user', 'assistant', 'system', 'tool', 'document')),
    characters       INTEGER NOT NULL,
    occurred_at      INTEGER,
    created_at       INTEGER NOT NULL,
    name             TEXT,
    tool_call_id     TEXT,
    tool_name        TEXT,
    content_encoding TEXT,
    sha256           BLOB    NOT NULL CHECK (length(sha256) = 32),
    metadata         TEXT,
    content          ANY     NOT NULL
) STRICT;

INSERT INTO message_next
    (key, organization_id, role, characters, occurred_at, created_at, name, tool_call_id,
     tool_name, content_encoding, sha256, metadata, content)
SELECT key, organization_id, role, characters, occurred_at, created_at, name, tool_call_id,
    tool_name, content_encoding, sha256, metadata, content
FROM message;

DROP TABLE message;
ALTER TABLE message_next RENAME TO message;

CREATE INDEX message_legacy ON message (key)
    WHERE content_encoding IS NULL OR content_encoding = 'gzip+base64';
