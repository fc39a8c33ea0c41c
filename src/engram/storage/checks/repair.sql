-- In statements on vectors, a statement of `vectors.sql` that finds faults replaces `/*found*/`.

-- rebuild_indexes --
-- PostgreSQL leaves this to the owner of the tables.
/*sqlite:*/ REINDEX /*postgres: SELECT 1 */;

-- recount_messages --
-- Repairs the number of messages of conversations without gaps; a gap is a loss, and stays visible.
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

-- repair_length --
UPDATE message SET characters = :characters
WHERE organization_id = :organization_id AND key = :key;

-- repair_bytes --
UPDATE conversation SET content_bytes = content_bytes - :excess
WHERE organization_id = :organization_id AND number = :conversation;

-- delete_counters --
DELETE FROM counters WHERE organization_id = :organization_id;

-- add_counters --
INSERT INTO counters
    (organization_id, conversations, messages, content_bytes, chunks, vectors, pending, memories,
     documents, stored_bytes, file_bytes, trashed_messages)
VALUES
    (:organization_id, :conversations, :messages, :content_bytes, :chunks, :vectors, :pending,
     :memories, :documents, :stored_bytes, :file_bytes, :trashed_messages);

-- delete_unnamed_jobs --
DELETE FROM job WHERE organization_id = :organization_id AND kind = '';

-- release_invalid_jobs --
UPDATE /*sqlite:*/ OR REPLACE job SET attempts = max(attempts, 0)
    /*postgres: job SET attempts = greatest(attempts, 0) */, lease_owner = NULL, lease_until = NULL
WHERE organization_id = :organization_id
    AND (attempts < 0 OR (lease_owner IS NULL) <> (lease_until IS NULL));

-- delete_bad_vectors --
DELETE FROM vector
WHERE organization_id = :organization_id
    AND seq IN (SELECT seq FROM (/*found*/) WHERE place = 'vector');

-- delete_bad_instant_vectors --
DELETE FROM instant_vector
WHERE organization_id = :organization_id
    AND seq IN (SELECT seq FROM (/*found*/) WHERE place = 'instant_vector');

-- delete_broken_passages --
DELETE FROM vector
WHERE organization_id = :organization_id
    AND (key, embedder) IN (SELECT key, embedder FROM (/*found*/));

-- delete_instants --
DELETE FROM instant_vector
WHERE organization_id = :organization_id AND key IN (SELECT key FROM (/*found*/));

-- delete_waiting --
DELETE FROM unembedded
WHERE organization_id = :organization_id AND key IN (SELECT key FROM (/*found*/));

-- delete_vector_state --
DELETE FROM vector_state WHERE organization_id = :organization_id;

-- add_vector_state --
-- Every process that holds vectors in memory reads them again.
INSERT INTO vector_state (organization_id, seq, forgotten) VALUES (:organization_id, :seq, :seq);
