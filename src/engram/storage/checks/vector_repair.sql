-- `/*found*/` is the statement of `vectors.sql` that finds what is wrong.

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

-- add_waiting --
INSERT INTO unembedded (organization_id, key)
SELECT :organization_id, key FROM (/*found*/);

-- forget_state --
DELETE FROM vector_state WHERE organization_id = :organization_id;

-- add_state --
-- Every process that holds vectors in memory reads them again.
INSERT INTO vector_state (organization_id, seq, forgotten) VALUES (:organization_id, :seq, :seq);
