-- Statements on any table whose rows are hashed; the braces are filled with its name and columns.

-- rows --
-- Returns key, hashed columns and hash of rows, in the order of their keys; texts are bytes in SQLite,
-- so that one that is damaged can be read. The plus makes SQLite use the index of the key.
SELECT {key}, {columns}, row_hash FROM {table}
WHERE +organization_id = :organization_id {condition} {which} ORDER BY {key} {limit};

-- put_hash --
UPDATE {table} SET row_hash = :row_hash
WHERE organization_id = :organization_id {which};

-- count_unhashed --
SELECT count(*) FROM {table}
WHERE organization_id = :organization_id AND row_hash IS NULL {condition};

-- conversation_tags --
-- The tags of a conversation in their order, a JSON list.
(SELECT json_group_array(tag) FROM
    (SELECT tag FROM conversation_tag
     WHERE conversation_tag.organization_id = :organization_id AND conversation = number
     ORDER BY position))
