-- find_number --
-- Returns the number of an organisation.
SELECT number FROM organization WHERE organization_id = :public_id;

-- find_meta --
SELECT 1 FROM meta WHERE organization_id = :organization_id;

-- add_meta --
INSERT INTO meta (organization_id, public_id) VALUES (:organization_id, :public_id);

-- add_word_index --
INSERT INTO word_index (organization_id) VALUES (:organization_id);

-- mark_deleted --
UPDATE meta SET is_deleted = 1 WHERE organization_id = :organization_id;

-- plan_removal --
INSERT INTO removal (number, organization_id) VALUES (:organization_id, :public_id);

-- list_removals --
-- Returns the numbers of deleted organisations whose rows are still there.
SELECT number FROM removal ORDER BY number;

-- finish_removal --
DELETE FROM removal WHERE number = :organization_id;

-- tenant_tables --
-- Returns the names of the tables of organisations, each after those that refer to it.
WITH RECURSIVE tenant (table_id) AS (
    SELECT attrelid FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'engram'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND attname = 'organization_id' AND atttypid = 'bigint'::regtype
),
depth (table_id, level) AS (
    SELECT table_id, 0 FROM tenant
    UNION
    SELECT confrelid, level + 1 FROM depth JOIN pg_constraint
        ON conrelid = table_id AND contype = 'f' AND confrelid <> conrelid
)
SELECT quote_ident(relname) FROM depth JOIN pg_class ON pg_class.oid = table_id
GROUP BY relname ORDER BY max(level), relname;

-- delete_rows --
DELETE FROM /*table*/ WHERE organization_id = :organization_id;
