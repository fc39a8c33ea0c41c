-- get_version --
-- Returns the number of applied migrations.
PRAGMA user_version;

-- has_file --
-- Returns 1 if an organisation ever stored anything.
SELECT has_file FROM organization WHERE organization_id = :organization_id;

-- skip_numbers --
-- Raises the last serial number of a table that has assigned some.
UPDATE sqlite_sequence SET seq = :number WHERE name = :table AND seq < :number;

-- begin_numbers --
-- Sets the last serial number of a numbered table that never had a row.
INSERT INTO sqlite_sequence (name, seq)
SELECT name, :number FROM sqlite_schema
WHERE type = 'table' AND name = :table AND sql LIKE '%AUTOINCREMENT%'
    AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :table);
