-- Conversations have numbers below 2^32 = 4294967296; what has higher ones is none (`model/row_keys.py`).

-- create_conversation --
INSERT INTO conversation
    (number, organization_id, id, title, agent_id, project, metadata, is_default, created_at,
     updated_at, row_hash)
VALUES
    (:number, :organization_id, :id, :title, :agent_id, :project, :metadata, :is_default, :created_at,
     :created_at, :row_hash);

-- add_tag --
INSERT INTO conversation_tag (organization_id, conversation, position, tag)
VALUES (:organization_id, :conversation, :position, :tag);

-- delete_tags --
-- The plus keeps SQLite from walking over the tags of all.
DELETE FROM conversation_tag
WHERE +organization_id = :organization_id AND conversation = :conversation;

-- find_conversation --
-- Returns number, id, message_count, content_bytes, updated_at of the conversation with that public id.
SELECT number, id, message_count, content_bytes, updated_at FROM conversation
WHERE organization_id = :organization_id AND id = :id AND number < 4294967296;

-- find_conversations_by_beginning --
-- Returns the numbers of at most two conversations whose public ids lie in a range.
SELECT number FROM conversation
WHERE organization_id = :organization_id AND id >= :first AND id < :last AND number < 4294967296
ORDER BY id LIMIT 2;

-- find_default_conversation --
-- Returns the same columns of the organisation's default conversation.
SELECT number, id, message_count, content_bytes, updated_at FROM conversation
WHERE organization_id = :organization_id AND is_default = 1;

-- labels_of --
-- Returns id, project and agent of a conversation.
SELECT id, project, agent_id FROM conversation
WHERE organization_id = :organization_id AND number = :number;

-- find_title --
SELECT title FROM conversation
WHERE organization_id = :organization_id AND id = :id AND number < 4294967296;

-- list_conversations --
-- Returns the numbers of one page. The conditions and the order are put in from fixed pieces.
SELECT number FROM conversation
WHERE organization_id = :organization_id AND number < 4294967296 AND number NOT IN
    (SELECT conversation FROM leaving WHERE organization_id = :organization_id) /*conditions*/
ORDER BY /*order*/
LIMIT :limit OFFSET :offset;

-- count_conversations --
-- Returns how many conversations meet the conditions.
SELECT count(*) FROM conversation
WHERE organization_id = :organization_id AND number < 4294967296 AND number NOT IN
    (SELECT conversation FROM leaving WHERE organization_id = :organization_id) /*conditions*/;

-- count_projects --
-- Returns each project that has conversations, how many, how many messages they have, and when one of
-- them was last changed, by name.
SELECT project, count(*), sum(message_count), max(updated_at) FROM conversation
WHERE organization_id = :organization_id AND number < 4294967296 AND number NOT IN
    (SELECT conversation FROM leaving WHERE organization_id = :organization_id)
GROUP BY project
ORDER BY project;

-- add_record --
-- Adds a record: `model/row_keys.py` says how its number tells it from a conversation.
INSERT INTO conversation
    (number, organization_id, id, project, metadata, message_count, content_bytes, created_at,
     updated_at)
VALUES (:number, :organization_id, :id, :project, '{}', :messages, :content_bytes, :now, :now);

-- grow_conversation --
UPDATE conversation SET
    message_count = message_count + :messages,
    content_bytes = content_bytes + :content_bytes,
    updated_at = CASE WHEN updated_at < :now THEN :now ELSE updated_at END
WHERE organization_id = :organization_id AND number = :conversation;

-- conversation_length --
SELECT message_count FROM conversation
WHERE organization_id = :organization_id AND number = :conversation;

-- change_conversation --
UPDATE conversation SET
    title = :title, project = :project, metadata = :metadata,
    updated_at = CASE WHEN updated_at < :now THEN :now ELSE updated_at END
WHERE organization_id = :organization_id AND number = :conversation;

-- move_record --
UPDATE conversation SET project = :project
WHERE organization_id = :organization_id AND number = :record;

-- titled_messages --
-- Returns key and characters of the documents with keys `first` to `last` that have no name of their own.
SELECT key, characters FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
    AND role = 'document' AND name IS NULL
ORDER BY key
LIMIT :limit;

-- delete_conversation --
-- Deletes its tags and idempotency rows too.
DELETE FROM conversation WHERE organization_id = :organization_id AND number = :conversation;

-- add_message --
INSERT INTO message
    (key, organization_id, role, characters, occurred_at, created_at, name, tool_call_id,
     tool_name, content_encoding, sha256, metadata, content, row_hash)
VALUES
    (:key, :organization_id, :role, :characters, :occurred_at, :created_at, :name, :tool_call_id,
     :tool_name, :content_encoding, :sha256, :metadata, :content, :row_hash);

-- message_sizes --
-- Returns the characters of the messages with keys `first` to `last`, in order.
SELECT characters FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;

-- delete_messages --
DELETE FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;

-- find_idempotency --
-- Returns conversation id, first and last sequence of what a key stored, the hash of the request (NULL is of
-- a row that an older version wrote) and when.
SELECT conversation.id, first_sequence, last_sequence, request_sha256, idempotency.created_at
FROM idempotency JOIN conversation
    ON conversation.organization_id = :organization_id
    AND conversation.number = idempotency.conversation
WHERE idempotency.organization_id = :organization_id AND key = :key;

-- add_idempotency --
INSERT INTO idempotency
    (organization_id, key, conversation, first_sequence, last_sequence, created_at, request_sha256)
VALUES
    (:organization_id, :key, :conversation, :first_sequence, :last_sequence, :now, :request_sha256);

-- oldest_idempotency --
-- Returns the oldest keys, and when each was stored.
SELECT key, created_at FROM idempotency
WHERE organization_id = :organization_id
ORDER BY created_at LIMIT :limit;

-- delete_idempotency --
DELETE FROM idempotency
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));
