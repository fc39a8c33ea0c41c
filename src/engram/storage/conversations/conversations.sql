-- Conversations have numbers below 2^32 = 4294967296; what has higher ones is none (`model/row_keys.py`).

-- create_conversation --
INSERT INTO conversation
    (number, organization_id, id, title, agent_id, project, metadata, is_default, created_at,
     updated_at)
VALUES
    (:number, :organization_id, :id, :title, :agent_id, :project, :metadata, :is_default, :now,
     :now);

-- add_tag --
INSERT INTO conversation_tag (organization_id, conversation, position, tag)
VALUES (:organization_id, :conversation, :position, :tag);

-- delete_tags --
-- The plus keeps SQLite from walking over the tags of all.
DELETE FROM conversation_tag
WHERE +organization_id = :organization_id AND conversation = :conversation;

-- find_conversation --
-- Returns number, id, message_count, content_bytes of the conversation with that public id.
SELECT number, id, message_count, content_bytes FROM conversation
WHERE organization_id = :organization_id AND id = :id AND number < 4294967296;

-- find_default_conversation --
-- Returns the same columns of the organisation's default conversation.
SELECT number, id, message_count, content_bytes FROM conversation
WHERE organization_id = :organization_id AND is_default = 1;

-- find_title --
SELECT title FROM conversation
WHERE organization_id = :organization_id AND id = :id AND number < 4294967296;

-- list_conversations --
-- Returns the numbers of one page. The conditions and the order are put in from fixed pieces.
SELECT number FROM conversation
WHERE organization_id = :organization_id AND number < 4294967296 /*conditions*/
ORDER BY /*order*/
LIMIT :limit OFFSET :offset;

-- count_conversations --
-- Returns how many conversations meet the conditions.
SELECT count(*) FROM conversation
WHERE organization_id = :organization_id AND number < 4294967296 /*conditions*/;

-- add_record --
-- Adds what holds one message: `model/row_keys.py` says how its number tells it from a conversation.
INSERT INTO conversation
    (number, organization_id, id, project, metadata, message_count, content_bytes, created_at,
     updated_at)
VALUES (:number, :organization_id, :id, :project, '{}', 1, :content_bytes, :now, :now);

-- grow_conversation --
UPDATE conversation SET
    message_count = message_count + :messages,
    content_bytes = content_bytes + :content_bytes,
    updated_at = CASE WHEN updated_at < :now THEN :now ELSE updated_at END
WHERE organization_id = :organization_id AND number = :conversation;

-- delete_conversation --
-- Its tags and idempotency rows go with it.
DELETE FROM conversation WHERE organization_id = :organization_id AND number = :conversation;
