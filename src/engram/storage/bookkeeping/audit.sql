-- find_names --
-- Returns name and number of those of an entry's names that exist.
SELECT name, number FROM audit_name
WHERE organization_id = :organization_id AND name IN (:actor, :action, :subject);

-- add_name --
-- Returns the number of the new name.
INSERT INTO audit_name (organization_id, name) VALUES (:organization_id, :name) RETURNING number;

-- add_audit --
-- Returns when it was written down: `now`, or past the newest row where `now` is taken.
INSERT INTO audit (at, organization_id, actor, action, subject, details)
SELECT
    CASE WHEN EXISTS
        (SELECT 1 FROM audit WHERE organization_id = :organization_id AND at = :now)
    THEN (SELECT max(at) + 1 FROM audit WHERE organization_id = :organization_id)
    ELSE :now END,
    :organization_id, :actor, :action, :subject, :details
RETURNING at;

-- list_audit --
-- Returns at, actor, action, subject, details of the newest rows older than `before`.
SELECT at, actor_name.name, action_name.name, subject_name.name, details
FROM audit
JOIN audit_name AS actor_name
    ON actor_name.organization_id = :organization_id AND actor_name.number = actor
JOIN audit_name AS action_name
    ON action_name.organization_id = :organization_id AND action_name.number = action
LEFT JOIN audit_name AS subject_name
    ON subject_name.organization_id = :organization_id AND subject_name.number = subject
WHERE audit.organization_id = :organization_id AND at < :before
ORDER BY at DESC
LIMIT :limit;
