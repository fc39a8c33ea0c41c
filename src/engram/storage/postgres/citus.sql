-- Names and values that are put in as text stand in braces.

-- tables --
-- Returns each table that can be spread over servers, each after those it refers to, and whether it
-- is of organisations. The vectors of big organisations have a partition each, where they are. Parts of
-- tables that Citus has made are named after them and a long number.
WITH RECURSIVE known (table_id, name, is_tenant) AS (
    SELECT pg_class.oid, relname, EXISTS
        (SELECT 1 FROM pg_attribute
         WHERE attrelid = pg_class.oid
             AND attname = 'organization_id' AND atttypid = 'bigint'::regtype)
    FROM pg_class
    WHERE relnamespace = to_regnamespace('engram') AND relkind = 'r' AND NOT relispartition
        AND NOT starts_with(relname, 'near_vector') AND relname !~ '_[0-9]{6,}$'
),
depth (table_id, level) AS (
    SELECT table_id, 0 FROM known
    UNION
    SELECT conrelid, level + 1 FROM depth JOIN pg_constraint
        ON confrelid = table_id AND contype = 'f' AND conrelid <> confrelid
)
SELECT name::text, is_tenant FROM known JOIN depth USING (table_id)
GROUP BY name, is_tenant ORDER BY max(level), name;

-- is_there --
-- Says whether the server can distribute tables.
SELECT EXISTS (SELECT 1 FROM pg_proc WHERE proname = 'create_distributed_table');

-- servers --
-- Returns the servers of the cluster, whether each is in use, and whether it may have rows of
-- distributed tables.
SELECT nodename || ':' || nodeport, isactive, shouldhaveshards FROM pg_dist_node
ORDER BY nodename, nodeport;

-- placed --
-- Returns the tables that are distributed or on every server: how, and with which others.
SELECT relname::text, partmethod::text, colocationid::bigint
FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid
WHERE relnamespace = to_regnamespace('engram');

-- bad_policies --
-- Returns the tables with a policy that has a sub-select, which Citus refuses.
SELECT DISTINCT polrelid::regclass::text
FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid
WHERE relnamespace = to_regnamespace('engram')
    AND concat(pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid)) ~ 'SELECT'
ORDER BY 1;

-- others_tables --
-- Returns the tables whose owner this user is not.
SELECT relname::text FROM pg_class
WHERE relnamespace = to_regnamespace('engram') AND relkind = 'r'
    AND NOT pg_has_role(relowner, 'USAGE')
ORDER BY relname;

-- may_log_in --
-- Says whether requests' role may log in, and whether this user could let it.
SELECT rolcanlogin, pg_has_role(oid, 'USAGE WITH ADMIN OPTION')
FROM pg_roles WHERE rolname = 'engram_app';

-- passes_on --
-- Says whether servers are told the organisation of a transaction.
SELECT EXISTS (
    SELECT 1 FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
    WHERE datname = current_database() AND setrole = 0
        AND 'citus.propagate_set_commands=local' = ANY (setconfig));

-- look_everywhere --
-- Ends what a migration has set in the same transaction.
SET LOCAL search_path = DEFAULT;

-- let_in --
-- Servers connect to each other as the role that a transaction runs as.
ALTER ROLE engram_app LOGIN;

-- pass_on --
-- Row-level security holds on every server, which must know the organisation.
ALTER DATABASE {database} SET citus.propagate_set_commands = 'local';

-- distribute_first --
SELECT create_distributed_table({table}, 'organization_id', colocate_with => 'none');

-- distribute --
SELECT create_distributed_table({table}, 'organization_id', colocate_with => {first});
