"""A directory that any earlier version wrote is upgraded, and everything in it is there and found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from engram.model.status import WORK_KINDS
from engram.storage.sqlite.migrate import load_migrations, migrate
from tests.cli.commands import Engram
from tests.postgres.moves import opened, sqlite_store
from tests.promises import promise
from tests.storage.due_work import due_kinds
from tests.storage.test_sqlite_schema import schema_of
from tests.upgrades.versions import SQLITE, unpack
from tests.upgrades.whole import assert_whole

pytestmark = promise("migrations", "verbatim")


@pytest.mark.parametrize("version", SQLITE)
def test_a_store_of_an_earlier_version_is_upgraded_and_whole(tmp_path: Path, version: int) -> None:
    written = unpack("sqlite", version, into=tmp_path)
    engram = Engram(tmp_path)
    before = contents(tmp_path)

    plan = engram("upgrade", "--check", "--json").json

    assert contents(tmp_path) == before
    assert {each["schema"] for each in plan["parts"][1:]} == {version}
    done = engram("upgrade", "--json").json
    assert all(each["schema"] == each["newest_schema"] for each in done["parts"])
    assert_whole(engram, written)


def test_a_store_of_an_earlier_version_needs_no_command_to_be_used(tmp_path: Path) -> None:
    written = unpack("sqlite", min(SQLITE), into=tmp_path)

    assert_whole(Engram(tmp_path), written)


async def test_all_work_in_a_store_of_an_earlier_version_is_looked_for_once(tmp_path: Path) -> None:
    written = unpack("sqlite", max(SQLITE), into=tmp_path)

    async with opened(sqlite_store(tmp_path)) as store:
        assert await due_kinds(store, written[0].organization_id) == set(WORK_KINDS)


def contents(directory: Path) -> dict[str, bytes]:
    """Return every file, by its name."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("version", SQLITE)
def test_migrations_make_the_schema_that_they_made_when_they_were_new(
    tmp_path: Path, version: int
) -> None:
    written = unpack("sqlite", version, into=tmp_path)
    path = tmp_path / "orgs" / f"{written[0].organization_id}.db"
    with (
        closing(sqlite3.connect(path)) as then,
        closing(sqlite3.connect(":memory:", isolation_level=None)) as now,
    ):
        # Statistics of SQLite's own, which come and go.
        then.execute("DROP TABLE IF EXISTS sqlite_stat1")
        migrate(now, load_migrations("organization")[:version])

        assert schema_of(then) == schema_of(now)
