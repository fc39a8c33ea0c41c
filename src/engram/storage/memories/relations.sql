-- change_relation --
-- Gives a relation another strength; returns when it was made, no row if there is none.
UPDATE relation SET strength = :strength
WHERE organization_id = :organization_id
    AND source = :source AND target = :target AND relation_type = :relation_type
RETURNING created_at;

-- add_relation --
-- Returns when it was made.
INSERT INTO relation (source, target, relation_type, organization_id, strength, created_at)
VALUES (:source, :target, :relation_type, :organization_id, :strength, :now)
RETURNING created_at;

-- remove_relation --
-- Returns a row if there was such a relation.
DELETE FROM relation
WHERE organization_id = :organization_id AND relation_type = :relation_type
    AND source =
        (SELECT number FROM memory WHERE organization_id = :organization_id AND id = :source_id)
    AND target =
        (SELECT number FROM memory WHERE organization_id = :organization_id AND id = :target_id)
RETURNING 1;

-- superseded_from --
-- Returns source and target of all that a memory supersedes, itself or through others.
WITH RECURSIVE step (source, target) AS (
    SELECT source, target FROM relation
    WHERE organization_id = :organization_id AND relation_type = 'supersedes' AND source = :start
    UNION
    SELECT relation.source, relation.target
    FROM step JOIN relation
        ON relation.organization_id = :organization_id
        AND relation.relation_type = 'supersedes'
        AND relation.source = step.target
)
SELECT source, target FROM step ORDER BY source, target;

-- next_relations --
-- Returns source, target, type, strength and moment of the strongest relations, either way, between
-- the memories of one JSON list and any that are not in the other. No strength puts a relation before
-- those that say of a memory in the list that it holds no longer, or that it is contradicted.
SELECT source, target, relation_type, strength, created_at FROM (
    SELECT source, target, relation_type, strength, created_at FROM relation
    WHERE organization_id = :organization_id
        AND source IN (SELECT value FROM json_each(:reached))
        AND target NOT IN (SELECT value FROM json_each(:nearer))
    UNION
    SELECT source, target, relation_type, strength, created_at FROM relation
    WHERE organization_id = :organization_id
        AND target IN (SELECT value FROM json_each(:reached))
        AND source NOT IN (SELECT value FROM json_each(:nearer))
)
ORDER BY
    CASE
        WHEN relation_type = 'supersedes' AND target IN (SELECT value FROM json_each(:reached)) THEN 0
        WHEN relation_type = 'contradicts' THEN 1
        ELSE 2
    END,
    strength DESC, source, target, relation_type
LIMIT :limit;

-- memory_numbers --
-- Returns number and public id of those that exist among the ids of a JSON list.
-- The plus keeps an index of all the organisation's memories from being preferred to that of ids.
SELECT number, id FROM memory
WHERE +organization_id = :organization_id AND id IN (SELECT value FROM json_each(:ids));

-- memory_ids --
-- Returns number and public id of those that exist among the numbers of a JSON list.
SELECT number, id FROM memory NOT INDEXED
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers));
