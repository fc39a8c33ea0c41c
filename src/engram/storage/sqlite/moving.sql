-- get_version --
-- Returns how many migrations made the file.
PRAGMA user_version;

-- has_file --
-- Returns whether an organisation ever stored anything.
SELECT has_file FROM organization WHERE organization_id = :organization_id;

-- skip_numbers --
-- Has a table that has given numbers go on behind this one.
UPDATE sqlite_sequence SET seq = :number WHERE name = :table AND seq < :number;

-- begin_numbers --
-- The same for a table that counts its rows and never had any.
INSERT INTO sqlite_sequence (name, seq)
SELECT name, :number FROM sqlite_schema
WHERE type = 'table' AND name = :table AND sql LIKE '%AUTOINCREMENT%'
    AND NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = :table);
