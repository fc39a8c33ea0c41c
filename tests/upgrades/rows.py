"""The rows of a database of an earlier version, table by table, as COPY writes them."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
from psycopg import sql

from engram.storage.postgres.migrate import load_migrations, migrate

_TABLES = """
SELECT c.relname FROM pg_class AS c
WHERE c.relnamespace = 'engram'::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition AND c.relname <> 'migration'
ORDER BY c.relname
"""
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = format('engram.%%I', %s::text)::regclass AND attnum > 0 AND NOT attisdropped
    AND attgenerated = ''
ORDER BY attname
"""
_SEQUENCES = """
SELECT sequencename, coalesce(last_value, 0) FROM pg_sequences
WHERE schemaname = 'engram' ORDER BY sequencename
"""
SEQUENCES = "sequences"


def dump_rows(url: str) -> dict[str, bytes]:
    """Return the rows of each table that has some, and how far the sequences have come."""
    with psycopg.connect(url) as connection:
        found: dict[str, bytes] = {}
        for (table,) in connection.execute(_TABLES).fetchall():
            columns = [name for (name,) in connection.execute(_COLUMNS, (table,))]
            content = _copied(connection, table, columns)
            if content:
                found[table] = (" ".join(columns) + "\n").encode() + content
        rows = connection.execute(_SEQUENCES).fetchall()
        found[SEQUENCES] = "\n".join(f"{name} {value}" for name, value in rows).encode()
        return found


def restore_rows(url: str, files: Mapping[str, bytes], *, version: int) -> None:
    """Make the tables of a schema and put rows into them."""
    with psycopg.connect(url) as connection:
        connection.autocommit = True
        migrate(connection, load_migrations()[:version])
        connection.autocommit = False
        # Rows that refer to others come in any order.
        connection.execute("SET session_replication_role = replica")
        for (table,) in connection.execute(_TABLES).fetchall():
            connection.execute(sql.SQL("DELETE FROM engram.{}").format(sql.Identifier(table)))
        for table, content in files.items():
            if table != SEQUENCES:
                _put(connection, table, content)
        for line in files[SEQUENCES].decode().splitlines():
            name, value = line.split()
            if int(value):
                connection.execute(
                    "SELECT setval(%s::regclass, %s)", (f"engram.{name}", int(value))
                )


def _copied(connection: psycopg.Connection, table: str, columns: list[str]) -> bytes:
    statement = sql.SQL("COPY (SELECT {} FROM engram.{} ORDER BY 1, 2) TO STDOUT").format(
        _names(columns), sql.Identifier(table)
    )
    with connection.cursor().copy(statement) as copy:
        return b"".join(bytes(part) for part in copy)


def _put(connection: psycopg.Connection, table: str, content: bytes) -> None:
    head, _, rows = content.partition(b"\n")
    statement = sql.SQL("COPY engram.{} ({}) FROM STDIN").format(
        sql.Identifier(table), _names(head.decode().split())
    )
    with connection.cursor().copy(statement) as copy:
        copy.write(rows)


def _names(columns: list[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))
