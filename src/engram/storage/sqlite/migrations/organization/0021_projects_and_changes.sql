-- What users say of projects: that a name stands for another project, or that nothing is kept.
CREATE TABLE project_rule (
    organization_id INTEGER NOT NULL,
    project         TEXT    NOT NULL,
    same_as         TEXT,                               -- NULL: nothing of it is kept
    created_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, project),
    CHECK (same_as <> project)
) STRICT, WITHOUT ROWID;

-- What acts on many things at once have changed, so that they can be taken back; the newest rows stay.
CREATE TABLE change_set (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    kind            TEXT    NOT NULL CHECK (kind IN ('importance', 'trash', 'merge')),
    items           TEXT    NOT NULL,                   -- a JSON object: ids, and what they were before
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX change_set_age ON change_set (organization_id, at);
