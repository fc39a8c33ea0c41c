-- find_hold --
-- Returns id and reason of a legal hold on something, if there is one.
SELECT id, reason FROM legal_hold
WHERE organization_id = :organization_id
    AND (subject IS NULL OR subject = :subject)
    AND (kind IS NULL OR kind = :kind)
    AND (project IS NULL OR project = :project)
    AND (source IS NULL OR source = :source)
ORDER BY created_at, id LIMIT 1;

-- find_thing --
-- Returns a row if there is a conversation or memory with an id, or one in the trash.
SELECT 1 FROM conversation WHERE organization_id = :organization_id AND id = :id
UNION ALL
SELECT 1 FROM memory WHERE organization_id = :organization_id AND id = :id
UNION ALL
SELECT 1 FROM trash WHERE organization_id = :organization_id AND id = :id;

-- has_holds --
SELECT 1 FROM legal_hold WHERE organization_id = :organization_id LIMIT 1;

-- list_holds --
-- Returns the columns of `LegalHold`, the first placed first.
SELECT id, reason, subject, kind, project, source, created_at, actor FROM legal_hold
WHERE organization_id = :organization_id
ORDER BY created_at, id;

-- add_hold --
INSERT INTO legal_hold
    (organization_id, id, reason, subject, kind, project, source, created_at, actor, row_hash)
VALUES
    (:organization_id, :id, :reason, :subject, :kind, :project, :source, :created_at, :actor,
     :row_hash);

-- lift_hold --
DELETE FROM legal_hold WHERE organization_id = :organization_id AND id = :id;
