"""What a store on a shared database must bear: other processes, and a server that cuts it off."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from engram.clock import RandomIds, SystemClock
from engram.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
    StoreBusyError,
    StoreNewerError,
    StoreUnavailableError,
)
from engram.model.access import OrganizationDraft
from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import Candidates, Loaded, SearchFilters
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import homes
from engram.storage.postgres.migrate import load_migrations, migrate
from engram.storage.postgres.store import PostgresStore
from engram.storage.rows.database import Connection
from tests.fakes import FakeClock
from tests.postgres.databases import as_owner
from tests.postgres.servers import Server
from tests.postgres.stores import new_organization, opened
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, begin, findings, read_texts
from tests.storage.storing import ADDING, Storing
from tests.storage.waiting_work import claim_work, leave_work

MIGRATE = """
import sys, psycopg
from engram.storage.postgres.migrate import load_migrations, migrate
with psycopg.connect(sys.argv[1], autocommit=True) as driver:
    sys.stdin.readline()
    migrate(driver, load_migrations())
"""

CUT_OFF_WRITERS = """
CREATE FUNCTION public.cut_off() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
    $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
CREATE TRIGGER cut_off BEFORE INSERT ON engram.audit
    FOR EACH ROW EXECUTE FUNCTION public.cut_off()
"""


TURN_BACK_TO_LEASES = """
ALTER TABLE engram.organization DROP COLUMN home, DROP COLUMN row_number;
ALTER TABLE engram.removal DROP COLUMN home;
ALTER TABLE engram.control_state DROP COLUMN installation, DROP COLUMN home_of;
ALTER TABLE engram.meta DROP COLUMN moved_to, DROP COLUMN moved_number;
DROP TABLE engram.relocation, engram.home;
DROP TABLE engram.captured_message, engram.forgotten_session, engram.delivery, engram.trash_part,
    engram.trash, engram.retention_rule, engram.legal_hold, engram.leaving, engram.erased,
    engram.erasure, engram.page_session, engram.project_rule, engram.change_set, engram.key_day;
DROP TABLE engram.due, engram.word_tail, engram.word_page, engram.word_block, engram.word_length;
ALTER TABLE engram.word_index DROP COLUMN tail_rows, DROP COLUMN tail_words,
    DROP COLUMN next_tail_rows, DROP COLUMN next_tail_words;
CREATE TABLE engram.word_length (organization_id bigint);
CREATE TABLE engram.word_posting (organization_id bigint);
ALTER TABLE engram.usage_day DROP COLUMN messages;
ALTER TABLE engram.counters DROP COLUMN trashed_messages;
DO $$
DECLARE
    added record;
BEGIN
    FOR added IN
        SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'engram'
            AND (column_name IN ('row_hash', 'is_retired')
                OR (table_name, column_name) = ('vector', 'tokens')
                OR (table_name = 'upkeep' AND column_name LIKE 'scrub%'))
    LOOP
        EXECUTE format('ALTER TABLE engram.%I DROP COLUMN %I', added.table_name, added.column_name);
    END LOOP;
END
$$;
DROP INDEX engram.memory_important, engram.memory_typed, engram.memory_categorized;
DO $$
DECLARE
    name text;
BEGIN
    SELECT conname INTO STRICT name FROM pg_constraint
    WHERE conrelid = 'engram.vector'::regclass AND contype = 'u';
    EXECUTE format('ALTER TABLE engram.vector DROP CONSTRAINT %I', name);
END
$$;
ALTER TABLE engram.vector ADD UNIQUE (organization_id, key, embedder, start_character);
"""
"""Leaves a database as the ninth version did, but for the record of later migrations."""

TURN_BACK = """
DROP TABLE engram.usage_day;
ALTER TABLE engram.counters DROP COLUMN stored_bytes, DROP COLUMN file_bytes;
DROP FUNCTION engram.add_near_partition, engram.finish_near_partition,
    engram.drop_near_partition, engram.skip_numbers;
ALTER TABLE engram.document DROP COLUMN attempts, DROP COLUMN available_at;
DELETE FROM engram.migration WHERE version >= 7;
CREATE ROLE plain_owner;
GRANT engram_app TO plain_owner;
ALTER SCHEMA engram OWNER TO plain_owner;
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT polrelid::regclass::text FROM pg_policy WHERE polname = 'in_reach'
    LOOP
        EXECUTE format('DROP POLICY in_reach ON %s', name);
        EXECUTE format(
            'ALTER TABLE %s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY', name);
    END LOOP;
    FOR name IN SELECT oid::regclass::text FROM pg_class
        WHERE relnamespace = 'engram'::regnamespace AND relkind IN ('r', 'p')
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO plain_owner', name);
    END LOOP;
END
$$;
"""
"""Leaves a database of the sixth version to an owner whom row-level security holds."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a search has chosen."""

    messages: Sequence[MessageKey]
    conversations: Sequence[ConversationKey] = ()
    whole_tokens_max: int | None = None


def all_of(found: Candidates) -> Choice:
    return Choice([MessageKey(int(key)) for key in found.keys])


async def search(
    organization: OrganizationStore, choose: Callable[[Candidates], Choice]
) -> tuple[Choice, Loaded]:
    return await organization.search(
        ["appl"], vectors=(), filters=SearchFilters(), now=0, limit=5, choose=choose
    )


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(as_owner(url), autocommit=True) as driver:
        cursor = driver.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def cut_off(url: str) -> None:
    """End every connection to a database but the one that asks."""
    execute(
        url,
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


@promise("processes")
async def test_two_stores_write_in_one_organisation_and_lose_nothing(database_url: str) -> None:
    async with opened(database_url) as one, opened(database_url) as two:
        here = await new_organization(one)
        there = await two.organization(here.organization_id)
        conversation_id = await begin(here)

        await asyncio.gather(
            *(
                append(store, f"{n}", to=conversation_id)
                for n in range(50)
                for store in (here, there)
            )
        )

        texts = await read_texts(there, conversation_id)
        assert sorted(texts) == sorted(f"{n}" for n in range(50) for _ in range(2))
        assert await findings(here) == []


@promise("processes")
async def test_a_revision_changes_with_every_write_of_any_process(database_url: str) -> None:
    async with opened(database_url) as one, opened(database_url) as two:
        here = await new_organization(one)
        there = await two.organization(here.organization_id)
        now = SystemClock().now()
        before = await here.revision(now=now)
        assert await here.revision(now=now) == await there.revision(now=now) == before

        await begin(there, "text")

        assert await here.revision(now=now) == await there.revision(now=now) != before


async def test_there_is_one_local_organisation(database_url: str) -> None:
    async with opened(database_url) as one, opened(database_url) as two:
        draft = OrganizationDraft(name="Local")

        results = await asyncio.gather(
            *(
                store.control.create_organization(draft, actor=ACTOR, is_local=True)
                for store in (one, two, one, two)
            ),
            return_exceptions=True,
        )

        assert sum(isinstance(result, ConflictError) for result in results) == 3


async def test_a_deletion_that_is_interrupted_goes_on_with_the_rows_that_are_left(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "_REMOVED_AT_ONCE", 2)
    steps = list[bool]()

    def remove_until_a_crash(connection: Connection, *, number: int) -> bool:
        if len(steps) == 3:
            raise StorageError
        steps.append(remove_some(connection, number=number))
        return steps[-1]

    remove_some = homes.remove_some
    async with opened(database_url) as store:
        gone, kept = await new_organization(store), await new_organization(store)
        for organization in (gone, kept):
            await begin(organization, "one", "two", "three", "four", "five")
        with monkeypatch.context() as crash:
            crash.setattr(homes, "remove_some", remove_until_a_crash)
            with pytest.raises(StorageError):
                await store.control.delete_organization(gone.organization_id, actor=ACTOR)
        assert execute(database_url, "SELECT count(*) FROM engram.removal") == [(1,)]

    async with opened(database_url) as store:
        again = await store.organization(kept.organization_id)
        assert (await again.counters()).messages == 5
    assert steps == [True, True, True]
    assert execute(database_url, "SELECT count(*) FROM engram.message") == [(5,)]
    assert execute(database_url, "SELECT count(*) FROM engram.removal") == [(0,)]


async def test_a_deleted_organisation_is_refused_by_who_still_has_it(database_url: str) -> None:
    async with opened(database_url) as one, opened(database_url) as two:
        here = await new_organization(one)
        kept = await new_organization(one)
        conversation_id = await begin(here, "text")
        await begin(kept, "text")
        there = await two.organization(here.organization_id)

        await one.control.delete_organization(here.organization_id, actor=ACTOR)

        for attempt in (
            there.counters(),
            append(there, "more", to=conversation_id),
            here.counters(),
            two.organization(here.organization_id),
        ):
            with pytest.raises(NotFoundError):
                await attempt
        assert (await kept.counters()).messages == 1
        assert execute(database_url, "SELECT count(*) FROM engram.message") == [(1,)]
        assert execute(database_url, "SELECT count(*) FROM engram.meta") == [(1,)]
        assert execute(database_url, "SELECT * FROM engram.removal") == []


async def test_a_removal_that_was_cut_short_is_finished_by_who_opens_next(
    database_url: str,
) -> None:
    async with opened(database_url) as store:
        await begin(await new_organization(store), "text")
    execute(
        database_url,
        "INSERT INTO engram.removal SELECT number, organization_id FROM engram.organization;"
        "UPDATE engram.meta SET is_deleted = 1; DELETE FROM engram.organization",
    )

    async with opened(database_url):
        assert execute(database_url, "SELECT count(*) FROM engram.message") == [(0,)]
    assert execute(database_url, "SELECT * FROM engram.removal") == []


async def test_idle_connections_that_were_cut_off_are_replaced_unseen(database_url: str) -> None:
    async with opened(database_url) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization, "one")

        for text in ("two", "three"):
            cut_off(database_url)
            await append(organization, text, to=conversation_id)
            cut_off(database_url)
            assert (await organization.counters()).messages > 1

        assert await read_texts(organization, conversation_id) == ["one", "two", "three"]


async def test_a_read_that_is_cut_off_says_so_and_the_next_is_done(database_url: str) -> None:
    async with opened(database_url) as store:
        organization = await new_organization(store)
        await begin(organization, "apple")

        def be_cut_off(found: Candidates) -> Choice:
            cut_off(database_url)
            return all_of(found)

        with pytest.raises(StoreUnavailableError) as raised:
            await search(organization, be_cut_off)

        assert isinstance(raised.value, StoreBusyError)
        assert isinstance(raised.value.__cause__, psycopg.Error)
        chosen, _ = await search(organization, all_of)
        assert len(chosen.messages) == 1


@promise("durable")
async def test_a_write_that_is_cut_off_leaves_nothing_and_the_next_is_done(
    database_url: str,
) -> None:
    async with opened(database_url) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization, "one")
        execute(database_url, CUT_OFF_WRITERS)

        with pytest.raises(StoreUnavailableError):
            await append(organization, "lost", to=conversation_id)

        execute(database_url, "DROP TRIGGER cut_off ON engram.audit")
        await append(organization, "two", to=conversation_id)
        assert await read_texts(organization, conversation_id) == ["one", "two"]
        assert await findings(organization) == []


async def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    url = "postgresql://user:zzyzx@127.0.0.1:1/engram?connect_timeout=2"
    store = PostgresStore(url, clock=SystemClock(), ids=RandomIds())

    with pytest.raises(StoreUnavailableError) as raised:
        await store.open()
    await store.close()

    assert "zzyzx" not in f"{raised.value} {raised.value.__cause__}"


async def test_a_text_with_a_nul_character_is_refused_where_it_is_no_content(
    database_url: str,
) -> None:
    async with opened(database_url) as store:
        organization = await new_organization(store)

        conversation_id = await begin(organization, "a\0b")
        assert await read_texts(organization, conversation_id) == ["a\0b"]
        with pytest.raises(InvalidRequestError):
            await begin(organization, title="a\0b")


@promise("processes", "migrations")
def test_processes_that_migrate_at_once_do_it_once(postgres_server: Server, tmp_path: Path) -> None:
    postgres_server.execute("CREATE DATABASE engram_migrated")
    url = postgres_server.socket_url("engram_migrated")
    processes = [
        subprocess.Popen([sys.executable, "-c", MIGRATE, url], stdin=subprocess.PIPE)
        for _ in range(3)
    ]

    for process in processes:
        process.communicate(b"go\n", timeout=60)

    assert [process.returncode for process in processes] == [0, 0, 0]
    versions = execute(url, "SELECT version FROM engram.migration ORDER BY version")
    assert versions == [(number,) for number in range(1, len(versions) + 1)]
    postgres_server.execute("DROP DATABASE engram_migrated")


async def test_what_an_older_database_holds_is_counted_once(database_url: str) -> None:
    async with opened(database_url) as store:
        organizations = [await new_organization(store) for _ in range(2)]
        for organization in organizations:
            storing = Storing(organization, FakeClock())
            for step in ADDING * 2:
                await storing.do(step)
        counted = [(await each.counters()).stored_bytes for each in organizations]
    execute(as_owner(database_url), TURN_BACK_TO_LEASES)
    execute(as_owner(database_url), TURN_BACK)

    with psycopg.connect(as_owner(database_url), autocommit=True) as driver:
        driver.execute("SET ROLE plain_owner")
        migrate(driver, load_migrations())
        driver.execute("RESET ROLE")
        driver.execute("REASSIGN OWNED BY plain_owner TO CURRENT_USER")
        driver.execute("DROP OWNED BY plain_owner")
        driver.execute("DROP ROLE plain_owner")

    async with opened(database_url) as store:
        again = [await store.organization(each.organization_id) for each in organizations]

        assert [(await each.counters()).stored_bytes for each in again] == counted
        assert [finding for each in again for finding in await findings(each)] == []


async def test_background_work_of_an_older_schema_is_claimed(database_url: str) -> None:
    async with opened(database_url) as store:
        organization = await new_organization(store)
        await leave_work(organization)
    execute(as_owner(database_url), TURN_BACK_TO_LEASES)
    execute(
        as_owner(database_url),
        """ALTER TABLE engram.document DROP COLUMN attempts, DROP COLUMN available_at;
        DELETE FROM engram.migration WHERE version >= 9""",
    )
    with psycopg.connect(as_owner(database_url), autocommit=True) as driver:
        migrate(driver, load_migrations())

    async with opened(database_url) as store:
        again = await store.organization(organization.organization_id)
        jobs, messages, documents = await claim_work(again, owner="new")

        assert jobs == ["messages"]
        assert len(messages) == 2
        assert len(documents) == 1
        assert await findings(again) == []


@promise("migrations")
async def test_a_newer_schema_is_refused(database_url: str) -> None:
    execute(database_url, "INSERT INTO engram.migration VALUES (999, '0999_future.sql')")
    store = PostgresStore(database_url, clock=SystemClock(), ids=RandomIds())

    with pytest.raises(StoreNewerError):
        await store.open()
    await store.close()
