-- Names and values that are put in as text stand in braces.

-- may_act --
-- Returns whether the user of this connection may take the role that requests run as.
SELECT EXISTS (
    SELECT 1 FROM pg_roles WHERE rolname = 'engram_app' AND pg_has_role(oid, 'SET'));

-- act --
SET LOCAL ROLE engram_app;

-- find_login --
-- Returns whether a user could put row-level security aside; no row if there is no such user.
SELECT rolsuper OR rolbypassrls OR EXISTS (
    SELECT 1 FROM pg_namespace
    WHERE nspname = 'engram' AND pg_has_role(pg_roles.oid, nspowner, 'MEMBER'))
FROM pg_roles WHERE rolname = :login;

-- add_login --
CREATE ROLE {login} LOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;

-- set_password --
ALTER ROLE {login} PASSWORD {password};

-- grant_role --
-- Nothing is inherited: what the user may do, it may do as `engram_app`.
GRANT engram_app TO {login} WITH INHERIT FALSE, SET TRUE;

-- may_connect --
SELECT has_database_privilege(:login, current_database(), 'CONNECT');

-- let_connect --
GRANT CONNECT ON DATABASE {database} TO {login};
