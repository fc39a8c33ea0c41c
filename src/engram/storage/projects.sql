-- list_project_rules --
-- Returns project, same_as, created_at and actor of every rule, by project.
SELECT project, same_as, created_at, actor FROM project_rule
WHERE organization_id = :organization_id
ORDER BY project;

-- add_project_rule --
INSERT INTO project_rule (organization_id, project, same_as, created_at, actor, row_hash)
VALUES (:organization_id, :project, :same_as, :created_at, :actor, :row_hash);

-- remove_project_rule --
DELETE FROM project_rule WHERE organization_id = :organization_id AND project = :project;

-- remove_aliases_with --
-- Removes the aliases that a project has or is.
DELETE FROM project_rule
WHERE organization_id = :organization_id
    AND (same_as = :project OR (project = :project AND same_as IS NOT NULL));

-- conversations_in --
-- Returns number, id and agent of the next conversations of a project after one, all or some of them.
SELECT number, id, agent_id FROM conversation
WHERE organization_id = :organization_id AND project = :project
    AND number > :after AND number < 4294967296
    AND (:any = 1 OR id IN (SELECT value FROM json_each(:ids)))
ORDER BY number LIMIT :limit;

-- memories_in --
-- Returns number, id, source, record and whether it is a document, of the next memories in the same way.
SELECT number, id, source, record, CASE WHEN document_id IS NULL THEN 0 ELSE 1 END FROM memory
WHERE organization_id = :organization_id AND project = :project AND number > :after
    AND (:any = 1 OR id IN (SELECT value FROM json_each(:ids)))
ORDER BY number LIMIT :limit;

-- episodes_in --
-- Returns the ids of some episodes of a project, all or some of them.
SELECT id FROM episode
WHERE organization_id = :organization_id AND project = :project
    AND (:any = 1 OR id IN (SELECT value FROM json_each(:ids)))
ORDER BY id LIMIT :limit;

-- move_memory --
UPDATE memory SET project = :project
WHERE organization_id = :organization_id AND number = :number;

-- move_episode --
UPDATE episode SET project = :project WHERE organization_id = :organization_id AND id = :id;

-- add_change_set --
INSERT INTO change_set (organization_id, id, at, actor, kind, items)
VALUES (:organization_id, :id, :at, :actor, :kind, :items);

-- drop_old_change_sets --
DELETE FROM change_set
WHERE organization_id = :organization_id AND id NOT IN
    (SELECT id FROM change_set WHERE organization_id = :organization_id
     ORDER BY at DESC, id DESC LIMIT :kept);

-- get_change_set --
-- Returns kind, time, actor and items of what can be taken back.
SELECT kind, at, actor, items FROM change_set
WHERE organization_id = :organization_id AND id = :id;

-- list_change_sets --
-- Returns id and items of everything that can be taken back.
SELECT id, items FROM change_set WHERE organization_id = :organization_id ORDER BY id;

-- change_change_set --
UPDATE change_set SET items = :items WHERE organization_id = :organization_id AND id = :id;

-- remove_change_set --
DELETE FROM change_set WHERE organization_id = :organization_id AND id = :id;
