-- rebuild_indexes --
-- PostgreSQL leaves this to the owner of the tables.
/*sqlite:*/ REINDEX /*postgres: SELECT 1 */;

-- recount_messages --
-- Mends the number of messages of conversations without gaps; a gap is a loss, and stays visible.
UPDATE conversation SET message_count = present
FROM
    (SELECT key >> 24 AS owner, count(*) AS present, max(key & 16777215) AS last FROM message
     WHERE organization_id = :organization_id
     GROUP BY key >> 24)
WHERE organization_id = :organization_id AND number = owner
    AND present = last AND message_count <> present;

-- recount_empty --
UPDATE conversation SET message_count = 0
WHERE organization_id = :organization_id AND message_count <> 0 AND NOT EXISTS
    (SELECT 1 FROM message
     WHERE message.organization_id = :organization_id
         AND key BETWEEN number << 24 AND (number << 24) + 16777215);

-- mend_length --
UPDATE message SET characters = :characters
WHERE organization_id = :organization_id AND key = :key;

-- mend_bytes --
UPDATE conversation SET content_bytes = content_bytes - :excess
WHERE organization_id = :organization_id AND number = :conversation;

-- forget_counters --
DELETE FROM counters WHERE organization_id = :organization_id;

-- count_anew --
INSERT INTO counters
    (organization_id, conversations, messages, content_bytes, chunks, vectors, pending, memories,
     documents, stored_bytes, file_bytes)
VALUES
    (:organization_id, :conversations, :messages, :content_bytes, :chunks, :vectors, :pending,
     :memories, :documents, :stored_bytes, :file_bytes);

-- delete_nameless_jobs --
DELETE FROM job WHERE organization_id = :organization_id AND kind = '';

-- release_odd_jobs --
UPDATE /*sqlite:*/ OR REPLACE job SET attempts = max(attempts, 0)
    /*postgres: job SET attempts = greatest(attempts, 0) */, lease_owner = NULL, lease_until = NULL
WHERE organization_id = :organization_id
    AND (attempts < 0 OR (lease_owner IS NULL) <> (lease_until IS NULL));
