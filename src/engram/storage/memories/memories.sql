-- A memory's present text is the message with the key `(record << 24) + 1` (`model/row_keys.py`).

-- find_memory --
-- Returns the number of the memory with that public id.
SELECT number FROM memory
WHERE organization_id = :organization_id AND id = :id;

-- get_version --
SELECT version FROM memory WHERE organization_id = :organization_id AND number = :number;

-- find_memories --
-- Returns the numbers of those that exist among the ids of a JSON list.
SELECT number FROM memory
WHERE +organization_id = :organization_id AND id IN (SELECT value FROM json_each(:ids));

-- load_memories --
-- Returns all that a memory shows, of those that exist among the numbers of a JSON list. The text
-- of one that is not searched is in the version before.
SELECT memory.number, memory.id, memory.record, memory.version, memory.created_at,
    memory.updated_at, memory.sha256, memory.project, memory.memory_type, memory.category,
    memory.source, memory.importance, memory.tags, memory.immutable, memory.episode_id,
    memory.pattern_confidence, memory.valid_from, memory.valid_to, memory.expires_at,
    memory.storage_mode, memory.document_id, memory.reason, memory.summary, message.created_at,
    coalesce(message.content_encoding, memory_version.content_encoding),
    CAST(coalesce(message.content, memory_version.content) AS BLOB)
FROM memory NOT INDEXED
LEFT JOIN message
    ON message.organization_id = :organization_id AND message.key = (memory.record << 24) + 1
LEFT JOIN memory_version
    ON memory_version.organization_id = :organization_id AND memory.record IS NULL
    AND memory_version.memory = memory.number AND memory_version.version = memory.version - 1
WHERE memory.organization_id = :organization_id
    AND memory.number IN (SELECT value FROM json_each(:numbers));

-- load_versions --
-- Returns all that the former versions of a memory show, oldest first.
SELECT version, change, actor, recorded_at, ended_at, fields, sha256,
    content_encoding, CAST(content AS BLOB)
FROM memory_version
WHERE organization_id = :organization_id AND memory = :number
ORDER BY version;

-- load_version --
-- Returns id and creation of a memory, and the columns of `load_versions` of one version; a text
-- that it shares is that of a later version or of the record.
SELECT memory.id, memory.created_at, was.version, was.change, was.actor, was.recorded_at,
    was.ended_at, was.fields, was.sha256,
    coalesce(later.content_encoding, message.content_encoding),
    CAST(coalesce(later.content, message.content) AS BLOB)
FROM memory_version AS was
JOIN memory ON memory.organization_id = :organization_id AND memory.number = was.memory
LEFT JOIN memory_version AS later
    ON later.organization_id = :organization_id AND later.memory = was.memory
    AND later.version =
        (SELECT min(version) FROM memory_version
         WHERE organization_id = :organization_id AND memory = :number
             AND version >= :version AND content IS NOT NULL)
LEFT JOIN message
    ON message.organization_id = :organization_id AND message.key = (memory.record << 24) + 1
WHERE was.organization_id = :organization_id AND was.memory = :number AND was.version = :version;

-- list_memories --
-- Returns the numbers of one page, the last stored first. The conditions are put in from below, and
-- how to walk from `by_number`, unless one project's index gives the order.
SELECT number FROM memory /*by_number*/
WHERE organization_id = :organization_id /*conditions*/
ORDER BY number DESC
LIMIT :limit OFFSET :offset;

-- by_number --
NOT INDEXED

-- count_memories --
-- Returns how many memories meet the conditions.
SELECT count(*) FROM memory
WHERE organization_id = :organization_id /*conditions*/;

-- count_out_of_time --
-- Returns how many searched memories have expired, or do not hold now.
SELECT count(*) FROM memory
WHERE organization_id = :organization_id AND record IS NOT NULL
    AND (valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires_at IS NOT NULL)
    AND (expires_at <= :now OR valid_from > :now OR valid_to <= :now);

-- scan_memories --
-- Returns the numbers of the next memories after a number, in the order of storing.
SELECT number FROM memory /*by_number*/
WHERE organization_id = :organization_id AND number > :after /*conditions*/
ORDER BY number
LIMIT :limit;

-- is_searched --
AND record IS NOT NULL

-- is_in_time --
-- It has not expired, and it holds now.
AND (expires_at IS NULL OR expires_at > :now)
AND (valid_from IS NULL OR valid_from <= :now)
AND (valid_to IS NULL OR valid_to > :now)

-- is_in_project --
AND project = :one_project

-- is_in_projects --
AND project IN (SELECT value FROM json_each(:projects))

-- is_of_types --
AND memory_type IN (SELECT value FROM json_each(:memory_types))

-- is_of_categories --
AND category IN (SELECT value FROM json_each(:categories))

-- is_from_sources --
AND source IN (SELECT value FROM json_each(:sources))

-- has_any_tag --
AND EXISTS
    (SELECT 1 FROM
        /*sqlite:*/ json_each(memory.tags) /*postgres: json_array_elements_text(memory.tags::json) */
     WHERE value IN (SELECT value FROM json_each(:tags)))

-- is_important --
AND importance <= :importance_max

-- is_of_episode --
AND episode_id = :episode_id

-- is_stored_as --
AND storage_mode = :storage_mode

-- is_one_of --
AND id IN (SELECT value FROM json_each(:ids))

-- find_duplicate --
-- Returns the id of the first memory with that text that is searched now.
SELECT id FROM memory
WHERE organization_id = :organization_id AND sha256 = :sha256 AND record IS NOT NULL
    AND project = :project AND category = :category
    AND (expires_at IS NULL OR expires_at > :now)
    AND (valid_to IS NULL OR valid_to > :now)
ORDER BY number
LIMIT 1;

-- missing_episodes --
-- Returns those of a JSON list of ids that are no episodes.
SELECT value FROM
    /*sqlite:*/ json_each(:ids) /*postgres: json_array_elements_text(:ids::json) */ AS given
WHERE NOT EXISTS
    (SELECT 1 FROM episode WHERE organization_id = :organization_id AND id = given.value);

-- add_memory --
INSERT INTO memory
    (organization_id, id, record, project, memory_type, category, source, importance, tags,
     immutable, episode_id, pattern_confidence, valid_from, valid_to, expires_at, storage_mode,
     sha256, created_at, updated_at)
VALUES
    (:organization_id, :id, :record, :project, :memory_type, :category, :source, :importance, :tags,
     :immutable, :episode_id, :pattern_confidence, :valid_from, :valid_to, :expires_at, 'focused',
     :sha256, :now, :now);

-- add_version --
-- Keeps what a memory is, but for its text: that stays where it is.
INSERT INTO memory_version
    (memory, version, organization_id, change, actor, recorded_at, ended_at, fields, sha256)
VALUES
    (:number, :version, :organization_id, :change, :actor, :recorded_at, :now, :fields, :sha256);

-- keep_text --
-- Gives a version the text of a record as it is stored.
UPDATE memory_version
SET content_bytes = conversation.content_bytes,
    content_encoding = coalesce(message.content_encoding, 'raw'),
    content = message.content
FROM conversation JOIN message
    ON message.organization_id = :organization_id AND message.key = (:record << 24) + 1
WHERE memory_version.organization_id = :organization_id
    AND memory_version.memory = :number AND memory_version.version = :version
    AND conversation.organization_id = :organization_id AND conversation.number = :record;

-- get_version_fields --
SELECT fields FROM memory_version
WHERE organization_id = :organization_id AND memory = :number AND version = :version;

-- release_text --
-- Takes the text from a version: the record has it again.
UPDATE memory_version SET content_bytes = 0, content_encoding = NULL, content = NULL
WHERE organization_id = :organization_id AND memory = :number AND version = :version;

-- put_record --
-- NULL for `record` takes a memory out of the search.
UPDATE memory SET record = :record
WHERE organization_id = :organization_id AND number = :number;

-- change_memory --
-- A summary is of one text: it goes with it.
UPDATE memory SET
    memory_type = :memory_type, category = :category, importance = :importance, tags = :tags,
    pattern_confidence = :pattern_confidence, valid_from = :valid_from, valid_to = :valid_to,
    expires_at = :expires_at, sha256 = :sha256,
    summary = CASE WHEN sha256 = :sha256 THEN summary END,
    version = version + 1, updated_at = :now
WHERE organization_id = :organization_id AND number = :number;

-- forget_memory --
-- Takes a memory out of the search and ends its validity.
UPDATE memory SET
    record = NULL, valid_to = :valid_to, reason = :reason,
    version = version + 1, updated_at = :now
WHERE organization_id = :organization_id AND number = :number;

-- restore_memory --
UPDATE memory SET
    record = :record, valid_to = :valid_to, reason = :reason,
    version = version + 1, updated_at = :now
WHERE organization_id = :organization_id AND number = :number;

-- put_summary --
UPDATE memory SET summary = :summary
WHERE organization_id = :organization_id AND number = :number;

-- content_bytes_of --
-- Returns the bytes of all texts of a memory: its record's and its versions'.
SELECT
    (SELECT coalesce(sum(content_bytes), 0) FROM conversation
     WHERE organization_id = :organization_id AND number = :record)
    + (SELECT coalesce(sum(content_bytes), 0) FROM memory_version
       WHERE organization_id = :organization_id AND memory = :number);

-- find_tombstone --
-- Returns id, hash, moment and actor.
SELECT id, sha256, removed_at, actor FROM tombstone
WHERE organization_id = :organization_id AND id = :id;

-- add_tombstone --
INSERT INTO tombstone (id, organization_id, sha256, removed_at, actor)
VALUES (:id, :organization_id, :sha256, :now, :actor);

-- delete_memory --
-- Its versions, relations and feedback go with it.
DELETE FROM memory WHERE organization_id = :organization_id AND number = :number;

-- last_of_project --
-- Returns the number of the last memory of a project, if it has any.
SELECT max(number) FROM memory
WHERE organization_id = :organization_id AND project = :project;

-- first_of_project --
-- Returns the numbers of some memories of a project up to a number, the first ones first.
SELECT number FROM memory
WHERE organization_id = :organization_id AND project = :project AND number <= :upto
ORDER BY number
LIMIT :limit;

-- documents_of --
-- Returns the documents of those of a JSON list of numbers that are searched and own one.
SELECT document_id FROM memory NOT INDEXED
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers))
    AND record IS NOT NULL AND document_id IS NOT NULL;

-- leave_episodes --
-- Memories of other projects may belong to a project's episodes.
UPDATE memory SET episode_id = NULL
WHERE organization_id = :organization_id AND episode_id IN
    (SELECT episode.id FROM episode
     WHERE episode.organization_id = :organization_id AND episode.project = :project);

-- delete_episodes --
DELETE FROM episode WHERE organization_id = :organization_id AND project = :project;
