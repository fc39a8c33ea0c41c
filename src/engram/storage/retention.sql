-- list_rules --
-- Returns the columns of `RetentionRule`, by id.
SELECT id, kind, project, source, keep_days, created_at, actor FROM retention_rule
WHERE organization_id = :organization_id
ORDER BY id;

-- add_rule --
INSERT INTO retention_rule
    (organization_id, id, kind, project, source, keep_days, created_at, actor, row_hash)
VALUES
    (:organization_id, :id, :kind, :project, :source, :keep_days, :created_at, :actor, :row_hash);

-- remove_rule --
DELETE FROM retention_rule WHERE organization_id = :organization_id AND id = :id;

-- old_conversations --
-- Returns number, id, project, agent, last change and messages of the next conversations after one that
-- have not changed since a time, by their last change.
SELECT number, id, project, agent_id, updated_at, message_count FROM conversation
WHERE organization_id = :organization_id AND number < 4294967296 AND updated_at <= :before
    AND (updated_at, number) > (:after_at, :after)
ORDER BY updated_at, number LIMIT :limit;

-- old_memories --
-- Returns number, id, project, source, last change, whether it is a document and immutable, of the next
-- memories after one that have not changed since a time, in the order of storing.
SELECT number, id, project, source, updated_at,
    CASE WHEN document_id IS NULL THEN 0 ELSE 1 END, immutable
FROM memory /*sqlite:*/ NOT INDEXED /*postgres: */
WHERE organization_id = :organization_id AND number > :after AND updated_at <= :before
ORDER BY number LIMIT :limit;
