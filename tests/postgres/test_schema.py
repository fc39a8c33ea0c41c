"""The readable schema is the sum of the migrations, by what the catalogs of a server say of both."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import psycopg
import pytest

from engram.storage.postgres.migrate import load_migrations, migrate
from tests.postgres.servers import Server
from tests.promises import promise

CATALOGS = {
    "tables": """
        SELECT relname, relkind, relpersistence, relrowsecurity, relforcerowsecurity, reloptions,
            pg_get_partkeydef(oid), pg_get_userbyid(relowner)
        FROM pg_class
        WHERE relnamespace = 'engram'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        """,
    "columns": """
        SELECT relname, attnum, attname, format_type(atttypid, atttypmod), attnotnull, attidentity,
            attgenerated, attstorage, attcompression, attcollation::regcollation::text,
            pg_get_expr(adbin, adrelid)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = 'engram'::regnamespace AND relkind IN ('r', 'p') AND attnum > 0
            AND NOT attisdropped
        """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype, condeferrable, condeferred, convalidated,
            pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'engram'::regnamespace
        """,
    "indexes": """
        SELECT indrelid::regclass::text, indexrelid::regclass::text, indisvalid,
            pg_get_indexdef(indexrelid)
        FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = 'engram'::regnamespace
        """,
    "sequences": """
        SELECT seqrelid::regclass::text, seqtypid::regtype::text, seqstart, seqincrement, seqmin,
            seqmax, seqcache, seqcycle, refobjid::regclass::text, refobjsubid
        FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid
        LEFT JOIN pg_depend ON objid = seqrelid AND deptype IN ('a', 'i')
        WHERE relnamespace = 'engram'::regnamespace
        """,
    "policies": """
        SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check
        FROM pg_policies WHERE schemaname = 'engram'
        """,
    "functions": """
        SELECT oid::regprocedure::text, pg_get_functiondef(oid), pg_get_userbyid(proowner)
        FROM pg_proc WHERE pronamespace = 'engram'::regnamespace
        """,
    "triggers": """
        SELECT pg_get_triggerdef(pg_trigger.oid)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = 'engram'::regnamespace AND NOT tgisinternal
        """,
    "grants": """
        SELECT name, pg_get_userbyid(grantee), privilege_type, is_grantable FROM
            (SELECT relname AS name, relacl AS acl FROM pg_class
             WHERE relnamespace = 'engram'::regnamespace
             UNION ALL
             SELECT oid::regprocedure::text, proacl FROM pg_proc
             WHERE pronamespace = 'engram'::regnamespace
             UNION ALL
             SELECT nspname, nspacl FROM pg_namespace WHERE nspname = 'engram'
             UNION ALL
             SELECT relname || '.' || attname, attacl
             FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
             WHERE relnamespace = 'engram'::regnamespace) AS granted,
            aclexplode(acl)
        """,
    "extensions": """
        SELECT extname, nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        """,
    "rows": "SELECT number, revision, recent_writes FROM engram.control_state",
}
"""What tells whether two schemas are the same; `public` and the rest are not Engram's."""


@pytest.fixture(scope="module")
def catalogs(postgres_server: Server) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the catalogs say after the migrations, and after the readable schema."""
    whole = files("engram.storage.postgres").joinpath("schema.sql").read_text()
    for name in ("engram_migrated", "engram_readable"):
        postgres_server.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(postgres_server.url("engram_migrated"), autocommit=True) as driver:
        migrate(driver, load_migrations())
        migrated = read_catalogs(driver)
    with psycopg.connect(postgres_server.url("engram_readable")) as driver:
        driver.execute(whole.encode())
        readable = read_catalogs(driver)
    for name in ("engram_migrated", "engram_readable"):
        postgres_server.execute(f"DROP DATABASE {name} WITH (FORCE)")
    return migrated, readable


def read_catalogs(driver: psycopg.Connection[Any]) -> dict[str, list[Any]]:
    # Names are qualified unless the search path has them.
    driver.execute("SET search_path = pg_catalog")
    return {
        name: sorted(driver.execute(query.encode()).fetchall(), key=repr)
        for name, query in CATALOGS.items()
    }


@promise("migrations")
@pytest.mark.parametrize("kind", CATALOGS)
def test_the_readable_schema_equals_the_sum_of_the_migrations(
    catalogs: tuple[dict[str, Any], dict[str, Any]], kind: str
) -> None:
    migrated, readable = catalogs

    assert readable[kind] == migrated[kind]


def test_the_catalogs_say_something(catalogs: tuple[dict[str, Any], dict[str, Any]]) -> None:
    migrated, _ = catalogs

    assert {kind for kind, found in migrated.items() if not found} == {"triggers"}
