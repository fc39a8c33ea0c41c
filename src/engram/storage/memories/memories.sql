-- A memory's present text is the message with the key `(record << 24) + 1` (`model/row_keys.py`).

-- find_memory --
-- Returns the number of the memory with that public id.
SELECT number FROM memory
WHERE organization_id = :organization_id AND id = :id;

-- get_version --
-- Returns the version, and the project, which a merge of projects changes without a new version.
SELECT version, project FROM memory WHERE organization_id = :organization_id AND number = :number;

-- find_memories --
-- Returns id and number of those that exist among the ids of a JSON list. The plus keeps SQLite from
-- preferring an index of all the organisation's memories to that of ids.
SELECT id, number FROM memory
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
    CAST(coalesce(message.content, memory_version.content) AS BLOB), memory.row_hash
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
SELECT memory, version, change, actor, recorded_at, ended_at, fields, sha256,
    content_encoding, CAST(content AS BLOB), row_hash
FROM memory_version
WHERE organization_id = :organization_id AND memory = :number
ORDER BY version;

-- load_version --
-- Returns id and creation of a memory, and the columns of `load_versions` of one version; a text
-- that it shares is that of a later version or of the record.
SELECT memory.id, memory.created_at, was.memory, was.version, was.change, was.actor, was.recorded_at,
    was.ended_at, was.fields, was.sha256,
    coalesce(later.content_encoding, message.content_encoding),
    CAST(coalesce(later.content, message.content) AS BLOB), was.row_hash
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
-- Returns how many searched memories have expired, or are not valid now.
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
-- It has not expired, and is valid now.
AND (expires_at IS NULL OR expires_at > :now)
AND (valid_from IS NULL OR valid_from <= :now)
AND (valid_to IS NULL OR valid_to > :now)

-- is_out_of_time --
-- It was forgotten, has expired, or is not valid now.
AND (record IS NULL OR expires_at <= :now OR valid_from > :now OR valid_to <= :now)

-- has_any_tag --
AND EXISTS
    (SELECT 1 FROM
        /*sqlite:*/ json_each(memory.tags) /*postgres: json_array_elements_text(memory.tags::json) */
     WHERE value IN (SELECT value FROM json_each(:tags)))

-- find_duplicate --
-- Returns the id of the first memory of a project with that text that is searched now.
SELECT id FROM memory
WHERE organization_id = :organization_id AND sha256 = :sha256 AND record IS NOT NULL
    AND project = :project
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
-- Returns its number.
INSERT INTO memory
    (organization_id, id, record, project, memory_type, category, source, importance, tags,
     immutable, episode_id, pattern_confidence, valid_from, valid_to, expires_at, storage_mode,
     document_id, sha256, version, created_at, updated_at, reason, summary, row_hash)
VALUES
    (:organization_id, :id, :record, :project, :memory_type, :category, :source, :importance, :tags,
     :immutable, :episode_id, :pattern_confidence, :valid_from, :valid_to, :expires_at, :storage_mode,
     :document_id, :sha256, :version, :created_at, :updated_at, :reason, :summary, :row_hash)
RETURNING number;

-- add_version --
-- Stores the fields of a version; its text stays where it is.
INSERT INTO memory_version
    (memory, version, organization_id, change, actor, recorded_at, ended_at, fields, sha256, row_hash)
VALUES
    (:memory, :version, :organization_id, :change, :actor, :recorded_at, :ended_at, :fields, :sha256,
     :row_hash);

-- keep_text --
-- Copies the stored text of a record to a version.
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
-- Removes the text of a version: the record has it again.
UPDATE memory_version SET content_bytes = 0, content_encoding = NULL, content = NULL
WHERE organization_id = :organization_id AND memory = :number AND version = :version;

-- put_record --
-- NULL for `record` takes a memory out of the search.
UPDATE memory SET record = :record
WHERE organization_id = :organization_id AND number = :number;

-- change_memory --
-- The summary is dropped with the text that it is of.
UPDATE memory SET
    record = :record, project = :project, memory_type = :memory_type, category = :category, importance = :importance, tags = :tags,
    pattern_confidence = :pattern_confidence, valid_from = :valid_from, valid_to = :valid_to,
    expires_at = :expires_at, sha256 = :sha256,
    summary = CASE WHEN sha256 = :sha256 THEN summary END,
    version = version + 1, updated_at = :now
WHERE organization_id = :organization_id AND number = :number;

-- set_searched --
-- Takes a memory out of the search, with NULL for `record`, or back into it.
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
-- Returns id, hash, time and actor.
SELECT id, sha256, removed_at, actor FROM tombstone
WHERE organization_id = :organization_id AND id = :id;

-- add_tombstone --
INSERT INTO tombstone (id, organization_id, sha256, removed_at, actor, row_hash)
VALUES (:id, :organization_id, :sha256, :removed_at, :actor, :row_hash);

-- delete_memory --
-- Deletes its versions, relations and feedback too.
DELETE FROM memory WHERE organization_id = :organization_id AND number = :number;

-- things_of_project --
-- Returns id and source of the memories of a project, and whether each is a document.
SELECT id, source, CASE WHEN document_id IS NULL THEN 0 ELSE 1 END FROM memory
WHERE organization_id = :organization_id AND project = :project;

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

-- in_episodes --
-- Returns the numbers of memories in the episodes of a project; those of other projects may be, too.
SELECT number FROM memory
WHERE organization_id = :organization_id AND episode_id IN
    (SELECT episode.id FROM episode
     WHERE episode.organization_id = :organization_id AND episode.project = :project);

-- leave_episode --
UPDATE memory SET episode_id = NULL
WHERE organization_id = :organization_id AND number = :number;

-- delete_episodes --
DELETE FROM episode WHERE organization_id = :organization_id AND project = :project;

-- project_then --
-- The project that a memory was in at the time of a timeline.
coalesce(
    /*sqlite:*/ was.fields ->> 'project'
    /*postgres: was.fields::json ->> 'project' */, memory.project)

-- timeline --
-- Returns number, and version if it was not the present one, of the memories that were known and
-- valid at a time, the last stored first. Where clocks went back, the later version counts.
SELECT memory.number, was.version
FROM memory /*by_number*/ LEFT JOIN memory_version AS was
    ON was.organization_id = :organization_id AND was.memory = memory.number
    AND was.version =
        (SELECT max(version) FROM memory_version
         WHERE organization_id = :organization_id AND memory = memory.number
             AND recorded_at <= :as_of AND ended_at > :as_of AND memory.updated_at > :as_of)
WHERE memory.organization_id = :organization_id AND memory.created_at <= :as_of /*projects*/
    AND CASE WHEN was.version IS NULL THEN
        memory.record IS NOT NULL
        AND memory.updated_at <= :as_of
        AND coalesce(memory.valid_from <= :as_of, true)
        AND coalesce(memory.valid_to > :as_of, true)
        AND coalesce(memory.expires_at > :as_of, true)
    ELSE
        /*sqlite:*/ was.fields ->> 'is_searched'
        /*postgres: (was.fields::json ->> 'is_searched')::boolean */
        AND coalesce(
            /*sqlite:*/ was.fields ->> 'valid_from'
            /*postgres: (was.fields::json ->> 'valid_from')::bigint */ <= :as_of, true)
        AND coalesce(
            /*sqlite:*/ was.fields ->> 'valid_to'
            /*postgres: (was.fields::json ->> 'valid_to')::bigint */ > :as_of, true)
        AND coalesce(
            /*sqlite:*/ was.fields ->> 'expires_at'
            /*postgres: (was.fields::json ->> 'expires_at')::bigint */ > :as_of, true)
    END
ORDER BY memory.number DESC
LIMIT :limit OFFSET :offset;

-- list_projects --
-- Returns each project that has memories and how many of them are searched, by name.
SELECT project, count(record) FROM memory
WHERE organization_id = :organization_id
GROUP BY project
ORDER BY project;

-- count_by_type --
-- Returns type, importance, how many are searched and how many are not, how many of the searched
-- have a summary, and when the first and the last of the searched were stored.
SELECT memory_type, importance, count(record), count(*) - count(record),
    count(summary) FILTER (WHERE record IS NOT NULL),
    min(created_at) FILTER (WHERE record IS NOT NULL),
    max(created_at) FILTER (WHERE record IS NOT NULL)
FROM memory
WHERE organization_id = :organization_id /*project*/
GROUP BY memory_type, importance;

-- count_chunks --
-- Returns how many texts of memories are searched, and how many wait for deep vectors.
SELECT coalesce(sum(message_count), 0),
    coalesce(sum((SELECT count(*) FROM unembedded
        WHERE unembedded.organization_id = :organization_id
            AND key > conversation.number << 24 AND key < (conversation.number + 1) << 24)), 0)
FROM memory JOIN conversation
    ON conversation.organization_id = :organization_id AND conversation.number = memory.record
WHERE memory.organization_id = :organization_id /*project*/;

-- count_relations --
-- Returns how many relations go out from memories.
SELECT count(*) FROM memory JOIN relation
    ON relation.organization_id = :organization_id AND relation.source = memory.number
WHERE memory.organization_id = :organization_id /*project*/;
