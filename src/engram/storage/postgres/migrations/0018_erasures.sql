-- Conversations that are removed in steps: nobody finds, lists or reads them any more.
CREATE TABLE leaving (
    organization_id bigint NOT NULL,
    conversation    bigint NOT NULL,
    erasure         text   COLLATE "C",                     -- that removes it; NULL: a deletion
    PRIMARY KEY (organization_id, conversation),
    FOREIGN KEY (organization_id, conversation)
        REFERENCES conversation (organization_id, number) ON DELETE CASCADE
);

-- Erasures and their receipts. Nothing says any more what was erased once it is gone.
CREATE TABLE erasure (
    organization_id   bigint NOT NULL,
    id                text   COLLATE "C" NOT NULL,
    scope             text   COLLATE "C" NOT NULL
        CHECK (scope IN ('conversation', 'project', 'subject')),
    value             text   COLLATE "C",                   -- NULL: it is gone from every table
    state             text   COLLATE "C" NOT NULL
        CHECK (state IN ('hiding', 'removing', 'rewriting', 'finished')),
    actor             text   COLLATE "C" NOT NULL,
    requested_at      bigint NOT NULL,
    finished_at       bigint,
    last_conversation bigint NOT NULL,                      -- what is stored later stays
    last_memory       bigint NOT NULL,
    removed           text   COLLATE "C" NOT NULL,          -- JSON: how many of each kind
    files             text   COLLATE "C" NOT NULL,          -- JSON: names of files written anew
    row_hash          bytea  NOT NULL,
    PRIMARY KEY (organization_id, id)
);

-- Ids that an erasure has removed, until it has looked for them beside the database.
CREATE TABLE erased (
    organization_id bigint NOT NULL,
    erasure         text   COLLATE "C" NOT NULL,
    id              text   COLLATE "C" NOT NULL,
    PRIMARY KEY (organization_id, erasure, id),
    FOREIGN KEY (organization_id, erasure)
        REFERENCES erasure (organization_id, id) ON DELETE CASCADE
);

ALTER TABLE leaving ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON leaving
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE erasure ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON erasure
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE erased ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON erased
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

GRANT SELECT, INSERT, UPDATE, DELETE ON leaving, erasure, erased TO engram_app;

-- A dictionary quotes the texts it was trained on: it goes with them, once nothing is compressed with it.
ALTER TABLE dictionary ADD COLUMN is_retired bigint NOT NULL DEFAULT 0 CHECK (is_retired IN (0, 1));
