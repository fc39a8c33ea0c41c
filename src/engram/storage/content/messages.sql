-- get_title --
SELECT title FROM conversation WHERE organization_id = :organization_id AND number = :number;

-- load_conversations --
-- Returns number and all that a conversation shows, of those that exist among the JSON list.
SELECT number, id, title, agent_id, project, metadata, message_count, created_at, updated_at,
    (SELECT json_group_array(tag) FROM
        (SELECT tag FROM conversation_tag
         WHERE conversation_tag.organization_id = :organization_id AND conversation = number
         ORDER BY position)) AS tags
FROM conversation NOT INDEXED
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers));

-- load_range --
-- Returns the messages with keys `first` to `last`, in order.
SELECT key, role, occurred_at, created_at, name, tool_call_id, tool_name, metadata,
    content_encoding, sha256, CAST(content AS BLOB)
FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;

-- load_messages --
-- Returns the same columns of those that exist among the keys of a JSON list.
SELECT key, role, occurred_at, created_at, name, tool_call_id, tool_name, metadata,
    content_encoding, sha256, CAST(content AS BLOB)
FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));

-- conversation_ids --
-- Returns number and public id of those that exist among the numbers of a JSON list.
SELECT number, id FROM conversation NOT INDEXED
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers));
