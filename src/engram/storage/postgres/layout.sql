-- tables --
-- Returns each table that can be spread over servers, each after those it refers to, and whether it
-- is of organisations. The vectors of big organisations have a partition each, where they are.
WITH RECURSIVE known (table_id, name, is_tenant) AS (
    SELECT pg_class.oid, relname, EXISTS
        (SELECT 1 FROM pg_attribute
         WHERE attrelid = pg_class.oid
             AND attname = 'organization_id' AND atttypid = 'bigint'::regtype)
    FROM pg_class
    WHERE relnamespace = to_regnamespace('engram') AND relkind = 'r' AND NOT relispartition
        AND NOT starts_with(relname, 'near_vector')
),
depth (table_id, level) AS (
    SELECT table_id, 0 FROM known
    UNION
    SELECT conrelid, level + 1 FROM depth JOIN pg_constraint
        ON confrelid = table_id AND contype = 'f' AND conrelid <> confrelid
)
SELECT name::text, is_tenant FROM known JOIN depth USING (table_id)
GROUP BY name, is_tenant ORDER BY max(level), name;
