-- Browsers that are signed in, and one-time links that sign one in. They end with their key.
CREATE TABLE page_session (
    secret_hash     TEXT    PRIMARY KEY,               -- SHA-256 in hex; the secret is not kept
    kind            TEXT    NOT NULL CHECK (kind IN ('link', 'session')),
    organization_id TEXT    REFERENCES organization (organization_id) ON DELETE CASCADE,
    key_id          TEXT    REFERENCES api_key (key_id) ON DELETE CASCADE, -- NULL: local, or an operator
    actor           TEXT    NOT NULL,
    operator_hash   TEXT,                              -- SHA-256 of the operator's token, in hex
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX page_session_organization ON page_session (organization_id);
CREATE INDEX page_session_key ON page_session (key_id);
