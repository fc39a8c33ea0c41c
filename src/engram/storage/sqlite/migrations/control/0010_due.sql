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

INSERT INTO due (organization_id, kind, due_at, token)
SELECT organization.organization_id, kind.value, 0, 0
FROM organization CROSS JOIN json_each('["vectors", "documents", "erasing", "jobs", "scrub"]') AS kind
WHERE has_file = 1;
