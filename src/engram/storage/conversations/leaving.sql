-- Conversations that are removed in steps.

-- hide_conversation --
-- Takes its public id and its bytes away: by its id it is unknown from now on.
UPDATE conversation SET id = :hidden_id, is_default = 0, content_bytes = 0
WHERE organization_id = :organization_id AND number = :conversation;

-- add_leaving --
INSERT INTO leaving (organization_id, conversation, erasure)
VALUES (:organization_id, :conversation, :erasure);

-- next_leaving --
-- Returns number, id, length and erasure of a conversation to remove next.
SELECT number, id, message_count, erasure
FROM leaving JOIN conversation
    ON conversation.organization_id = :organization_id AND number = conversation
WHERE leaving.organization_id = :organization_id
ORDER BY conversation
LIMIT 1;

-- find_leaving --
-- Returns the same of a certain one.
SELECT number, id, message_count, erasure
FROM leaving JOIN conversation
    ON conversation.organization_id = :organization_id AND number = conversation
WHERE leaving.organization_id = :organization_id AND conversation = :conversation;

-- shorten_conversation --
UPDATE conversation SET message_count = :messages
WHERE organization_id = :organization_id AND number = :conversation;

-- forget_captured --
-- Removes some identities of captured messages; the plus makes SQLite use its key.
DELETE FROM captured_message
WHERE +organization_id = :organization_id AND conversation = :conversation AND identity IN
    (SELECT identity FROM captured_message
     WHERE +organization_id = :organization_id AND conversation = :conversation
     LIMIT :limit);

-- forget_keys --
-- Returns the idempotency keys that were removed; the plus makes SQLite use the index.
DELETE FROM idempotency
WHERE +organization_id = :organization_id AND conversation = :conversation
RETURNING key;

-- count_vectors_between --
SELECT
    (SELECT count(*) FROM instant_vector
     WHERE organization_id = :organization_id AND key BETWEEN :first AND :last)
    + (SELECT count(*) FROM vector
       WHERE organization_id = :organization_id AND key BETWEEN :first AND :last);
