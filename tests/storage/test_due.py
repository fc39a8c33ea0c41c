"""Due times of background work: nothing is forgotten, and organisations without work are not looked at."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from engram import limits
from engram.clock import RandomIds
from engram.model.access import UNBOUNDED, OrganizationDraft
from engram.model.conversation import AppendRequest, ConversationQuery
from engram.model.retention import RetentionDraft
from engram.model.status import WORK_KINDS, WorkKind
from engram.model.vectors import Indexing
from engram.service.work.background import MERGE_WORDS, TRAIN_DICTIONARY
from engram.service.work.retention import APPLY_RETENTION
from engram.storage.due import LATER, RECHECK
from engram.storage.organization import OrganizationStore
from engram.storage.queue import ERASING_JOBS
from engram.storage.sqlite.store import SqliteStore
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, BuildStore, begin, drafts
from tests.storage.due_work import LEASE, claim, settle_all, work


async def append_waiting(organization: OrganizationStore) -> None:
    """Append a message that waits for a deep vector."""
    await organization.append_messages(
        AppendRequest(messages=drafts("tanuki")),
        actor=ACTOR,
        quota=UNBOUNDED,
        indexing=Indexing(is_queued=True),
    )


async def test_a_new_organisation_is_looked_at_once_and_then_when_it_is_to_be_read(
    store: Store, organization: OrganizationStore, clock: FakeClock
) -> None:
    first = await claim(store)
    await settle_all(organization)

    clock.advance(LEASE)
    assert (len(first), await claim(store)) == (len(WORK_KINDS), set())
    clock.advance(timedelta(days=limits.SCRUB_DAYS))
    assert await claim(store) == {work(organization, "scrub")}


@pytest.mark.parametrize(
    ("job", "kind"),
    [
        (MERGE_WORDS, "jobs"),
        (TRAIN_DICTIONARY, "jobs"),
        (APPLY_RETENTION, "jobs"),
        *((job, "erasing") for job in ERASING_JOBS),
    ],
)
async def test_a_job_is_due_with_the_transaction_that_adds_it(
    store: Store, organization: OrganizationStore, job: str, kind: WorkKind
) -> None:
    await settle_all(organization)

    await organization.enqueue_job(job, "all")

    assert await claim(store) == {work(organization, kind)}


@promise("processes")
async def test_work_is_due_with_the_append_that_makes_it(
    store: Store, organization: OrganizationStore, build_store: BuildStore
) -> None:
    await settle_all(organization)
    await append_waiting(organization)

    # As after a crash: another process knows only what is stored.
    elsewhere = build_store(RandomIds())
    await elsewhere.open()
    found = await claim(elsewhere)
    await elsewhere.close()

    assert found == {work(organization, "vectors")}
    assert await claim(store) == set()


async def test_work_of_a_process_that_dies_is_claimed_again_when_its_lease_ends(
    store: Store, organization: OrganizationStore, clock: FakeClock
) -> None:
    await settle_all(organization)
    await append_waiting(organization)
    await claim(store)

    clock.advance(LEASE - timedelta(seconds=1))
    early = await claim(store)
    clock.advance(timedelta(seconds=1))

    assert (early, await claim(store)) == (set(), {work(organization, "vectors")})


async def test_a_lease_of_a_clock_that_was_ahead_holds_nothing_up(
    store: Store, organization: OrganizationStore, clock: FakeClock
) -> None:
    await settle_all(organization)
    await append_waiting(organization)
    clock.advance(timedelta(days=400))
    await claim(store, "vectors")

    clock.advance(timedelta(days=-400))

    assert await claim(store) == {work(organization, "vectors")}


async def test_work_that_comes_while_others_work_is_not_forgotten(
    store: Store, organization: OrganizationStore, clock: FakeClock
) -> None:
    await settle_all(organization)
    await append_waiting(organization)
    await claim(store)

    assert not await organization.settle_due("vectors")
    assert await organization.settle_due("vectors", is_stuck=True)

    clock.advance(RECHECK)
    assert await claim(store) == {work(organization, "vectors")}


async def test_settled_work_is_due_again_with_the_next_append(
    store: Store, organization: OrganizationStore, clock: FakeClock
) -> None:
    await settle_all(organization)
    for _ in range(2):
        await append_waiting(organization)
        assert await claim(store) == {work(organization, "vectors")}
        (listed,) = (await organization.list_conversations(ConversationQuery())).conversations
        await organization.delete_conversation(listed.id, actor=ACTOR)
        await organization.settle_due("vectors")
        clock.advance(timedelta(days=1))


async def test_what_expires_and_what_has_a_rule_is_due_in_time(
    store: Store, organization: OrganizationStore, clock: FakeClock
) -> None:
    conversation = await begin(organization, "one")
    await settle_all(organization)
    await organization.settle_due("vectors")
    await claim(store)

    await organization.trash.trash_conversation(conversation, actor=ACTOR, keep=timedelta(days=3))
    clock.advance(timedelta(days=2))
    early = await claim(store, "jobs")
    clock.advance(timedelta(days=1))
    in_time = await claim(store, "jobs")
    await organization.trash.purge_expired(actor=ACTOR)
    await organization.retention.set_rule(RetentionDraft(keep="5d"), actor=ACTOR)
    await organization.settle_due("jobs")
    clock.advance(LATER)

    assert (early, in_time) == (set(), {work(organization, "jobs")})
    assert await claim(store, "jobs") == {work(organization, "jobs")}


async def test_work_of_a_kind_that_nobody_asks_for_stays_due(
    store: Store, organization: OrganizationStore
) -> None:
    await settle_all(organization)
    await append_waiting(organization)

    assert await claim(store, "jobs", "documents") == set()
    assert await claim(store, "vectors") == {work(organization, "vectors")}


async def test_of_two_processes_one_claims_a_piece_of_work(
    store: Store, organization: OrganizationStore, build_store: BuildStore
) -> None:
    await append_waiting(organization)
    elsewhere = build_store(RandomIds())
    await elsewhere.open()

    here, there = await claim(store), await claim(elsewhere)
    await elsewhere.close()

    assert (len(here), there) == (len(WORK_KINDS), set())


async def test_a_deleted_organisation_has_no_due_work(
    store: Store, organization: OrganizationStore
) -> None:
    await append_waiting(organization)

    await store.control.delete_organization(organization.organization_id, actor=ACTOR)

    assert await claim(store) == set()


@pytest.mark.parametrize("build_store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("kept", ["control", "organization"])
async def test_everything_is_looked_for_in_a_store_one_file_of_which_was_put_back(
    store: Store, organization: OrganizationStore, tmp_path: Path, clock: FakeClock, kept: str
) -> None:
    directory = tmp_path / "store"
    await settle_all(organization)
    control, own = directory / "engram.db", directory / f"orgs/{organization.organization_id}.db"
    await store.close()
    path = control if kept == "control" else own
    former = path.read_bytes()
    again = SqliteStore(directory, clock=clock, ids=RandomIds())
    await again.open()
    await append_waiting(await again.organization(organization.organization_id))
    await again.close()

    path.write_bytes(former)
    accepting = SqliteStore(directory, clock=clock, ids=RandomIds(), accept=True)
    await accepting.open()
    await accepting.organization(organization.organization_id)
    found = await claim(accepting)
    await accepting.close()

    assert found == {work(organization, kind) for kind in WORK_KINDS}


_opened: list[str] = []
_hooked: list[bool] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "sqlite3.connect":
        _opened.append(Path(str(arguments[0]).partition("?")[0]).name)


@contextmanager
def files_opened() -> Generator[list[str]]:
    """Yield the names of the files that SQLite opens in this block."""
    if not _hooked:
        sys.addaudithook(_note)
        _hooked.append(True)
    _opened.clear()
    yield _opened


async def test_no_file_of_an_idle_organisation_is_opened(tmp_path: Path, clock: FakeClock) -> None:
    store = SqliteStore(tmp_path, clock=clock, ids=RandomIds())
    await store.open()
    made = [
        (await store.control.create_organization(OrganizationDraft(name=name), actor=ACTOR)).id
        for name in ("busy", "idle", "idle too")
    ]
    for each in made:
        await settle_all(await store.organization(each))
    await append_waiting(await store.organization(made[0]))
    await store.close()

    with files_opened() as files:
        again = SqliteStore(tmp_path, clock=clock, ids=RandomIds())
        await again.open()
        for due in await claim(again):
            await again.organization(due.organization_id)
        await again.close()

    assert set(files) == {"engram.db", f"{made[0]}.db"}
