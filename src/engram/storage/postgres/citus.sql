-- What is in braces is put in as text: names of this program's own tables.

-- is_there --
-- Says whether the server can distribute tables.
SELECT EXISTS (SELECT 1 FROM pg_proc WHERE proname = 'create_distributed_table');

-- placed --
-- Returns the tables that are distributed, or on every server.
SELECT relname::text FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid
WHERE relnamespace = to_regnamespace('engram');

-- let_in --
-- Servers connect to each other as the role that a transaction runs as.
ALTER ROLE engram_app LOGIN;

-- pass_on --
-- Row-level security holds on every server, which must know the organisation.
ALTER DATABASE {database} SET citus.propagate_set_commands = 'local';

-- place_everywhere --
SELECT create_reference_table({table});

-- distribute_first --
SELECT create_distributed_table({table}, 'organization_id', colocate_with => 'none');

-- distribute --
SELECT create_distributed_table({table}, 'organization_id', colocate_with => {first});
