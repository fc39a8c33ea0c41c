-- find_table --
-- Returns whether the database was ever Engram's.
SELECT to_regclass('engram.migration') IS NOT NULL;

-- get_version --
-- Returns how many migrations made the tables.
SELECT coalesce(max(version), 0) FROM engram.migration;

-- skip_numbers --
-- Has a table that counts its rows go on behind this number.
SELECT setval(sequence, :number)
FROM (
    SELECT pg_get_serial_sequence('engram.' || :table, attname)::regclass AS sequence
    FROM pg_attribute
    WHERE attrelid = ('engram.' || :table)::regclass AND attidentity <> ''
) AS counting
WHERE coalesce(pg_sequence_last_value(sequence), 0) < :number;
