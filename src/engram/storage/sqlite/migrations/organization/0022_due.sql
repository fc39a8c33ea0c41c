-- When there is background work next; the control file lists the same.
CREATE TABLE due (
    organization_id INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    due_at          INTEGER NOT NULL,
    PRIMARY KEY (organization_id, kind)
) STRICT, WITHOUT ROWID;

INSERT INTO due (organization_id, kind, due_at)
SELECT meta.organization_id, kind.value, 0
FROM meta CROSS JOIN json_each('["vectors", "documents", "erasing", "jobs", "scrub"]') AS kind;
