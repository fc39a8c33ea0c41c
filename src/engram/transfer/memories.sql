-- existing_ids --
-- Returns id and whether it was purged, of those of a JSON list that are or were memories here.
SELECT id, 0 FROM memory
WHERE +organization_id = :organization_id AND id IN (SELECT value FROM json_each(:ids))
UNION ALL
SELECT id, 1 FROM tombstone
WHERE +organization_id = :organization_id AND id IN (SELECT value FROM json_each(:ids));

-- import_version --
INSERT INTO memory_version
    (memory, version, organization_id, change, actor, recorded_at, ended_at, fields, sha256,
     content_bytes, content_encoding, content, row_hash)
VALUES
    (:memory, :version, :organization_id, :change, :actor, :recorded_at, :ended_at, :fields, :sha256,
     :content_bytes, :content_encoding, :content, :row_hash);

-- import_relation --
-- Returns a row if it is new.
INSERT INTO relation
    (source, target, relation_type, organization_id, strength, created_at, row_hash)
VALUES
    (:source, :target, :relation_type, :organization_id, :strength, :created_at, :row_hash)
ON CONFLICT DO NOTHING
RETURNING 1;

-- outgoing_relations --
-- Returns source, target, type, strength and time of all that begin at the memories of a JSON list.
SELECT source, target, relation_type, strength, created_at FROM relation
WHERE +organization_id = :organization_id
    AND source IN (SELECT value FROM json_each(:numbers))
ORDER BY source, target, relation_type;

-- import_episode --
-- Returns a row if it is new.
INSERT INTO episode
    (id, organization_id, project, description, started_at, ended_at, summary, row_hash)
VALUES
    (:id, :organization_id, :project, :description, :started_at, :ended_at, :summary, :row_hash)
ON CONFLICT DO NOTHING
RETURNING 1;

-- scan_episodes --
-- Returns the columns of `get_episode` of the next episodes after an id. The conditions are put in
-- from below.
SELECT id, project, description, started_at, ended_at, summary,
    (SELECT count(record) FROM memory
     WHERE memory.organization_id = :organization_id AND memory.episode_id = episode.id)
FROM episode
WHERE organization_id = :organization_id AND id > :after /*conditions*/
ORDER BY id
LIMIT :limit;

-- is_episode_of_project --
AND (project = :project OR EXISTS
    (SELECT 1 FROM memory WHERE memory.organization_id = :organization_id
        AND memory.episode_id = episode.id AND memory.project = :project))
