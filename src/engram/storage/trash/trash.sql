-- Where braces stand, the names of one of the tables of `rows.py` are put in.

-- kept_rows --
-- Returns the rows of a table that go with a conversation or memory. The plus makes SQLite use the
-- index of the key.
SELECT {columns} FROM {table}
WHERE +organization_id = :organization_id AND {which}
ORDER BY {key};

-- put_back --
INSERT INTO {table} (organization_id, {columns}) VALUES (:organization_id, {values});

-- put_back_if_new --
INSERT INTO {table} (organization_id, {columns}) VALUES (:organization_id, {values})
ON CONFLICT DO NOTHING;

-- content_value --
-- SQLite has text in the columns of contents unless they are compressed.
/*sqlite:*/ CASE WHEN :content_encoding LIKE 'zstd%' THEN :content ELSE CAST(:content AS TEXT) END
/*postgres: :content */

-- add_entry --
INSERT INTO trash
    (organization_id, id, kind, number, record, document, project, source, title, sha256, messages,
     stored_bytes, trashed_at, expires_at, actor, row_hash)
VALUES
    (:organization_id, :id, :kind, :number, :record, :document, :project, :source, :title, :sha256,
     :messages, :stored_bytes, :trashed_at, :expires_at, :actor, :row_hash);

-- find_entry --
-- Returns the columns of `Entry`.
SELECT id, kind, number, record, document, project, source, title, sha256, messages, stored_bytes, trashed_at,
    expires_at, actor, row_hash
FROM trash
WHERE organization_id = :organization_id AND id = :id;

-- find_memory_entry --
-- Returns the id of the entry of the memory with a number.
SELECT id FROM trash
WHERE organization_id = :organization_id AND kind = 'memory' AND number = :number;

-- list_entries --
-- Returns the columns of `Entry`, what was deleted last first.
SELECT id, kind, number, record, document, project, source, title, sha256, messages, stored_bytes, trashed_at,
    expires_at, actor, row_hash
FROM trash
WHERE organization_id = :organization_id AND kind = coalesce(:kind, kind)
    AND project = coalesce(:project, project)
ORDER BY trashed_at DESC, id
LIMIT :limit OFFSET :offset;

-- count_entries --
SELECT count(*) FROM trash
WHERE organization_id = :organization_id AND kind = coalesce(:kind, kind)
    AND project = coalesce(:project, project);

-- find_expired --
-- Returns the ids of entries that have expired and are not under a legal hold, those that did first first.
SELECT id FROM trash
WHERE organization_id = :organization_id AND expires_at <= :now AND NOT EXISTS
    (SELECT 1 FROM legal_hold
     WHERE legal_hold.organization_id = :organization_id
         AND (legal_hold.subject IS NULL OR legal_hold.subject = trash.id)
         AND (legal_hold.project IS NULL OR legal_hold.project = trash.project)
         AND (legal_hold.source IS NULL OR legal_hold.source = coalesce(trash.source, ''))
         AND (legal_hold.kind IS NULL OR legal_hold.kind =
             CASE WHEN trash.kind = 'conversation' THEN 'conversation'
             WHEN trash.document IS NULL THEN 'note' ELSE 'document' END))
ORDER BY expires_at, id LIMIT :limit;

-- add_part --
INSERT INTO trash_part (organization_id, id, position, sha256, content, row_hash)
VALUES (:organization_id, :id, :position, :sha256, :content, :row_hash);

-- count_parts --
SELECT coalesce(max(position) + 1, 0) FROM trash_part
WHERE organization_id = :organization_id AND id = :id;

-- get_part --
-- Returns hash and content.
SELECT sha256, content FROM trash_part
WHERE organization_id = :organization_id AND id = :id AND position = :position;

-- delete_entry --
-- Deletes its parts too.
DELETE FROM trash WHERE organization_id = :organization_id AND id = :id;

-- put_bytes --
UPDATE trash SET stored_bytes = :stored_bytes, row_hash = :row_hash
WHERE organization_id = :organization_id AND id = :id;

-- grow_entry --
UPDATE trash SET stored_bytes = stored_bytes + :stored_bytes
WHERE organization_id = :organization_id AND id = :id;

-- has_default --
-- Returns a row if the organisation has a default conversation.
SELECT 1 FROM conversation WHERE organization_id = :organization_id AND is_default = 1;

-- has_episode --
SELECT 1 FROM episode WHERE organization_id = :organization_id AND id = :id;

-- has_memory --
SELECT 1 FROM memory WHERE organization_id = :organization_id AND number = :number;

-- is_present --
-- Returns a row if there is a conversation or memory with an id, searched or not.
SELECT 1 FROM conversation
WHERE organization_id = :organization_id AND id = :id
UNION ALL
SELECT 1 FROM memory
WHERE organization_id = :organization_id AND id = :id;

-- find_present --
-- Returns the kind of the conversation or memory with an id, and how many messages it has.
SELECT 'conversation', message_count FROM conversation
WHERE organization_id = :organization_id AND id = :id AND number < 4294967296
UNION ALL
SELECT 'memory', CASE WHEN record IS NULL THEN 0 ELSE 1 END FROM memory
WHERE organization_id = :organization_id AND id = :id;

-- describe_conversation --
-- Returns title, project and agent.
SELECT title, project, agent_id FROM conversation
WHERE organization_id = :organization_id AND number = :number;

-- remember_session --
-- Has a captured conversation be captured again.
DELETE FROM forgotten_session WHERE organization_id = :organization_id AND id = :id;

-- content_bytes_of --
-- Returns the bytes of the texts of a record, and of the versions and the document of a memory.
SELECT
    (SELECT coalesce(sum(content_bytes), 0) FROM conversation
     WHERE organization_id = :organization_id AND number = :record)
    + (SELECT coalesce(sum(content_bytes), 0) FROM memory_version
       WHERE organization_id = :organization_id AND memory = :memory)
    + (SELECT coalesce(sum(size_bytes), 0) FROM document
       WHERE organization_id = :organization_id AND number = :document);

-- contents --
-- Returns id, position, hash and content of the next parts after one.
SELECT id, position, sha256, content FROM trash_part
WHERE organization_id = :organization_id AND (id, position) > (:id, :position)
ORDER BY id, position LIMIT :limit;

-- labels_of --
-- Returns project, tags and document of a memory.
SELECT project, tags, document_id FROM memory
WHERE organization_id = :organization_id AND number = :number;
