-- find_undivided --
-- Returns key and characters of the next messages of conversations with one vector of an embedder.
SELECT key, characters FROM message
WHERE organization_id = :organization_id AND key > :after AND key < 72057594037927936
    AND characters BETWEEN :characters_min AND :characters_max
    AND
        (SELECT count(*) FROM vector
         WHERE vector.organization_id = :organization_id AND vector.key = message.key
             AND vector.embedder = :embedder) = 1
ORDER BY key
LIMIT :limit;

-- ranges --
-- Returns the first character and the end of each passage of a message that has a vector.
SELECT start_character, end_character FROM vector
WHERE organization_id = :organization_id AND key = :key AND embedder = :embedder;
