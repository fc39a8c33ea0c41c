CREATE TABLE embedder (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL,
    role            TEXT    NOT NULL CHECK (role IN ('instant', 'deep', 'next', 'old')),
    identity        TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX embedder_role ON embedder (organization_id, role) WHERE role <> 'old';

CREATE TABLE instant_vector (
    seq             INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    embedder        INTEGER NOT NULL REFERENCES embedder (number),
    key             INTEGER NOT NULL,
    start_character INTEGER NOT NULL,
    end_character   INTEGER NOT NULL,
    content         BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX instant_vector_owner ON instant_vector (key, start_character);

CREATE TABLE vector (
    seq             INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    embedder        INTEGER NOT NULL REFERENCES embedder (number),
    key             INTEGER NOT NULL,
    start_character INTEGER NOT NULL,
    end_character   INTEGER NOT NULL,
    content         BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX vector_owner ON vector (key, embedder, start_character);

CREATE TABLE vector_removal (
    seq             INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    first_key       INTEGER NOT NULL,
    last_key        INTEGER NOT NULL
) STRICT;

CREATE TABLE unembedded (
    number          INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    key             INTEGER NOT NULL UNIQUE,
    attempts        INTEGER NOT NULL DEFAULT 0,
    available_at    INTEGER NOT NULL DEFAULT 0,
    lease_owner     TEXT,
    lease_until     INTEGER,
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

CREATE TABLE vector_state (
    organization_id INTEGER PRIMARY KEY,
    seq             INTEGER NOT NULL DEFAULT 0,
    forgotten       INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO vector_state (organization_id) SELECT organization_id FROM upkeep;
