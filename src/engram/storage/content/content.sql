-- Pieces have keys made by `piece_key` (`model/row_keys.py`).

-- get_title --
SELECT title FROM conversation WHERE organization_id = :organization_id AND number = :number;

-- load_conversations --
-- Returns number and all that a conversation shows, of those that exist among the JSON list.
SELECT number, id, title, agent_id, project, metadata, is_default, message_count, created_at,
    updated_at, row_hash,
    (SELECT json_group_array(tag) FROM
        (SELECT tag FROM conversation_tag
         WHERE conversation_tag.organization_id = :organization_id AND conversation = number
         ORDER BY position)) AS tags
FROM conversation NOT INDEXED
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers));

-- load_range --
-- Returns the messages with keys `first` to `last`, in order.
SELECT key, role, occurred_at, created_at, name, tool_call_id, tool_name, metadata,
    content_encoding, sha256, CAST(content AS BLOB), row_hash
FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;

-- load_messages --
-- Returns the same columns of those that exist among the keys of a JSON list.
SELECT key, role, occurred_at, created_at, name, tool_call_id, tool_name, metadata,
    content_encoding, sha256, CAST(content AS BLOB), row_hash
FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));

-- conversation_ids --
-- Returns number and public id of those that exist among the numbers of a JSON list.
SELECT number, id FROM conversation NOT INDEXED
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers));

-- content_of --
-- Returns encoding and content that the memory shows, and number and bytes of the body.
SELECT content_encoding, CAST(content AS BLOB), number, size_bytes FROM document
WHERE +organization_id = :organization_id AND id = :id;

-- add_piece --
INSERT INTO document_piece (key, organization_id, size_bytes, content_encoding, sha256, content)
VALUES (:key, :organization_id, :size_bytes, :content_encoding, :sha256, :content);

-- get_piece --
-- Returns encoding, hash and content of a piece.
SELECT content_encoding, sha256, content FROM document_piece
WHERE organization_id = :organization_id AND key = :key;

-- delete_pieces --
-- Returns the bytes of each.
DELETE FROM document_piece
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
RETURNING size_bytes;

-- measure_pieces --
SELECT coalesce(sum(size_bytes), 0) FROM document_piece
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;

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
    content_encoding, sha256, CAST(content AS BLOB), row_hash
FROM message
WHERE organization_id = :organization_id AND key < 144115188075855872
ORDER BY key DESC
LIMIT :limit;

-- legacy_messages --
-- Returns the columns of `load_range` and the characters, of rows in an old encoding.
SELECT key, role, occurred_at, created_at, name, tool_call_id, tool_name, metadata,
    content_encoding, sha256, CAST(content AS BLOB), row_hash
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
-- Only the encoding changes; a row that is gone or was re-encoded meanwhile is left alone.
UPDATE message SET content_encoding = :content_encoding, content = :content
WHERE organization_id = :organization_id AND key = :key
    AND (content_encoding IS NULL OR content_encoding = 'gzip+base64');
