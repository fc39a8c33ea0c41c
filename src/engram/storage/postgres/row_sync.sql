-- Statements on any table of an organisation; the braces are filled with its name and columns.

-- columns --
-- Returns the columns of a table in order: name, type, place in the primary key or NULL.
SELECT attname::text, format_type(atttypid, atttypmod), array_position(indkey::int2[], attnum)::bigint
FROM pg_attribute JOIN pg_index ON indrelid = attrelid AND indisprimary
WHERE attrelid = to_regclass('engram.' || :table) AND attnum > 0 AND NOT attisdropped
ORDER BY attnum;

-- has_references --
-- Returns whether rows of other tables refer to rows of a table.
SELECT EXISTS (
    SELECT 1 FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('engram.' || :table));

-- checksum --
-- Returns how many rows are within a range of keys, and order-independent sums of their hashes.
SELECT count(*), coalesce(sum(hash_record_extended(ROW({columns}), 0)), 0),
    coalesce(sum(hash_record_extended(ROW({columns}), 1)), 0)
FROM {table} WHERE organization_id = :organization_id {within};

-- key_at --
-- Returns a key by its place within a range.
SELECT {key} FROM {table} WHERE organization_id = :organization_id {within}
ORDER BY {key} OFFSET :place LIMIT 1;

-- keys --
-- Returns the first keys within a range, and how large their rows are.
SELECT {key}, {size} FROM {table} WHERE organization_id = :organization_id {within}
ORDER BY {key} LIMIT :limit;

-- rows --
SELECT {columns} FROM {table} WHERE organization_id = :organization_id {within};

-- add_rows --
-- Rows that exist are changed, or left alone.
INSERT INTO {table} (organization_id, {columns})
SELECT :organization_id, added.* FROM unnest({arrays}) AS added
ON CONFLICT {conflict};

-- remove_rows --
DELETE FROM {table} WHERE organization_id = :organization_id {within};

-- remove_row --
DELETE FROM {table} WHERE organization_id = :organization_id AND ({key}) = ({same});

-- find_sequence --
-- Returns the sequence that numbers the rows of a table; NULL if none does.
SELECT pg_get_serial_sequence('engram.' || :table, :column);

-- last_assigned --
-- Returns the last number that the database itself assigned to rows of a table; NULL if it assigned none.
SELECT pg_sequence_last_value(pg_get_serial_sequence('engram.' || :table, :column)::regclass);

-- last_number --
SELECT coalesce(max({key}), 0) FROM {table} WHERE organization_id = :organization_id;
