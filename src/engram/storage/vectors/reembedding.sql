-- find_unmoved --
-- Returns key and characters of the next messages after a key that have no vector of an embedder.
SELECT key, characters FROM message
WHERE organization_id = :organization_id AND key > :after
    AND key NOT IN (SELECT value FROM json_each(:without))
    AND NOT EXISTS
        (SELECT 1 FROM vector
         WHERE vector.organization_id = :organization_id AND vector.key = message.key
             AND vector.embedder = :embedder)
ORDER BY key
LIMIT :limit;

-- last_unmoved --
-- Returns the key of the last message before a key that has no vector of an embedder.
SELECT key FROM message
WHERE organization_id = :organization_id AND key < :before
    AND NOT EXISTS
        (SELECT 1 FROM vector
         WHERE vector.organization_id = :organization_id AND vector.key = message.key
             AND vector.embedder = :embedder)
ORDER BY key DESC
LIMIT 1;

-- any_place --
-- Returns a number from 0 to below `count`, another one each time.
SELECT /*sqlite:*/ abs(random() % :count) /*postgres: floor(random() * :count)::bigint */;

-- lacking --
-- Returns those of a JSON list of keys whose messages exist without a vector of an embedder.
SELECT key FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys))
    AND NOT EXISTS
        (SELECT 1 FROM vector
         WHERE vector.organization_id = :organization_id AND vector.key = message.key
             AND vector.embedder = :embedder);

-- measure_unmoved --
-- Returns how many messages there are, how many have no vector of an embedder, and about how many
-- passages those have.
SELECT count(*), count(unmoved),
    coalesce(sum(
        CASE WHEN unmoved > :passage_characters
            THEN (unmoved + :passage_characters - 1) / :passage_characters
        WHEN unmoved IS NOT NULL THEN 1 END), 0)
FROM
    (SELECT
        CASE WHEN NOT EXISTS
            (SELECT 1 FROM vector
             WHERE vector.organization_id = :organization_id AND vector.key = message.key
                 AND vector.embedder = :embedder)
            THEN characters END AS unmoved
     FROM message
     WHERE organization_id = :organization_id);

-- change_role --
UPDATE embedder SET role = :role
WHERE organization_id = :organization_id AND number = :number;

-- keep_instants --
-- Gives the instant vectors of a JSON list of messages to the present instant embedder.
UPDATE instant_vector SET embedder =
    (SELECT number FROM embedder WHERE organization_id = :organization_id AND role = 'instant')
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));

-- end_waiting --
-- Removes all waiting messages but those of a JSON list.
DELETE FROM unembedded
WHERE organization_id = :organization_id
    AND key NOT IN (SELECT value FROM json_each(:keys));

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
