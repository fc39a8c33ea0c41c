"""Files of older versions are brought forward when they are opened, and lose nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from engram.clock import RandomIds
from engram.model.access import OrganizationDraft
from engram.model.ids import OrganizationId
from engram.storage.sqlite.history import mark_of
from engram.storage.sqlite.migrate import load_migrations, migrate
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, begin, count_holders, findings
from tests.storage.storing import ADDING, Storing
from tests.storage.waiting_work import claim_work, leave_work

pytestmark = promise("migrations")

WITH_STORED_WINDOWS = 7
"""The last version that had an index of the words of windows."""

WITH_CONTENT_COUNTED = 9
"""The last version that counted contents alone towards the quota."""

WITH_HALF_LEASED_DOCUMENTS = 10
"""The last version in which documents had no `attempts` and no `available_at`."""

COPIED = ("meta", "conversation", "message", "counters", "vector_state", "upkeep")
ALSO_COUNTED = (
    "conversation_tag",
    "idempotency",
    "episode",
    "memory",
    "memory_version",
    "relation",
    "feedback",
    "tombstone",
    "document",
    "document_piece",
)
WAITING = ("job", "embedder", "instant_vector", "unembedded")


@asynccontextmanager
async def opened_store(folder: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(folder, clock=FakeClock(), ids=RandomIds())
    await store.open()
    yield store
    await store.close()


def turn_back(path: Path, *, version: int, tables: tuple[str, ...] = COPIED) -> None:
    """Put the rows of a file into one of an older version, whose word indexes hold nothing."""
    newer = path.rename(path.parents[1] / "newer")
    mark_of(path).unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, load_migrations("organization")[:version])
        connection.execute("ATTACH ? AS newer", (str(newer),))
        for table in tables:
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


async def test_what_an_older_file_holds_is_counted_once(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        made = await store.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
        organization = await store.organization(made.id)
        storing = Storing(organization, FakeClock())
        for step in ADDING * 2:
            await storing.do(step)
        stored_bytes = (await organization.counters()).stored_bytes
    path = path_of(tmp_path, made.id)
    turn_back(path, version=WITH_CONTENT_COUNTED, tables=COPIED + ALSO_COUNTED)

    async with opened_store(tmp_path) as store:
        organization = await store.organization(made.id)

        assert (await organization.counters()).stored_bytes == stored_bytes > 0
        assert [each for each in await findings(organization) if each.check == "counters"] == []


async def test_background_work_of_an_older_file_is_claimed(tmp_path: Path) -> None:
    async with opened_store(tmp_path) as store:
        made = await store.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
        await leave_work(await store.organization(made.id))
    path = path_of(tmp_path, made.id)
    tables = COPIED + ALSO_COUNTED + WAITING
    turn_back(path, version=WITH_HALF_LEASED_DOCUMENTS, tables=tables)

    async with opened_store(tmp_path) as store:
        organization = await store.organization(made.id)
        jobs, messages, documents = await claim_work(organization, owner="new")

        assert jobs == ["messages"]
        assert len(messages) == 2
        assert len(documents) == 1
        assert await organization.documents.has_unindexed()
        assert await findings(organization) == []


def path_of(folder: Path, organization_id: OrganizationId) -> Path:
    return folder / "orgs" / f"{organization_id}.db"
