-- Texts that are compressed with a dictionary; `{table}` is one that holds some, `{key}` its key.

-- has_dictionary --
-- Returns a row if there is any.
SELECT 1 FROM dictionary WHERE organization_id = :organization_id LIMIT 1;

-- dictionaries --
-- Returns the numbers of the dictionaries that are in use.
SELECT id FROM dictionary WHERE organization_id = :organization_id AND is_retired = 0;

-- retire_dictionaries --
-- Has nothing compressed with the present dictionaries any more; returns the number of the last.
UPDATE dictionary SET is_retired = 1 WHERE organization_id = :organization_id
RETURNING (SELECT max(id) FROM dictionary WHERE organization_id = :organization_id);

-- encoded --
-- Returns the key, encoding and content of the next texts that need a dictionary.
SELECT {key}, content_encoding, CAST(content AS BLOB) FROM {table}
WHERE +organization_id = :organization_id AND content_encoding LIKE 'zstd:%' {after}
ORDER BY {key}
LIMIT :limit;

-- encode --
-- Only the encoding changes; a row that is gone or has another text meanwhile is left alone.
UPDATE {table} SET content_encoding = :content_encoding, content = :content
WHERE organization_id = :organization_id AND content_encoding = :was {which};

-- drop_dictionaries --
DELETE FROM dictionary WHERE organization_id = :organization_id AND id <= :upto;

-- count_erasures --
-- Returns how many erasures were begun, and how many of them have texts left to remove.
SELECT count(*), coalesce(sum(CASE WHEN state IN ('hiding', 'removing') THEN 1 ELSE 0 END), 0)
FROM erasure WHERE organization_id = :organization_id;
