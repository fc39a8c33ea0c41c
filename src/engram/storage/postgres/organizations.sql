-- find_meta --
-- Returns the home that an organisation was moved to, and the number of its rows there; NULL if it was not.
SELECT moved_to, moved_number FROM meta WHERE organization_id = :organization_id;

-- add_meta --
INSERT INTO meta (organization_id, public_id) VALUES (:organization_id, :public_id);

-- add_word_index --
INSERT INTO word_index (organization_id) VALUES (:organization_id);

-- add_due --
-- Has work looked for once: the rows may have come from elsewhere.
INSERT INTO due (organization_id, kind, due_at) VALUES (:organization_id, :kind, 0)
ON CONFLICT DO NOTHING;

-- mark_deleted --
UPDATE meta SET is_deleted = 1 WHERE organization_id = :organization_id;

-- list_removals --
-- Returns the numbers of organisations that are gone, and whose rows are still there.
SELECT number FROM removal WHERE home IS NULL ORDER BY number;

-- finish_removal --
DELETE FROM removal WHERE number = :organization_id;

-- tenant_tables --
-- Returns the names of the tables of organisations, each after those that refer to it. Parts of tables
-- that Citus has made are named after them and a long number.
WITH RECURSIVE tenant (table_id) AS (
    SELECT attrelid FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'engram'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND attname = 'organization_id' AND atttypid = 'bigint'::regtype
        AND (starts_with(relname, 'near_vector') OR relname !~ '_[0-9]{6,}$')
),
depth (table_id, level) AS (
    SELECT table_id, 0 FROM tenant
    UNION
    SELECT confrelid, level + 1 FROM depth JOIN pg_constraint
        ON conrelid = table_id AND contype = 'f' AND confrelid <> conrelid
)
SELECT quote_ident(relname) FROM depth JOIN pg_class ON pg_class.oid = table_id
GROUP BY relname ORDER BY max(level), relname;

-- delete_some_rows --
-- Removes some rows of an organisation. A ctid may name a row in each partition: all of them are to go.
DELETE FROM /*table*/ WHERE organization_id = :organization_id AND ctid = ANY (ARRAY(
    SELECT ctid FROM /*table*/ WHERE organization_id = :organization_id /*condition*/ LIMIT :limit
));

-- log_nothing --
-- Writes to the log of the database and to no table, so that its commit shows whether there is room.
SELECT pg_logical_emit_message(true, 'engram', '');
