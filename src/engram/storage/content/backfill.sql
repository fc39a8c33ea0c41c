-- legacy_messages --
-- Returns the columns of `load_range` and the characters, of rows in an old encoding.
SELECT key, role, occurred_at, created_at, name, tool_call_id, tool_name, metadata,
    content_encoding, sha256, CAST(content AS BLOB)
FROM message
WHERE organization_id = :organization_id
    AND (content_encoding IS NULL OR content_encoding = 'gzip+base64')
ORDER BY key
LIMIT :limit;

-- count_legacy --
SELECT count(*) FROM message
WHERE organization_id = :organization_id
    AND (content_encoding IS NULL OR content_encoding = 'gzip+base64');

-- encode_message --
-- Only the form changes; a row that is gone or was done meanwhile is left alone.
UPDATE message SET content_encoding = :content_encoding, content = :content
WHERE organization_id = :organization_id AND key = :key
    AND (content_encoding IS NULL OR content_encoding = 'gzip+base64');
