-- get_dictionary --
SELECT content FROM dictionary WHERE organization_id = :organization_id AND id = :id;

-- add_dictionary --
-- Returns the number of the new dictionary.
INSERT INTO dictionary (organization_id, created_at, trained_bytes, content)
VALUES (:organization_id, :now, :trained_bytes, :content)
RETURNING id;

-- set_dictionary_due --
UPDATE upkeep SET dictionary_due_bytes = :due_bytes WHERE organization_id = :organization_id;

-- newest_messages --
-- Returns the columns of `load_range`, the newest conversations first; what is stored with a
-- document is compressed with it.
SELECT key, role, occurred_at, created_at, name, tool_call_id, tool_name, metadata,
    content_encoding, sha256, CAST(content AS BLOB)
FROM message
WHERE organization_id = :organization_id AND key < 144115188075855872
ORDER BY key DESC
LIMIT :limit;
