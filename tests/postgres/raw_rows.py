"""Reach into an organisation's rows in PostgreSQL, past everything that keeps them whole."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from engram.storage.organization import OrganizationStore
from engram.storage.postgres.connection import PostgresConnection, set_up
from engram.storage.rows.database import Connection, Cursor
from tests.postgres.databases import as_owner

_DROP_CHECKS = """
DO $$
DECLARE
    drop_it text;
BEGIN
    FOR drop_it IN
        SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
        FROM pg_constraint
        WHERE contype = 'c' AND connamespace = 'engram'::regnamespace
    LOOP
        EXECUTE drop_it;
    END LOOP;
END
$$
"""

_BYTES = (
    (re.compile(r"\bx'(\w*)'"), r"'\\x\1'::bytea"),
    (re.compile(r"\bzeroblob\((\d+)\)"), r"decode(repeat('00', \1), 'hex')"),
)


@contextmanager
def opened_rows(url: str, organization: OrganizationStore) -> Generator[RawRows]:
    """Open an organisation's rows without the checks of their constraints; commit at the end."""
    with psycopg.connect(as_owner(url), autocommit=True) as driver:
        driver.execute("SET session_replication_role = replica")
        driver.execute(_DROP_CHECKS)
        number = str(organization.tenant.number)
        set_up(driver)
        with driver.transaction():
            driver.execute("SELECT set_config('engram.organization_id', %s, true)", [number])
            yield RawRows(driver)


class RawRows(PostgresConnection):
    """A connection that also takes values without names, and what damage is said in for SQLite."""

    def execute(self, statement: str, values: Mapping[str, Any] | Sequence[Any] = (), /) -> Cursor:
        if statement == "PRAGMA ignore_check_constraints = ON":
            return super().execute("SELECT 1")
        for pattern, replacement in _BYTES:
            statement = pattern.sub(replacement, statement)
        if isinstance(values, Mapping):
            return super().execute(statement, values)
        for place in range(len(values)):
            statement = statement.replace("?", f":value{place}", 1)
        named = {f"value{place}": value for place, value in enumerate(values)}
        return super().execute(statement, named)

    def executemany(
        self, statement: str, rows: Iterable[Mapping[str, Any] | Sequence[Any]], /
    ) -> object:
        for row in rows:
            self.execute(statement, row)


def refuse_rows(connection: Connection, change: str, *, when: str) -> None:
    """Let a change of a table fail from now on, as only the owner of the tables can."""
    connection.execute("RESET ROLE")
    connection.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'no'; END $$"
    )
    connection.execute(
        f"CREATE TRIGGER refuse BEFORE {change} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION refuse()"
    )
    connection.execute("SET ROLE engram_app")
