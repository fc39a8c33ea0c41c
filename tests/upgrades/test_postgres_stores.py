"""A database that any earlier version wrote is upgraded, and everything in it is there and found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engram.model.status import WORK_KINDS
from engram.storage.postgres.migrate import load_migrations, migrate, version_of
from tests.cli.commands import Engram
from tests.postgres.moves import opened, postgres_store
from tests.postgres.servers import Server
from tests.promises import promise
from tests.storage.due_work import due_kinds
from tests.upgrades.rows import dump_rows, restore_rows
from tests.upgrades.versions import POSTGRES, unpack
from tests.upgrades.whole import assert_whole

pytestmark = promise("migrations", "verbatim")


@pytest.fixture
def earlier_url(postgres_server: Server) -> Iterator[str]:
    """Yield the address of a database without tables."""
    postgres_server.execute("CREATE DATABASE earlier")
    yield postgres_server.socket_url("earlier")
    postgres_server.execute("DROP DATABASE earlier WITH (FORCE)")


@pytest.mark.parametrize("version", POSTGRES)
def test_a_database_of_an_earlier_version_is_upgraded_and_whole(
    earlier_url: str, tmp_path: Path, version: int
) -> None:
    written = unpack("postgres", version, into=tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    restore_rows(earlier_url, files, version=version)
    engram = Engram(tmp_path / "home")

    plan = engram("upgrade", "--check", "--json", database_url=earlier_url).json
    done = engram("upgrade", "--json", database_url=earlier_url).json

    assert [version] == [each["schema"] for each in plan["parts"]]
    assert all(each["schema"] == each["newest_schema"] for each in done["parts"])
    assert_whole(engram, written, database_url=earlier_url)


async def test_all_work_in_a_database_of_an_earlier_version_is_looked_for_once(
    earlier_url: str, tmp_path: Path
) -> None:
    version = max(POSTGRES)
    written = unpack("postgres", version, into=tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    restore_rows(earlier_url, files, version=version)

    async with opened(postgres_store(earlier_url)) as store:
        assert await due_kinds(store, written[0].organization_id) == set(WORK_KINDS)


def test_a_migration_whose_connection_ends_is_undone_and_then_resumed(
    earlier_url: str, tmp_path: Path
) -> None:
    first = min(POSTGRES)
    written = unpack("postgres", first, into=tmp_path)
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    restore_rows(earlier_url, files, version=first)
    steps = load_migrations()

    for step in steps[first:]:
        before = dump_rows(earlier_url)
        cut = replace(step, sql=f"{step.sql};\nSELECT pg_terminate_backend(pg_backend_pid());")
        with pytest.raises(psycopg.OperationalError), connected(earlier_url) as driver:
            migrate(driver, (*steps[: step.version - 1], cut))
        assert before == dump_rows(earlier_url)
        with connected(earlier_url) as driver:
            assert step.version - 1 == version_of(driver, steps)
            migrate(driver, steps[: step.version])

    assert_whole(Engram(tmp_path / "home"), written, database_url=earlier_url)


def connected(url: str) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(url, autocommit=True)
