-- old_vectors --
-- Returns the seqs of the next vectors of embedders that have no role any more.
SELECT seq FROM vector
WHERE organization_id = :organization_id AND seq > :after AND embedder IN
    (SELECT number FROM embedder WHERE organization_id = :organization_id AND role = 'old')
ORDER BY seq
LIMIT :limit;

-- old_instant_vectors --
SELECT seq FROM instant_vector
WHERE organization_id = :organization_id AND seq > :after AND embedder IN
    (SELECT number FROM embedder WHERE organization_id = :organization_id AND role = 'old')
ORDER BY seq
LIMIT :limit;

-- delete_old_vectors --
-- Removes the vectors of a JSON list of seqs, if they are still of embedders without a role.
DELETE FROM vector
WHERE organization_id = :organization_id AND seq IN (SELECT value FROM json_each(:seqs))
    AND embedder IN
        (SELECT number FROM embedder WHERE organization_id = :organization_id AND role = 'old');

-- delete_old_instant_vectors --
DELETE FROM instant_vector
WHERE organization_id = :organization_id AND seq IN (SELECT value FROM json_each(:seqs))
    AND embedder IN
        (SELECT number FROM embedder WHERE organization_id = :organization_id AND role = 'old');

-- has_old --
-- Returns a row if an embedder without a role is left.
SELECT 1 FROM embedder WHERE organization_id = :organization_id AND role = 'old' LIMIT 1;

-- delete_old_embedders --
-- Removes embedders that have neither a role nor a vector.
DELETE FROM embedder
WHERE organization_id = :organization_id AND role = 'old'
    AND number NOT IN (SELECT embedder FROM vector WHERE organization_id = :organization_id)
    AND number NOT IN
        (SELECT embedder FROM instant_vector WHERE organization_id = :organization_id);
