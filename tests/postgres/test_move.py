"""Organisations move between SQLite and PostgreSQL with everything they have, or not at all."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from engram.errors import ConflictError, NotFoundError, StoreMovedError, StoreNewerError
from engram.model.access import KeyDraft, OrganizationDraft
from engram.model.ids import OrganizationId
from engram.model.status import WORK_KINDS
from engram.model.trash import TrashQuery
from engram.storage.sqlite.migrate import load_migrations, migrate
from engram.storage.sqlite.store import SqliteStore
from engram.text.analyse import query_terms
from engram.transfer import tables
from engram.transfer.tables import TABLES
from tests.postgres.furnished import (
    Furnished,
    add_conversations,
    add_documents,
    add_memories,
    authenticates,
    furnish,
    search,
)
from tests.postgres.moves import (
    ADDRESS,
    CLOCK,
    IDS,
    control_rows_of,
    opened,
    opened_file,
    postgres_rows,
    postgres_store,
    rows_of,
    sqlite_store,
    to_postgres,
    to_sqlite,
)
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, find, findings
from tests.storage.due_work import due_kinds

PROJECT = Path(__file__).parents[2]
DERIVED = {
    "due",
    "meta",
    "near_vector",
    "word_index",
    "word_tail",
    "word_page",
    "word_block",
    "word_length",
}
"""Tables of organisations that every database makes itself."""


@pytest.fixture(scope="module")
async def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Furnished]:
    """Return a directory with a store that is not to be changed, and whose it is."""
    directory = tmp_path_factory.mktemp("template")
    async with opened(sqlite_store(directory)) as store:
        return directory, await furnish(store)


@pytest.fixture
def old(template: tuple[Path, Furnished], tmp_path: Path) -> Path:
    """Return the directory that organisations come from."""
    return shutil.copytree(template[0], tmp_path / "old")


@pytest.fixture
def furnished(template: tuple[Path, Furnished]) -> Furnished:
    """Return whose organisations they are."""
    return template[1]


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Return the directory that organisations come back to."""
    return tmp_path / "new"


@promise("verbatim")
async def test_everything_comes_back_from_postgres_as_it_was(
    old: Path, furnished: Furnished, database_url: str, new: Path
) -> None:
    before = rows_of(old, furnished.organization_id)

    await to_postgres(old, database_url)
    await to_sqlite(database_url, new)

    assert before == rows_of(new, furnished.organization_id)
    assert control_rows_of(old) == control_rows_of(new)
    assert {name for name, found in before.items() if not found} == set()


@promise("trash")
async def test_what_was_deleted_before_a_move_is_restored_after_it(
    old: Path, furnished: Furnished, database_url: str, new: Path
) -> None:
    await to_postgres(old, database_url)
    await to_sqlite(database_url, new)

    for store in (postgres_store(database_url), sqlite_store(new)):
        async with opened(store):
            organization = await store.organization(furnished.organization_id)
            for entry in (await organization.trash.list(TrashQuery())).entries:
                await organization.trash.restore(entry.id, actor=ACTOR)
            found = await find(organization, *query_terms("thrown away Straße"))

            assert (found.share_message > 0).sum() == 3
            assert [] == await findings(organization)


async def test_all_work_of_a_moved_organisation_is_looked_for_once(
    old: Path, furnished: Furnished, database_url: str, new: Path
) -> None:
    await to_postgres(old, database_url)
    await to_sqlite(database_url, new)

    for store in (postgres_store(database_url), sqlite_store(new)):
        async with opened(store):
            assert await due_kinds(store, furnished.organization_id) == set(WORK_KINDS)


async def test_moved_organisation_is_searched_and_proved_as_before(
    old: Path, furnished: Furnished, database_url: str, new: Path
) -> None:
    await to_postgres(old, database_url)
    await to_sqlite(database_url, new)
    found = list[object]()

    for store in (sqlite_store(old), postgres_store(database_url), sqlite_store(new)):
        async with opened(store):
            organization = await store.organization(furnished.organization_id)
            found.append(await search(organization))
            assert [] == await findings(organization)
            assert await authenticates(store, furnished.secret)
            assert not await authenticates(store, furnished.revoked)
            gone = await store.control.list_audit(furnished.deleted, limit=9, before=None)
            assert ["delete_organization", "create_organization"] == [row.action for row in gone]

    assert found[0] == found[1] == found[2]


async def test_life_goes_on_where_an_organisation_was_moved_to(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    await to_postgres(old, database_url)

    async with opened(postgres_store(database_url)) as store:
        organization = await store.organization(furnished.organization_id)
        await add_conversations(organization, messages=0)
        await add_memories(organization)
        await add_documents(organization)
        other = await store.control.create_organization(OrganizationDraft(name="B"), actor=ACTOR)
        await add_memories(await store.organization(other.id))

        assert [] == await findings(organization)


async def test_numbers_of_rows_that_are_gone_are_not_given_again(
    old: Path, furnished: Furnished, database_url: str, new: Path
) -> None:
    with opened_file(old, furnished.organization_id) as file:
        file.execute("UPDATE sqlite_sequence SET seq = 4711 WHERE name IN ('memory', 'document')")

    await to_postgres(old, database_url)
    await to_sqlite(database_url, new)

    for store in (postgres_store(database_url), sqlite_store(new)):
        async with opened(store):
            await add_memories(await store.organization(furnished.organization_id))
    newest = "SELECT min(number) FROM memory WHERE number > 4711"
    with opened_file(new, furnished.organization_id) as file:
        assert (4712,) == file.execute(newest).fetchone()
    assert [(4712,)] == postgres_rows(database_url, newest)


async def test_second_run_finds_nothing_to_do(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    first = await to_postgres(old, database_url)

    second = await to_postgres(old, database_url)

    assert ["new", "new"] == [standing for standing, _ in first]
    assert [("moved", 0), ("moved", 0)] == second


async def test_organisation_that_was_deleted_after_its_move_can_come_again(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    await to_postgres(old, database_url)
    async with opened(postgres_store(database_url)) as store:
        await store.control.delete_organization(furnished.organization_id, actor=ACTOR)

    assert ["new", "moved"] == [standing for standing, _ in await to_postgres(old, database_url)]


async def test_organisation_is_unknown_until_a_move_that_is_killed_again_and_again_is_done(
    old: Path, furnished: Furnished, database_url: str, new: Path
) -> None:
    command = [sys.executable, "-m", "tests.postgres.programs.killed_move"]
    deaths = 0

    while (await run([*command, str(old), database_url, "6"])) == -signal.SIGKILL:
        deaths += 1
        done = postgres_rows(database_url, "SELECT organization_id FROM move WHERE state = 'done'")
        async with opened(postgres_store(database_url)) as store:
            known = [(each.id,) for each in await store.control.list_organizations()]
            assert done == known
            assert await authenticates(store, furnished.secret) == bool(known)

    assert deaths > 2
    await to_sqlite(database_url, new)
    assert rows_of(old, furnished.organization_id) == rows_of(new, furnished.organization_id)
    async with opened(postgres_store(database_url)) as store:
        assert [] == await findings(await store.organization(furnished.organization_id))


async def test_source_that_is_written_to_meanwhile_is_found_out_and_copied_anew(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    def write(_: int) -> None:
        with opened_file(old, furnished.organization_id) as file:
            file.execute("UPDATE conversation SET title = 'changed' WHERE number = 1")

    with pytest.raises(ConflictError, match="written to while it was copied"):
        await to_postgres(old, database_url, advance=write)
    again = await to_postgres(old, database_url)

    assert ["begun", "new"] == [standing for standing, _ in again]
    titles = postgres_rows(database_url, "SELECT title FROM conversation WHERE number = 1")
    assert [("changed",)] == titles


async def test_source_is_sealed_and_not_changed_otherwise(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    before = rows_of(old, furnished.organization_id), control_rows_of(old)

    await to_postgres(old, database_url)

    assert before == (rows_of(old, furnished.organization_id), control_rows_of(old))


async def test_process_that_has_a_moved_organisation_open_reads_it_and_cannot_write(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    async with opened(sqlite_store(old)) as store:
        organization = await store.organization(furnished.organization_id)
        counted = await organization.counters()
        await to_postgres(old, database_url)

        with pytest.raises(StoreMovedError, match=ADDRESS):
            await append(organization, "to nowhere")
        draft = KeyDraft(name="late")
        with pytest.raises(StoreMovedError, match=ADDRESS):
            await store.control.create_key(furnished.organization_id, draft, actor=ACTOR)
        assert counted == await organization.counters()
    async with opened(sqlite_store(old)) as store:
        organization = await store.organization(furnished.organization_id)
        assert [] == await findings(organization)
        await store.control.delete_organization(furnished.organization_id, actor=ACTOR)


async def test_seal_is_lifted_when_the_move_fails_and_when_the_file_is_accepted(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    def write(_: int) -> None:
        with opened_file(old, furnished.organization_id) as file:
            file.execute("UPDATE conversation SET title = 'changed' WHERE number = 1")

    with pytest.raises(ConflictError):
        await to_postgres(old, database_url, advance=write)
    async with opened(sqlite_store(old)) as store:
        await append(await store.organization(furnished.organization_id), "not moved yet")
    await to_postgres(old, database_url)

    async with opened(SqliteStore(old, clock=CLOCK, ids=IDS, accept=True)) as store:
        await append(await store.organization(furnished.organization_id), "here again")


async def test_repeated_move_compares_what_an_earlier_version_left_unsealed(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    await to_postgres(old, database_url)
    unseal(old)

    await to_postgres(old, database_url)
    async with opened(sqlite_store(old)) as store:
        organization = await store.organization(furnished.organization_id)
        with pytest.raises(StoreMovedError):
            await append(organization, "sealed now")

    unseal(old)
    async with opened(sqlite_store(old)) as store:
        await append(await store.organization(furnished.organization_id), "the other truth")
    with pytest.raises(ConflictError, match="message"):
        await to_postgres(old, database_url)


async def test_moved_organisation_is_not_moved_to_yet_another_place(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    await to_postgres(old, database_url)
    async with opened(postgres_store(database_url)) as store:
        await store.control.delete_organization(furnished.organization_id, actor=ACTOR)

    with pytest.raises(ConflictError, match=ADDRESS):
        await to_postgres(old, database_url, address="postgresql://db/another")


def unseal(directory: Path) -> None:
    """Leave a moved directory as versions without seals did."""
    for path in (directory / "engram.db", *(directory / "orgs").glob("*.db")):
        table = "organization" if path.name == "engram.db" else "meta"
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute(f"UPDATE {table} SET moved_to = NULL")  # noqa: S608 - names of ours


async def test_organisation_that_the_target_has_of_its_own_is_not_touched(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    await to_postgres(old, database_url)

    with pytest.raises(ConflictError):
        await to_sqlite(database_url, old)


async def test_second_local_organisation_is_refused_before_anything_is_copied(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    async with opened(postgres_store(database_url)) as store:
        await store.control.create_organization(
            OrganizationDraft(name="mine"), actor=ACTOR, is_local=True
        )

    with pytest.raises(ConflictError, match="local organisation"):
        await to_postgres(old, database_url)

    assert [(0,)] == postgres_rows(database_url, "SELECT count(*) FROM move")


async def test_one_organisation_can_be_moved_alone(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    await to_postgres(old, database_url, only=furnished.organization_id)

    assert [(furnished.organization_id,)] == postgres_rows(
        database_url, "SELECT organization_id FROM organization"
    )
    with pytest.raises(NotFoundError):
        await to_postgres(old, database_url, only=OrganizationId("org_nowhere"))


async def test_damaged_content_is_moved_as_it_is(
    old: Path, furnished: Furnished, database_url: str, new: Path
) -> None:
    with opened_file(old, furnished.organization_id) as file:
        file.execute(
            "UPDATE message SET content = CAST(x'ff00' AS TEXT) WHERE content_encoding = 'raw'"
        )

    await to_postgres(old, database_url)
    await to_sqlite(database_url, new)

    damaged = "SELECT count(*) FROM message WHERE CAST(content AS BLOB) = x'ff00'"
    with (
        opened_file(old, furnished.organization_id) as before,
        opened_file(new, furnished.organization_id) as after,
    ):
        assert before.execute(damaged).fetchone() == after.execute(damaged).fetchone() != (0,)


async def test_text_that_postgres_cannot_keep_is_named(
    old: Path, furnished: Furnished, database_url: str
) -> None:
    with opened_file(old, furnished.organization_id) as file:
        file.execute("UPDATE episode SET summary = ?", ("a\0b",))

    with pytest.raises(ConflictError, match="summary of the episode"):
        await to_postgres(old, database_url)


@pytest.mark.parametrize(("step", "error"), [(-1, ConflictError), (1, StoreNewerError)])
async def test_source_of_another_version_is_refused_untouched(
    old: Path, furnished: Furnished, database_url: str, step: int, error: type[Exception]
) -> None:
    with opened_file(old, furnished.organization_id) as file:
        (version,) = file.execute("PRAGMA user_version").fetchone()
        file.execute(f"PRAGMA user_version = {version + step}")

    with pytest.raises(error):
        await to_postgres(old, database_url)

    with opened_file(old, furnished.organization_id) as file:
        assert (version + step,) == file.execute("PRAGMA user_version").fetchone()


async def test_sources_that_are_no_stores_are_named(tmp_path: Path, database_url: str) -> None:
    with pytest.raises(ConflictError, match="no store"):
        await to_postgres(tmp_path, database_url)


async def test_pages_of_large_contents_are_small(
    old: Path, furnished: Furnished, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = tables.TableRows(TABLES[2], ("content", "key"))
    with opened_file(old, furnished.organization_id) as file:
        (longest,) = file.execute("SELECT max(length(content)) FROM message").fetchone()
        monkeypatch.setattr(tables, "PAGE_BYTES", longest)
        pages = list(messages.pages(file, 1))

    sizes = [sum(len(content) for content, _ in page) for page in pages]
    assert max(sizes) <= longest
    assert len(pages) < len({key for page in pages for _, key in page}) == sum(map(len, pages))


def test_every_table_of_organisations_is_moved_or_made_again(database_url: str) -> None:
    of_organizations = (
        "SELECT DISTINCT table_name FROM information_schema.columns"
        " WHERE table_schema = 'engram' AND column_name = 'organization_id'"
        " AND data_type = 'bigint'"
    )
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as file:
        migrate(file, load_migrations("organization"))
        in_sqlite = file.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%organization_id%'"
        ).fetchall()
    in_postgres = postgres_rows(database_url, of_organizations)

    moved = {(table.name,) for table in TABLES}

    assert {("meta",), ("due",)} == set(in_sqlite) - moved
    assert {(name,) for name in DERIVED} == set(in_postgres) - moved


async def run(command: list[str]) -> int:
    """Return how a process ended."""
    with anyio.fail_after(60):
        return (await anyio.run_process(command, cwd=PROJECT, check=False)).returncode
