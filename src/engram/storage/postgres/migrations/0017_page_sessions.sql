-- Browsers that are signed in, and one-time links that sign one in. They end with their key.
CREATE TABLE page_session (
    secret_hash     text   COLLATE "C" PRIMARY KEY,         -- SHA-256 in hex; the secret is not kept
    kind            text   COLLATE "C" NOT NULL CHECK (kind IN ('link', 'session')),
    organization_id text   COLLATE "C"
        REFERENCES organization (organization_id) ON DELETE CASCADE,
    key_id          text   COLLATE "C" REFERENCES api_key (key_id) ON DELETE CASCADE, -- NULL: local, or an operator
    actor           text   COLLATE "C" NOT NULL,
    operator_hash   text   COLLATE "C",                     -- SHA-256 of the operator's token, in hex
    created_at      bigint NOT NULL,
    expires_at      bigint NOT NULL
);

CREATE INDEX page_session_organization ON page_session (organization_id);
CREATE INDEX page_session_key ON page_session (key_id);

ALTER TABLE page_session ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON page_session
    USING (current_setting('engram.control', true) = 'all')
    WITH CHECK (current_setting('engram.control', true) = 'all');

GRANT SELECT, INSERT, UPDATE, DELETE ON page_session TO engram_app;
