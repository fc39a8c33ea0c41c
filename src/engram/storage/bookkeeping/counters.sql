-- get_counters --
SELECT conversations, messages, content_bytes, chunks, vectors, pending, memories, documents,
    stored_bytes, file_bytes
FROM counters
WHERE organization_id = :organization_id;

-- add_to_counters --
-- Returns the messages and the bytes that a quota bounds.
UPDATE counters SET
    conversations = conversations + :conversations,
    messages = messages + :messages,
    content_bytes = content_bytes + :content_bytes,
    chunks = chunks + :chunks,
    memories = memories + :memories,
    documents = documents + :documents,
    stored_bytes = stored_bytes + :stored_bytes,
    file_bytes = file_bytes + :file_bytes
WHERE organization_id = :organization_id
RETURNING messages, stored_bytes + file_bytes;

-- put_file_bytes --
UPDATE counters SET file_bytes = :file_bytes WHERE organization_id = :organization_id;

-- count_indexed --
-- Returns how many messages there are, how many have deep vectors, and how many instant ones.
SELECT
    (SELECT count(*) FROM message WHERE organization_id = :organization_id),
    (SELECT count(DISTINCT key) FROM vector
     WHERE organization_id = :organization_id AND embedder =
         (SELECT number FROM embedder WHERE organization_id = :organization_id AND role = 'deep')),
    (SELECT count(DISTINCT key) FROM instant_vector
     WHERE organization_id = :organization_id AND embedder =
         (SELECT number FROM embedder
          WHERE organization_id = :organization_id AND role = 'instant'));
