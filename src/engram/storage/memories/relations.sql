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
-- Returns source, target, type, strength and time of the strongest relations, in both directions, between
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

-- memory_ids --
-- Returns number and public id of those that exist among the numbers of a JSON list.
SELECT number, id FROM memory NOT INDEXED
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers));

-- change_feedback --
-- Replaces what was said of a memory for the same event; returns a row if anything was.
UPDATE feedback SET
    helpful = :helpful, failure_class = :failure_class, actor = :actor, created_at = :now
WHERE organization_id = :organization_id AND memory = :memory AND event_id = :event_id
RETURNING number;

-- add_feedback --
-- Adds what was said of a memory; returns its number.
INSERT INTO feedback
    (memory, number, organization_id, helpful, event_id, failure_class, actor, created_at)
SELECT :memory,
    1 + (SELECT coalesce(max(number), 0) FROM feedback
         WHERE organization_id = :organization_id AND memory = :memory),
    :organization_id, :helpful, :event_id, :failure_class, :actor, :now
RETURNING number;

-- drop_feedback --
-- Removes what was said of a memory up to a number.
DELETE FROM feedback
WHERE organization_id = :organization_id AND memory = :memory AND number <= :upto;

-- count_feedback --
-- Returns each memory of a JSON list of which something was said, how often it helped, and how
-- often it did not.
SELECT memory, sum(helpful), sum(1 - helpful) FROM feedback
WHERE organization_id = :organization_id AND memory IN (SELECT value FROM json_each(:numbers))
GROUP BY memory;

-- start_episode --
-- An automatic episode has an end from the first, which each memory moves.
INSERT INTO episode (id, organization_id, project, description, started_at, ended_at)
VALUES (:id, :organization_id, :project, :description, :now, :ends_at);

-- open_episode --
-- Returns the id of the episode of a project that has this description and has not ended, if there is one.
SELECT id FROM episode
WHERE organization_id = :organization_id AND project = :project
    AND description = :description AND ended_at > :now
ORDER BY started_at DESC, id DESC
LIMIT 1;

-- extend_episode --
-- Moves the end of an episode; never back.
UPDATE episode SET ended_at = CASE WHEN ended_at < :ends_at THEN :ends_at ELSE ended_at END
WHERE organization_id = :organization_id AND id = :id;

-- open_episodes --
-- Returns the automatic episodes of any project that have this description and have not ended.
SELECT id FROM episode
WHERE organization_id = :organization_id AND description = :description AND ended_at > :now
ORDER BY id;

-- end_episode --
-- An episode that has ended keeps its end.
UPDATE episode SET
    ended_at = CASE
        WHEN ended_at <= :now THEN ended_at WHEN :now < started_at THEN started_at ELSE :now END,
    summary = coalesce(:summary, summary)
WHERE organization_id = :organization_id AND id = :id;

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
LIMIT :limit OFFSET :offset;
