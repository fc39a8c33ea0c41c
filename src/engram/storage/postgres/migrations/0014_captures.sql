-- Which message of a source each captured message is, so that none is stored twice.
CREATE TABLE captured_message (
    organization_id bigint NOT NULL,
    conversation    bigint NOT NULL,
    identity        text   COLLATE "C" NOT NULL,            -- derived from the source's own id
    sequence        bigint NOT NULL,
    row_hash        bytea  NOT NULL,
    PRIMARY KEY (organization_id, conversation, identity),
    FOREIGN KEY (organization_id, conversation)
        REFERENCES conversation (organization_id, number) ON DELETE CASCADE
);

-- Captured conversations that were deleted; they are not captured again.
CREATE TABLE forgotten_session (
    organization_id bigint NOT NULL,
    id              text   COLLATE "C" NOT NULL,            -- of the conversation
    forgotten_at    bigint NOT NULL,
    actor           text   COLLATE "C" NOT NULL,
    row_hash        bytea  NOT NULL,
    PRIMARY KEY (organization_id, id)
);

ALTER TABLE captured_message ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON captured_message
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE forgotten_session ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON forgotten_session
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

GRANT SELECT, INSERT, UPDATE, DELETE ON captured_message, forgotten_session TO engram_app;
