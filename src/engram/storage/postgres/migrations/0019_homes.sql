-- Homes: databases beside this one that have the rows of some organisations.
CREATE TABLE home (
    name     text   COLLATE "C" PRIMARY KEY,
    url      text   COLLATE "C" NOT NULL,                   -- as it was given, with its password
    added_at bigint NOT NULL
);

ALTER TABLE organization
    ADD COLUMN home       text COLLATE "C" REFERENCES home (name), -- NULL: this database
    ADD COLUMN row_number bigint UNIQUE;                    -- that its rows have, if it was moved

CREATE INDEX organization_home ON organization (home);

-- Moves of organisations to other homes that are not finished.
CREATE TABLE relocation (
    organization_id text   COLLATE "C" PRIMARY KEY
        REFERENCES organization (organization_id) ON DELETE CASCADE,
    number          bigint NOT NULL UNIQUE,                 -- that its rows have there
    home            text   COLLATE "C" REFERENCES home (name), -- NULL: this database
    former_number   bigint NOT NULL,                        -- that they have, or had, where it was
    former_home     text   COLLATE "C" REFERENCES home (name),
    began_at        bigint NOT NULL
);

CREATE INDEX relocation_home ON relocation (home);
CREATE INDEX relocation_former_home ON relocation (former_home);

-- The home whose own list of removals is to have this one; NULL: it is this database.
ALTER TABLE removal ADD COLUMN home text COLLATE "C" REFERENCES home (name);

CREATE INDEX removal_home ON removal (home);

-- What this database is to others.
ALTER TABLE control_state
    ADD COLUMN installation text COLLATE "C",               -- random name; NULL without homes
    ADD COLUMN home_of      text COLLATE "C";               -- whose home this is, and which

-- The seal of an organisation that is at another home now: this row stays, and is_deleted is 1.
ALTER TABLE meta
    ADD COLUMN moved_to     text COLLATE "C",
    ADD COLUMN moved_number bigint;                         -- that its rows have there

ALTER TABLE home ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON home
    USING (current_setting('engram.control', true) = 'all')
    WITH CHECK (current_setting('engram.control', true) = 'all');

ALTER TABLE relocation ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON relocation
    USING (current_setting('engram.control', true) = 'all')
    WITH CHECK (current_setting('engram.control', true) = 'all');

GRANT SELECT, INSERT, UPDATE, DELETE ON home, relocation TO engram_app;
