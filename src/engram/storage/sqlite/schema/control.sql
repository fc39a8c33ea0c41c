-- The control file `engram.db` as its migrations leave it. Times are microseconds since 1970.

CREATE TABLE organization (
    number          INTEGER PRIMARY KEY AUTOINCREMENT, -- in the organisation's own file; never reused
    organization_id TEXT    NOT NULL UNIQUE,
    name            TEXT    NOT NULL,
    is_local        INTEGER NOT NULL CHECK (is_local IN (0, 1)),
    messages_max    INTEGER,                           -- quota; NULL is without bound
    bytes_max       INTEGER,
    has_file        INTEGER NOT NULL DEFAULT 0 CHECK (has_file IN (0, 1)), -- a missing file is then a loss
    created_at      INTEGER NOT NULL,
    row_hash        BLOB,                                -- NULL: stored by an older version
    moved_to        TEXT                               -- the address of the database that it was moved to
) STRICT;

CREATE UNIQUE INDEX organization_local ON organization (is_local) WHERE is_local = 1;

-- Deleted organisations whose files are still to be removed.
CREATE TABLE removal (
    number          INTEGER PRIMARY KEY,
    organization_id TEXT    NOT NULL
) STRICT;

CREATE TABLE api_key (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    key_id          TEXT    NOT NULL UNIQUE,
    organization_id TEXT    NOT NULL REFERENCES organization (organization_id) ON DELETE CASCADE,
    name            TEXT    NOT NULL,
    secret_hash     TEXT    NOT NULL UNIQUE,           -- SHA-256 in hex; the secret is not kept
    prefix          TEXT    NOT NULL,
    scopes          TEXT    NOT NULL,                  -- separated by spaces
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    revoked_at      INTEGER,
    last_used_at    INTEGER,
    toolsets        TEXT,                              -- separated by spaces; NULL leaves them to the setting
    row_hash        BLOB                                -- NULL: stored by an older version
) STRICT;

CREATE INDEX api_key_organization ON api_key (organization_id, number);

-- The addresses that keys were last used from, so that a new one can be told from a known one.
CREATE TABLE key_address (
    organization_id TEXT    NOT NULL REFERENCES organization (organization_id) ON DELETE CASCADE,
    key_id          TEXT    NOT NULL REFERENCES api_key (key_id) ON DELETE CASCADE,
    address         TEXT    NOT NULL,
    seen_at         INTEGER NOT NULL,
    PRIMARY KEY (organization_id, key_id, address)
) STRICT, WITHOUT ROWID;

CREATE INDEX key_address_key ON key_address (key_id);

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

-- Organisations with background work, now or later: nobody opens the files of others to look for some.
CREATE TABLE due (
    organization_id TEXT    NOT NULL REFERENCES organization (organization_id) ON DELETE CASCADE,
    kind            TEXT    NOT NULL,
    due_at          INTEGER NOT NULL,
    lease_until     INTEGER,
    token           INTEGER NOT NULL,                  -- random; another one whenever work is noted
    PRIMARY KEY (organization_id, kind)
) STRICT, WITHOUT ROWID;

CREATE INDEX due_at ON due (due_at);

-- Outlives the organisation it speaks of.
CREATE TABLE audit (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    audit_id        TEXT    NOT NULL UNIQUE,
    organization_id TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    action          TEXT    NOT NULL,
    subject         TEXT,
    details         TEXT    NOT NULL                   -- a JSON object
) STRICT;

CREATE INDEX audit_organization ON audit (organization_id, at, number);
CREATE INDEX audit_at ON audit (at, number);

-- Organisations that are being copied here from another database, or were. The copy's rows have
-- their number here from its beginning; `organization` knows it when it is complete.
CREATE TABLE move (
    organization_id TEXT    PRIMARY KEY,
    number          INTEGER NOT NULL UNIQUE,
    state           TEXT    NOT NULL CHECK (state IN ('copying', 'stale', 'done')), -- stale: copy again
    table_name      TEXT,                              -- that was written last
    last_key        TEXT,                              -- of its last row, a JSON list
    changed_at      INTEGER NOT NULL
) STRICT;

-- What organisations did, by day in UTC.
CREATE TABLE usage_day (
    organization_id TEXT    NOT NULL REFERENCES organization (organization_id) ON DELETE CASCADE,
    day             TEXT    NOT NULL,                  -- as in 2026-01-31
    requests        INTEGER NOT NULL DEFAULT 0,
    searches        INTEGER NOT NULL DEFAULT 0,
    embedded_texts  INTEGER NOT NULL DEFAULT 0,
    bytes_stored    INTEGER NOT NULL DEFAULT 0,        -- that the quota counts, when last seen
    messages        INTEGER NOT NULL DEFAULT 0,        -- appended and captured
    PRIMARY KEY (organization_id, day)
) STRICT, WITHOUT ROWID;

-- Requests of keys, by day in UTC.
CREATE TABLE key_day (
    organization_id TEXT    NOT NULL REFERENCES organization (organization_id) ON DELETE CASCADE,
    key_id          TEXT    NOT NULL REFERENCES api_key (key_id) ON DELETE CASCADE,
    day             TEXT    NOT NULL,                  -- as in 2026-01-31
    requests        INTEGER NOT NULL,
    PRIMARY KEY (organization_id, key_id, day)
) STRICT, WITHOUT ROWID;

CREATE INDEX key_day_key ON key_day (key_id);

-- What the file knows of its own history, which its mark beside it repeats. One row.
CREATE TABLE meta (
    number   INTEGER PRIMARY KEY CHECK (number = 1),
    file_id  BLOB,                                     -- random; NULL until it has a mark
    commits  INTEGER NOT NULL DEFAULT 0,               -- that changed anything
    appended INTEGER NOT NULL DEFAULT 0,               -- audit rows
    chain    BLOB    NOT NULL DEFAULT x''              -- SHA-256 over the one before and the audit rows since
) STRICT;
