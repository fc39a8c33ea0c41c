-- allowed_conversations --
-- Returns the numbers of the conversations that meet the conditions.
SELECT number FROM conversation
WHERE organization_id = :organization_id /*conditions*/
ORDER BY number;

-- allowed_messages --
-- Returns the keys of the messages that meet the conditions.
SELECT key FROM message
WHERE organization_id = :organization_id /*conditions*/
ORDER BY key;
