-- start_episode --
INSERT INTO episode (id, organization_id, project, description, started_at)
VALUES (:id, :organization_id, :project, :description, :now);

-- end_episode --
-- An end stays where it is. Returns a row if there is such an episode.
UPDATE episode SET
    ended_at = coalesce(ended_at, :now),
    summary = coalesce(:summary, summary)
WHERE organization_id = :organization_id AND id = :id
RETURNING 1;

-- get_episode --
-- Returns id, project, description, start, end, summary and how many memories are searched in it.
SELECT id, project, description, started_at, ended_at, summary,
    (SELECT count(record) FROM memory
     WHERE memory.organization_id = :organization_id AND memory.episode_id = episode.id)
FROM episode
WHERE organization_id = :organization_id AND id = :id;

-- list_episodes --
-- Returns the same columns of a project's episodes, the last begun first.
SELECT id, project, description, started_at, ended_at, summary,
    (SELECT count(record) FROM memory
     WHERE memory.organization_id = :organization_id AND memory.episode_id = episode.id)
FROM episode
WHERE organization_id = :organization_id AND project = :project
ORDER BY started_at DESC, id DESC
LIMIT :limit;
