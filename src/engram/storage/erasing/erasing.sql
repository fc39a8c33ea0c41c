-- Erasures: their rows, what they remove, and where its ids are written down.

-- add_erasure --
INSERT INTO erasure
    (organization_id, id, scope, value, state, actor, requested_at, last_conversation, last_memory,
     removed, files, row_hash)
VALUES
    (:organization_id, :id, :scope, :value, :state, :actor, :requested_at, :last_conversation,
     :last_memory, :removed, :files, :row_hash);

-- get_erasure --
-- Returns the columns of `ErasureRow`.
SELECT id, scope, value, state, actor, requested_at, finished_at, last_conversation, last_memory,
    removed, files
FROM erasure WHERE organization_id = :organization_id AND id = :id;

-- list_erasures --
-- Returns the same of the newest.
SELECT id, scope, value, state, actor, requested_at, finished_at, last_conversation, last_memory,
    removed, files
FROM erasure WHERE organization_id = :organization_id
ORDER BY requested_at DESC, id
LIMIT :limit;

-- change_erasure --
UPDATE erasure SET
    value = :value, state = :state, finished_at = :finished_at, removed = :removed, files = :files
WHERE organization_id = :organization_id AND id = :id;

-- last_numbers --
-- Returns the last numbers of conversations and memories.
SELECT
    (SELECT coalesce(max(number), 0) FROM conversation
     WHERE organization_id = :organization_id AND number < 4294967296),
    (SELECT coalesce(max(number), 0) FROM memory WHERE organization_id = :organization_id);

-- add_erased --
INSERT INTO erased (organization_id, erasure, id) VALUES (:organization_id, :erasure, :id)
ON CONFLICT DO NOTHING;

-- list_erased --
-- Returns the ids that an erasure has removed.
SELECT id FROM erased WHERE organization_id = :organization_id AND erasure = :erasure;

-- forget_erased --
DELETE FROM erased WHERE organization_id = :organization_id AND erasure = :erasure;

-- is_leaving --
-- Returns a row if an erasure has hidden conversations that are still to be removed.
SELECT 1 FROM leaving WHERE organization_id = :organization_id AND erasure = :erasure LIMIT 1;

-- conversations_of_project --
-- Returns number, id, message_count, content_bytes, updated_at and metadata of the next conversations.
SELECT number, id, message_count, content_bytes, updated_at, metadata FROM conversation
WHERE organization_id = :organization_id AND project = :value
    AND number > :after AND number <= :upto AND number < 4294967296
    AND number NOT IN (SELECT conversation FROM leaving WHERE organization_id = :organization_id)
ORDER BY number
LIMIT :limit;

-- conversations_of_agent --
-- Returns the same.
SELECT number, id, message_count, content_bytes, updated_at, metadata FROM conversation
WHERE organization_id = :organization_id AND agent_id = :value
    AND number > :after AND number <= :upto AND number < 4294967296
    AND number NOT IN (SELECT conversation FROM leaving WHERE organization_id = :organization_id)
ORDER BY number
LIMIT :limit;

-- conversations_with_metadata --
-- Returns the same of conversations that may have the value.
SELECT number, id, message_count, content_bytes, updated_at, metadata FROM conversation
WHERE organization_id = :organization_id AND metadata <> '{}'
    AND number > :after AND number <= :upto AND number < 4294967296
    AND number NOT IN (SELECT conversation FROM leaving WHERE organization_id = :organization_id)
ORDER BY number
LIMIT :limit;

-- memories_of_project --
-- Returns number, id and document_id of the next memories.
SELECT number, id, document_id FROM memory
WHERE organization_id = :organization_id AND project = :value
    AND number > :after AND number <= :upto
ORDER BY number
LIMIT :limit;

-- memories_of_source --
-- Returns the same.
SELECT number, id, document_id FROM memory
WHERE organization_id = :organization_id AND source = :value
    AND number > :after AND number <= :upto
ORDER BY number
LIMIT :limit;

-- episodes_of_project --
SELECT id FROM episode WHERE organization_id = :organization_id AND project = :value;

-- messages_of_speaker --
-- Returns key and metadata of the next messages of conversations.
SELECT key, metadata FROM message
WHERE organization_id = :organization_id AND name = :value
    AND key > :after AND key <= :upto AND key >> 24 NOT IN
    (SELECT conversation FROM leaving WHERE organization_id = :organization_id)
ORDER BY key
LIMIT :limit;

-- messages_with_metadata --
-- Returns the same of messages that may have the value.
SELECT key, metadata FROM message
WHERE organization_id = :organization_id AND metadata IS NOT NULL
    AND key > :after AND key <= :upto AND key >> 24 NOT IN
    (SELECT conversation FROM leaving WHERE organization_id = :organization_id)
ORDER BY key
LIMIT :limit;

-- trashed --
-- Returns id, kind, project and source of the next entries of the trash.
SELECT id, kind, project, source FROM trash
WHERE organization_id = :organization_id AND id > :after
ORDER BY id
LIMIT :limit;

-- blank_message --
UPDATE message SET
    characters = 0, name = NULL, tool_call_id = NULL, tool_name = NULL,
    content_encoding = 'raw', sha256 = :sha256, content = :content, metadata = :metadata
WHERE organization_id = :organization_id AND key = :key;

-- shrink_conversation --
UPDATE conversation SET content_bytes = content_bytes - :content_bytes
WHERE organization_id = :organization_id AND number = :conversation;

-- deliveries --
-- Returns at, client, session, event and shown of everything that agents were given.
SELECT at, client, session, event, shown FROM delivery
WHERE organization_id = :organization_id
ORDER BY at;

-- delete_deliveries --
DELETE FROM delivery
WHERE organization_id = :organization_id AND at IN (SELECT value FROM json_each(:times));

-- rename_subject --
-- Takes a name out of the audit, unless it is also one of an actor or action.
UPDATE audit_name SET name = :name
WHERE organization_id = :organization_id AND name = :value AND number NOT IN
    (SELECT action FROM audit WHERE organization_id = :organization_id
     UNION SELECT actor FROM audit WHERE organization_id = :organization_id);
