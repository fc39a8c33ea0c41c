"""Files of older versions are brought forward when they are opened, and lose nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from engram.clock import RandomIds
from engram.model.access import OrganizationDraft
from engram.model.ids import OrganizationId
from engram.storage.sqlite.migrate import load_migrations, migrate
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR, append, begin, count_holders, findings

WITH_STORED_WINDOWS = 7
"""The last version that had an index of the words of windows."""

COPIED = ("meta", "conversation", "message", "counters", "vector_state", "upkeep")


@asynccontextmanager
async def opened_store(folder: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(folder, clock=FakeClock(), ids=RandomIds())
    await store.open()
    yield store
    await store.close()


def turn_back(path: Path, *, version: int) -> None:
    """Put the rows of a file into one of an older version, whose word indexes hold nothing."""
    newer = path.rename(path.with_suffix(".newer"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, load_migrations("organization")[:version])
        connection.execute("ATTACH ? AS newer", (str(newer),))
        for table in COPIED:
            rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
            columns = ", ".join(name for (name,) in rows)
            connection.execute(
                f"INSERT INTO {table} ({columns}) SELECT {columns} FROM newer.{table}"  # noqa: S608 - names of the schema
            )
        connection.execute("UPDATE upkeep SET analyser_version = 2")


async def test_a_file_with_stored_windows_is_brought_forward(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        made = await store.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
        organization = await store.organization(made.id)
        conversation_id = await begin(organization, *[f"the apple {place}" for place in range(7)])
        chunks = (await organization.counters()).chunks
    turn_back(path_of(tmp_path, made.id), version=WITH_STORED_WINDOWS)

    async with opened_store(tmp_path) as store:
        organization = await store.organization(made.id)

        assert await count_holders(organization, "appl") == 7
        assert (await organization.counters()).chunks == chunks == 2
        assert await findings(organization) == []
        await append(organization, "another apple", to=conversation_id)
        assert await findings(organization) == []


def path_of(folder: Path, organization_id: OrganizationId) -> Path:
    return folder / "orgs" / f"{organization_id}.db"
