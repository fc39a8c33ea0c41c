-- Statements on any table of an organisation; the braces are filled with its name and columns.

-- columns --
-- Returns the names of a table's columns.
/*sqlite:*/ SELECT name FROM pragma_table_info(:table)
/*postgres: SELECT column_name::text FROM information_schema.columns
WHERE table_schema = 'engram' AND table_name = :table */;

-- count --
SELECT count(*) FROM {table} WHERE organization_id = :organization_id;

-- sizes --
-- Returns the bytes of content of the next rows; the plus makes SQLite use the index of the key.
SELECT coalesce(length(CAST(content AS BLOB)), 0) FROM {table}
WHERE +organization_id = :organization_id {after} ORDER BY {key} LIMIT :limit;

-- page --
-- Returns the next rows.
SELECT {columns} FROM {table}
WHERE +organization_id = :organization_id {after} ORDER BY {key} LIMIT :limit;

-- only_row --
SELECT {columns} FROM {table} WHERE organization_id = :organization_id;

-- insert --
-- Skips rows that exist: an interrupted copy repeats its last page.
INSERT INTO {table} (organization_id, {written}) VALUES (:organization_id, {values})
ON CONFLICT DO NOTHING;

-- clear --
DELETE FROM {table} WHERE organization_id = :organization_id;

-- last_number --
SELECT coalesce(max({key}), 0) FROM {table} WHERE organization_id = :organization_id;

-- last_assigned --
-- Returns the last number that the database itself assigned to a row of a table; no row, or NULL, if it assigns none.
/*sqlite:*/ SELECT seq FROM sqlite_sequence WHERE name = :table
/*postgres: SELECT pg_sequence_last_value(
    pg_get_serial_sequence('engram.' || :table, :column)::regclass) */;
