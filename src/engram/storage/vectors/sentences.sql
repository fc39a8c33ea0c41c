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

-- find_without_tokens --
-- Returns key and characters of the next messages of conversations whose vector of the whole text has
-- none of tokens beside it.
SELECT message.key, characters FROM message JOIN vector
    ON vector.organization_id = :organization_id AND vector.key = message.key
    AND vector.embedder = :embedder AND start_character = 0 AND end_character = characters
WHERE message.organization_id = :organization_id AND message.key > :after
    AND message.key < 72057594037927936 AND tokens IS NULL
ORDER BY message.key
LIMIT :limit;

-- put_tokens --
UPDATE vector SET tokens = :tokens
WHERE organization_id = :organization_id AND key = :key AND embedder = :embedder
    AND start_character = :start AND end_character = :end AND tokens IS NULL;

-- ranges --
-- Returns the first character and the end of each passage of a message that has a vector.
SELECT start_character, end_character FROM vector
WHERE organization_id = :organization_id AND key = :key AND embedder = :embedder;
