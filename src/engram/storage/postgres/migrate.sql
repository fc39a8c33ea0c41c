-- lock --
-- Held until the transaction ends, so that two processes never do the same step.
SELECT pg_advisory_xact_lock(:lock);

-- find_table --
SELECT to_regclass('engram.migration') IS NOT NULL;

-- create_table --
CREATE SCHEMA IF NOT EXISTS engram;
CREATE TABLE engram.migration (
    version    bigint PRIMARY KEY,
    name       text COLLATE "C" NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- prepare --
-- Lets a migration name tables without their schema, and take its time.
SET LOCAL search_path = engram, pg_temp;
SET LOCAL statement_timeout = 0;

-- get_version --
SELECT coalesce(max(version), 0) FROM engram.migration;

-- record --
INSERT INTO engram.migration (version, name) VALUES (:version, :name);
