"""An upgrade that is killed at any step is finished by the next, and nothing is half done."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from engram.storage.migrations import Migration
from engram.storage.sqlite.connection import open_writer
from engram.storage.sqlite.copies import SUFFIX, find_copies
from engram.storage.sqlite.migrate import FileKind, load_migrations, migrate
from tests.promises import promise
from tests.upgrades.programs import killed_upgrades
from tests.upgrades.versions import SQLITE, unpack

pytestmark = promise("migrations", "durable")

OLDEST = min(SQLITE)


@pytest.mark.parametrize("kind", ["control", "organization"])
def test_a_migration_killed_at_any_step_is_undone_and_then_resumed(
    tmp_path: Path, kind: FileKind
) -> None:
    written = unpack("sqlite", OLDEST, into=tmp_path)
    names = {"control": "engram.db", "organization": f"orgs/{written[0].organization_id}.db"}
    original, work = tmp_path / names[kind], tmp_path / "work"
    before = rows_of(original)

    program = [sys.executable, killed_upgrades.__file__, str(original), kind, str(work)]
    done = subprocess.run(program, check=True, capture_output=True, timeout=120)

    killed = {int(version): steps for version, steps in json.loads(done.stdout).items()}
    assert [*killed] == [*range(min(killed), len(load_migrations(kind)))]
    for version, steps in killed.items():
        after = rows_of(work / str(version) / str(steps + 1) / original.name)
        for step in range(1, steps + 1):
            path = work / str(version) / str(step) / original.name
            assert before == rows_of(path)
            assert all(before == rows_of(copy) for copy in finished_copies(path, version))
            assert after == rows_of(upgraded(path, load_migrations(kind)[: version + 1]))
        before = after


def upgraded(path: Path, migrations: Sequence[Migration]) -> Path:
    """Let a later process upgrade a file."""
    with closing(open_writer(path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        migrate(connection, migrations, path=path)
    return path


def finished_copies(path: Path, version: int) -> list[Path]:
    """Return the copies of a file that have their names."""
    return [copy for copy in find_copies(path, versions=[version]) if copy.suffix == SUFFIX]


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of all tables, those behind word indexes included."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE rootpage > 0 AND type = 'table'"
        )
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)  # noqa: S608 - names of the schema
            for (name,) in tables.fetchall()
        }
