-- What was shown to agents without their asking; the newest rows stay.
CREATE TABLE delivery (
    organization_id bigint  NOT NULL,
    at              bigint  NOT NULL,                       -- one microsecond later when taken
    client          text    COLLATE "C" NOT NULL,
    session         text    COLLATE "C" NOT NULL,
    event           text    COLLATE "C" NOT NULL,
    query           text    COLLATE "C",                    -- its digest; NULL at the start of a session
    shown           text    COLLATE "C" NOT NULL,           -- JSON list of ids
    bytes           bigint  NOT NULL,
    tokens          bigint  NOT NULL,
    PRIMARY KEY (organization_id, at)
);

ALTER TABLE delivery ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON delivery
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

GRANT SELECT, INSERT, UPDATE, DELETE ON delivery TO engram_app;
