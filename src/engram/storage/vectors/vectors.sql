-- list_embedders --
-- Returns role, number and identity of the embedders that have a role, up to which change their vectors
-- are in an index of the database, and of all vectors the last change and those that were forgotten.
SELECT role, number, identity, /*sqlite:*/ NULL /*postgres: near_upto */, seq, forgotten
FROM embedder LEFT JOIN vector_state ON vector_state.organization_id = :organization_id
WHERE embedder.organization_id = :organization_id AND role <> 'old';

-- add_embedder --
INSERT INTO embedder (organization_id, role, identity)
VALUES (:organization_id, :role, :identity)
RETURNING number;

-- take_seqs --
-- Gives out `count` numbers; returns the last of them.
UPDATE vector_state SET seq = seq + :count WHERE organization_id = :organization_id
RETURNING seq;

-- add_instant_vector --
INSERT INTO instant_vector
    (seq, organization_id, embedder, key, start_character, end_character, content)
VALUES (:seq, :organization_id, :embedder, :key, :start, :end, :content);

-- add_vector --
INSERT INTO vector
    (seq, organization_id, embedder, key, start_character, end_character, content, tokens)
VALUES (:seq, :organization_id, :embedder, :key, :start, :end, :content, :tokens);

-- delete_instant_vectors --
DELETE FROM instant_vector
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;

-- delete_vectors --
DELETE FROM vector
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;

-- count_instant_vectors --
SELECT count(*) FROM instant_vector WHERE organization_id = :organization_id AND key = :key;

-- count_vectors --
SELECT count(*) FROM vector WHERE organization_id = :organization_id AND key = :key;

-- copy_instant_vectors --
-- Gives the vectors of one message to another, numbered from after `before`.
INSERT INTO instant_vector
    (seq, organization_id, embedder, key, start_character, end_character, content)
SELECT :before + row_number() OVER (PARTITION BY organization_id ORDER BY seq),
    organization_id, embedder, :new,
    start_character, end_character, content
FROM instant_vector
WHERE organization_id = :organization_id AND key = :key;

-- copy_vectors --
INSERT INTO vector
    (seq, organization_id, embedder, key, start_character, end_character, content, tokens)
SELECT :before + row_number() OVER (PARTITION BY organization_id ORDER BY seq),
    organization_id, embedder, :new,
    start_character, end_character, content, tokens
FROM vector
WHERE organization_id = :organization_id AND key = :key;

-- add_removal --
INSERT INTO vector_removal (seq, organization_id, first_key, last_key)
VALUES (:seq, :organization_id, :first, :last);

-- count_change --
UPDATE counters SET vectors = vectors + :vectors, pending = pending + :pending
WHERE organization_id = :organization_id;

-- instant_vectors_since --
-- Returns seq, key and content of the next vectors after `seq`.
SELECT seq, key, content FROM instant_vector
WHERE organization_id = :organization_id AND seq > :seq AND embedder = :embedder
ORDER BY seq LIMIT :limit;

-- vectors_since --
SELECT seq, key, content FROM vector
WHERE organization_id = :organization_id AND seq > :seq AND embedder = :embedder
ORDER BY seq LIMIT :limit;

-- replaced_since --
-- Returns the keys whose instant vectors were replaced by deep ones.
SELECT DISTINCT key FROM vector
WHERE organization_id = :organization_id AND seq > :seq AND seq <= :upto AND embedder = :deep;

-- removed_since --
-- Returns the first and last keys of removed conversations.
SELECT first_key, last_key FROM vector_removal
WHERE organization_id = :organization_id AND seq > :seq AND seq <= :upto;

-- passages_of_messages --
-- Returns key, range and content of the deep vectors of some messages.
SELECT key, start_character, end_character, content FROM vector
WHERE organization_id = :organization_id AND embedder = :embedder
    AND key IN (SELECT value FROM json_each(:keys))
ORDER BY key, start_character, end_character LIMIT :limit;

-- tokens_of_messages --
-- Returns key and token vectors of those of some messages that have any.
SELECT key, tokens FROM vector
WHERE organization_id = :organization_id AND embedder = :embedder AND tokens IS NOT NULL
    AND key IN (SELECT value FROM json_each(:keys))
ORDER BY key;

-- instant_passages_of_messages --
SELECT key, start_character, end_character, content FROM instant_vector
WHERE organization_id = :organization_id AND embedder = :embedder
    AND key IN (SELECT value FROM json_each(:keys))
ORDER BY key, start_character, end_character LIMIT :limit;
