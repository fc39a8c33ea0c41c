-- Names and values that are put in as text stand in braces.
--
-- The coordinator has the control tables. Each table of organisations is there in name: it is parted
-- by the organisation's number, and each part is the table of that name in the database of a shard.
-- The empty tables that migrations made are kept aside in `engram_whole`; they know what a table is
-- made of, and migrations change them.

-- is_spread --
SELECT to_regnamespace('engram_whole') IS NOT NULL;

-- be_impatient --
-- Processes that were to be stopped, and were not, may be in the way.
SET lock_timeout = '30s';

-- is_used --
-- Says whether an organisation has rows in this database; only of use when row-level security is
-- not forced upon the owner.
SELECT EXISTS (SELECT 1 FROM engram.meta);

-- see_control --
-- Row-level security is forced upon the owner too.
SET LOCAL engram.control = 'all';

-- has_organizations --
SELECT EXISTS (SELECT 1 FROM engram.organization);

-- database --
-- Returns what is the same for two connections to one database alone.
SELECT pg_postmaster_start_time()::text, oid::bigint FROM pg_database
WHERE datname = current_database();

-- places --
-- Returns how many shards there are.
SELECT count(*) FROM pg_foreign_server WHERE srvname ~ '^engram_shard_[0-9]+$';

-- find_place --
SELECT to_regclass('engram.place') IS NOT NULL;

-- get_place --
-- Returns which of how many shards a database is.
SELECT place, places FROM engram.place;

-- make_place --
CREATE TABLE engram.place (place bigint NOT NULL, places bigint NOT NULL);

-- put_place --
INSERT INTO engram.place (place, places) VALUES ({place}, {places});

-- trust_owner --
-- The coordinator comes as the owner; whose rows it may see was decided there.
ALTER TABLE engram.{table} NO FORCE ROW LEVEL SECURITY;

-- strict_keys --
-- Returns table and name of foreign keys between tables of organisations that forbid a removal.
SELECT relname::text, conname::text FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid
WHERE connamespace = 'engram'::regnamespace AND contype = 'f' AND confdeltype = 'a'
    AND NOT condeferrable AND relname::text = ANY(:tables)
ORDER BY relname, conname;

-- check_late --
-- The coordinator does not know which tables refer to which, and removes rows in any order.
ALTER TABLE engram.{table} ALTER CONSTRAINT {key} DEFERRABLE INITIALLY DEFERRED;

-- add_wrapper --
CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA public;

-- add_server --
CREATE SERVER {server} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options});

-- add_user --
CREATE USER MAPPING FOR {user} SERVER {server} OPTIONS ({options});

-- add_schema --
CREATE SCHEMA {schema};

-- join_in_shards --
-- Tables of one shard are joined there.
ALTER DATABASE {database} SET enable_partitionwise_join = on;

-- put_aside --
ALTER TABLE engram.{table} SET SCHEMA engram_whole;

-- part_table --
CREATE TABLE engram.{table} (
    LIKE engram_whole.{table} INCLUDING DEFAULTS INCLUDING IDENTITY INCLUDING CONSTRAINTS
) PARTITION BY HASH (organization_id);

-- add_part --
CREATE FOREIGN TABLE {server}.{table} PARTITION OF engram.{table}
    FOR VALUES WITH (MODULUS {places}, REMAINDER {place})
    SERVER {server} OPTIONS (schema_name 'engram', table_name {name});

-- force_security --
ALTER TABLE engram.{table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

-- secure --
CREATE POLICY own_rows ON engram.{table}
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

-- grant --
GRANT SELECT, INSERT, UPDATE, DELETE ON engram.{table} TO engram_app;

-- grant_numbers --
GRANT USAGE ON ALL SEQUENCES IN SCHEMA engram TO engram_app;

-- make_wait --
-- A shard reads as of the first statement a transaction sends it, which must come after all that
-- others write: so who writes waits here, before anything is sent.
CREATE FUNCTION engram.wait_for_writer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(
        (1466001780::bigint << 32) | current_setting('engram.organization_id')::bigint);
    RETURN NULL;
END
$$;

-- have_wait --
CREATE TRIGGER one_writer BEFORE UPDATE ON engram.meta
    FOR EACH STATEMENT EXECUTE FUNCTION engram.wait_for_writer();

-- counted --
-- Returns table, column and last number of tables that count their rows.
SELECT relname::text, attname::text,
    pg_sequence_last_value(pg_get_serial_sequence('engram.' || relname, attname)::regclass)
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relnamespace = 'engram'::regnamespace AND relkind = 'p' AND attidentity <> ''
ORDER BY relname;

-- go_on --
SELECT setval(pg_get_serial_sequence({name}, {column}), {number});

-- parted --
-- Returns the tables that are parted over shards.
SELECT relname::text FROM pg_partitioned_table JOIN pg_class ON pg_class.oid = partrelid
WHERE relnamespace = 'engram'::regnamespace AND partstrat = 'h'
ORDER BY relname;

-- drop_table --
DROP TABLE engram.{table};

-- drop_wait --
DROP FUNCTION engram.wait_for_writer();

-- bring_back --
ALTER TABLE engram_whole.{table} SET SCHEMA engram;

-- drop_schema --
DROP SCHEMA {schema};

-- drop_server --
DROP SERVER {server} CASCADE;

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
