"""Migrations: the readable schema is their sum, and they run once, in order and forward only."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from engram.errors import StoreNewerError
from engram.storage.migrations import Migration
from engram.storage.sqlite.connection import create_file, open_writer
from engram.storage.sqlite.migrate import FileKind, load_migrations, migrate, run_script
from tests.promises import promise

pytestmark = promise("migrations")

KINDS: tuple[FileKind, ...] = ("control", "organization")

STEPS = (
    Migration(
        1, "0001_note.sql", "CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('a;b');"
    ),
    Migration(2, "0002_more.sql", "ALTER TABLE note ADD COLUMN more TEXT; -- ends; here\n"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_the_readable_schema_equals_the_sum_of_the_migrations(kind: FileKind) -> None:
    whole = files("engram.storage.sqlite").joinpath("schema", f"{kind}.sql").read_text()
    with (
        closing(sqlite3.connect(":memory:", isolation_level=None)) as migrated,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as readable,
    ):
        migrate(migrated, load_migrations(kind))
        run_script(readable, whole)

        assert schema_of(migrated) == schema_of(readable)


@pytest.mark.parametrize("kind", KINDS)
def test_every_migration_is_listed_with_its_kind(kind: FileKind) -> None:
    folder = files("engram.storage.sqlite") / "migrations"

    assert {entry.name for entry in folder.iterdir()} == set(KINDS)
    assert all(re.fullmatch(r"\d{4}_\w+\.sql", step.name) for step in load_migrations(kind))


def test_migrating_applies_only_the_missing_steps(tmp_path: Path) -> None:
    with closing(new_file(tmp_path)) as connection:
        migrate(connection, STEPS[:1])
        migrate(connection, STEPS)
        migrate(connection, STEPS)

        assert connection.execute("SELECT text, more FROM note").fetchall() == [("a;b", None)]
        assert version_of(connection) == 2


def test_a_failing_step_leaves_neither_changes_nor_its_number(tmp_path: Path) -> None:
    broken = Migration(2, "0002_broken.sql", "CREATE TABLE half (x); SELECT * FROM missing;")
    with closing(new_file(tmp_path)) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, (STEPS[0], broken))

        assert version_of(connection) == 1
        assert names_of(connection) == ["note"]
        migrate(connection, STEPS)


def test_a_store_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    with closing(new_file(tmp_path)) as connection:
        migrate(connection, STEPS)

        with pytest.raises(StoreNewerError):
            migrate(connection, STEPS[:1])

        assert version_of(connection) == 2


def test_a_step_another_process_just_made_is_not_repeated(tmp_path: Path) -> None:
    with closing(new_file(tmp_path)) as one, closing(new_file(tmp_path)) as two:

        def overtake(statement: str) -> None:
            if statement == "BEGIN IMMEDIATE":
                migrate(two, STEPS)

        one.set_trace_callback(overtake)
        migrate(one, STEPS)

        assert one.execute("SELECT text FROM note").fetchall() == [("a;b",)]


def new_file(folder: Path) -> sqlite3.Connection:
    create_file(folder / "one.db")
    return open_writer(folder / "one.db")


def version_of(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def names_of(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY 1")]


def schema_of(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema")
    return sorted((kind, name, plain(sql)) for kind, name, sql in rows)


def plain(sql: str) -> str:
    """Return a statement without comments and layout."""
    return re.sub(r"\s*([(),])\s*", r"\1", " ".join(re.sub(r"--.*", "", sql).split()))
