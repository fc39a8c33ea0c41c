-- When organisations have background work next. It is written with the work, and claimed from here.
CREATE TABLE due (
    organization_id bigint NOT NULL,
    kind            text   COLLATE "C" NOT NULL,
    due_at          bigint NOT NULL,
    lease_until     bigint,
    PRIMARY KEY (organization_id, kind)
);

CREATE INDEX due_at ON due (due_at);

-- Everything that exists is looked at once. The owner of the tables sees no rows of organisations without this.
ALTER TABLE meta NO FORCE ROW LEVEL SECURITY;
INSERT INTO due (organization_id, kind, due_at)
SELECT organization_id, kind, 0
FROM meta CROSS JOIN unnest(ARRAY['vectors', 'documents', 'erasing', 'jobs', 'scrub']) AS kind
WHERE is_deleted = 0;
ALTER TABLE meta FORCE ROW LEVEL SECURITY;

ALTER TABLE due ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON due
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

-- Processes look for due work in all organisations, and claim it in each.
CREATE POLICY in_reach ON due FOR SELECT
    USING (current_setting('engram.control', true) = 'all');

GRANT SELECT, INSERT, UPDATE, DELETE ON due TO engram_app;
