-- Conversations that are removed in steps: nobody finds, lists or reads them any more.
CREATE TABLE leaving (
    conversation    INTEGER PRIMARY KEY REFERENCES conversation (number) ON DELETE CASCADE,
    organization_id INTEGER NOT NULL,
    erasure         TEXT                                -- that removes it; NULL: a deletion
) STRICT;

-- Erasures and their receipts. Nothing says any more what was erased once it is gone.
CREATE TABLE erasure (
    id                TEXT    PRIMARY KEY,
    organization_id   INTEGER NOT NULL,
    scope             TEXT    NOT NULL CHECK (scope IN ('conversation', 'project', 'subject')),
    value             TEXT,                             -- NULL: it is gone from every table
    state             TEXT    NOT NULL CHECK (state IN
        ('hiding', 'removing', 'rewriting', 'finished')),
    actor             TEXT    NOT NULL,
    requested_at      INTEGER NOT NULL,
    finished_at       INTEGER,
    last_conversation INTEGER NOT NULL,                 -- what is stored later stays
    last_memory       INTEGER NOT NULL,
    removed           TEXT    NOT NULL,                 -- JSON: how many of each kind
    files             TEXT    NOT NULL,                 -- JSON: names of files written anew
    row_hash          BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- Ids that an erasure has removed, until it has looked for them beside the database.
CREATE TABLE erased (
    erasure         TEXT    NOT NULL REFERENCES erasure (id) ON DELETE CASCADE,
    id              TEXT    NOT NULL,
    organization_id INTEGER NOT NULL,
    PRIMARY KEY (erasure, id)
) STRICT, WITHOUT ROWID;

-- A dictionary quotes the texts it was trained on: it goes with them, once nothing is compressed with it.
ALTER TABLE dictionary ADD COLUMN is_retired INTEGER NOT NULL DEFAULT 0 CHECK (is_retired IN (0, 1));
