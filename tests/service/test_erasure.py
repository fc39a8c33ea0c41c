"""Erasure through the service: receipts, background work, other processes, files, and who may do it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Literal

import anyio
import pytest

from engram.embedding.choice import Hashed
from engram.errors import AccessDeniedError, NotFoundError
from engram.model.access import Principal
from engram.model.conversation import (
    AppendRequest,
    ConversationDraft,
    MessageDraft,
    MessageQuery,
)
from engram.model.erasure import ErasureRequest
from engram.model.export import ExportRequest
from engram.model.ids import ConversationId, ErasureId
from engram.model.memory import MemoryDraft
from engram.model.search import SearchRequest
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.transfer.compression import expand_beginning
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.erasures import places_of, unique_word
from tests.storage.places import store_at

pytestmark = promise("erasure")

WORD = unique_word(1)


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("database_url")
    return Settings(
        home=tmp_path / "store",
        data_dir=tmp_path / "files",
        database_url=url,
        embedder=Hashed(),
    )


@pytest.fixture
async def service(settings: Settings, clock: FakeClock) -> AsyncIterator[Service]:
    async with open_service(settings, clock=clock) as opened:
        yield opened


@pytest.fixture
async def elsewhere(
    service: Service, settings: Settings, clock: FakeClock
) -> AsyncIterator[Service]:
    """Another process on the same store."""
    del service
    async with open_service(settings, clock=clock) as opened:
        yield opened


async def keep(
    service: Service, principal: Principal, *texts: str, name: str | None = None
) -> ConversationId:
    made = await service.conversations.create_conversation(principal, ConversationDraft())
    messages = tuple(MessageDraft(role="user", content=text, name=name) for text in texts)
    for start in range(0, len(messages), 200):
        part = AppendRequest(messages=messages[start : start + 200], conversation_id=made)
        await service.conversations.append_messages(principal, part)
    return made


async def found(service: Service, principal: Principal) -> int:
    request = SearchRequest(query=WORD, min_score=0)
    return len((await service.search.search(principal, request)).results)


async def test_the_receipt_says_what_is_gone_and_who_still_holds_it(
    service: Service, principal: Principal, elsewhere: Service, settings: Settings, tmp_path: Path
) -> None:
    gone = await keep(service, principal, f"the word {WORD}", "and more")
    assert await found(elsewhere, principal) > 0
    known = [
        {
            "place": "/backups",
            "backups": [
                {"backup_id": "b1", "instant": "2020-01-01T00:00:00Z", "expires_at": None},
                {"backup_id": "b2", "instant": "9999-01-01T00:00:00Z", "expires_at": None},
            ],
        }
    ]
    settings.home.mkdir(exist_ok=True)
    (settings.home / "backups.json").write_text(json.dumps(known))

    counts = await service.erasure.count(principal, ErasureRequest(conversation_id=gone))
    receipt = await service.erasure.erase(principal, ErasureRequest(conversation_id=gone))

    assert counts.removed == {"conversations": 1, "messages": 2}
    assert receipt.removed == {**counts.removed, "vectors": 2}
    assert (receipt.state, receipt.actor) == ("finished", principal.actor)
    assert [each.name for each in receipt.backups] == ["b1 in /backups"]
    is_file = settings.database_url is None
    assert (len(receipt.files), len(receipt.still_held)) == ((1, 0) if is_file else (0, 1))
    assert await found(elsewhere, principal) == 0
    with pytest.raises(NotFoundError):
        await elsewhere.conversations.get_conversation(
            principal, MessageQuery(conversation_id=gone)
        )
    assert await elsewhere.erasure.get(principal, receipt.id) == receipt
    assert await elsewhere.erasure.list(principal, limit=5) == (receipt,)
    assert places_of(tmp_path, WORD.encode()) == []


async def test_a_receipt_says_if_it_cannot_know_the_backups(
    service: Service, principal: Principal, settings: Settings
) -> None:
    settings.home.mkdir(parents=True, exist_ok=True)
    (settings.home / "backups.json").write_text("{torn")
    gone = await keep(service, principal, WORD)

    receipt = await service.erasure.erase(principal, ErasureRequest(conversation_id=gone))

    assert receipt.backups == ()
    assert "backups.json, which is damaged" in receipt.still_held[-1]


async def test_a_speaker_is_forgotten_by_every_process(
    service: Service, principal: Principal, elsewhere: Service, tmp_path: Path
) -> None:
    shared = await keep(service, principal, f"the word {WORD}", name="Ada")
    assert await found(elsewhere, principal) > 0

    await service.erasure.erase(principal, ErasureRequest(subject="name=Ada"))

    assert await found(elsewhere, principal) == 0
    query = MessageQuery(conversation_id=shared)
    page = await elsewhere.conversations.get_conversation(principal, query)
    assert [message.content for message in page.messages] == [""]
    assert places_of(tmp_path, WORD.encode(), b"name=Ada") == []


async def test_exports_of_erased_memories_are_removed(
    service: Service, principal: Principal, tmp_path: Path
) -> None:
    drafts = [
        MemoryDraft(content=f"note {WORD}", project="a"),
        MemoryDraft(content="another note", project="b"),
    ]
    for draft in drafts:
        await service.memories.store(principal, draft)
    await service.memory_transfer.export_all(principal, output_path="out", project=None)
    assert places_of(tmp_path / "files", WORD.encode())

    receipt = await service.erasure.erase(principal, ErasureRequest(project="a"))

    assert (receipt.removed["memories"], receipt.removed["files"]) == (1, 1)
    assert places_of(tmp_path / "files", WORD.encode()) == []
    assert places_of(tmp_path / "files", b"another note")


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_a_receipt_names_the_exports_that_hold_what_was_erased_until_they_are_gone(
    service: Service,
    principal: Principal,
    clock: FakeClock,
    tmp_path: Path,
    compression: Literal["none", "zstd"],
) -> None:
    await service.memories.store(principal, MemoryDraft(content=f"note {WORD}", project="a"))
    await service.memories.store(principal, MemoryDraft(content="another note", project="b"))
    own = tmp_path / "files" / principal.organization_id
    request = ExportRequest(compression=compression)
    before = await export_to(own / "old" / "everything", service, principal, request)
    (own / "notes.txt").write_bytes(b"no export")
    (own / "gone").symlink_to(own / "nowhere")
    (own / "linked").symlink_to(before)
    clock.advance(timedelta(minutes=1))

    receipt = await service.erasure.erase(principal, ErasureRequest(project="a"))
    clock.advance(timedelta(minutes=1))
    after = await export_to(own / "new", service, principal, request)

    held = await holding(service, principal, receipt.id)
    assert [line for line in receipt.still_held if "export" in line] == held
    assert held == [
        "the export old/everything in the directory of the organisation, made before: remove it"
    ]
    before.unlink()
    assert await holding(service, principal, receipt.id) == []
    assert places_of(own, WORD.encode()) == []
    assert WORD.encode() not in expand_beginning(after.read_bytes())


async def test_the_exports_in_its_directory_go_with_an_organisation(
    service: Service, principal: Principal, tmp_path: Path
) -> None:
    await service.memories.store(principal, MemoryDraft(content=f"note {WORD}"))
    own = tmp_path / "files" / principal.organization_id
    await export_to(own / "deep" / "everything.ndjson", service, principal, ExportRequest())
    assert places_of(own, WORD.encode())
    name = (await service.operator.list_organizations())[0].name

    await service.account.delete_account(principal, organization=name)

    assert not own.exists()
    assert places_of(tmp_path, WORD.encode()) == []


async def export_to(
    path: Path, service: Service, principal: Principal, request: ExportRequest
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [part async for part in await service.exports.export(principal, request)]
    path.write_bytes(b"".join(parts))
    return path


async def holding(service: Service, principal: Principal, erasure_id: ErasureId) -> list[str]:
    """Return the exports that a receipt names."""
    receipt = await service.erasure.get(principal, erasure_id)
    return [line for line in receipt.still_held if "export" in line]


async def test_what_a_dead_process_left_is_finished_by_the_next(
    elsewhere: Service,
    principal: Principal,
    settings: Settings,
    clock: FakeClock,
    tmp_path: Path,
) -> None:
    gone = await keep(elsewhere, principal, *(f"{WORD} {number}" for number in range(600)))
    dying = store_at(settings.database_url or str(settings.home), clock=clock)
    await dying.open()
    organization = await dying.organization(principal.organization_id)
    request = ErasureRequest(conversation_id=gone)
    begun = await organization.erasing.begin(request, actor="key_gone")
    await dying.close()

    await elsewhere.background.take_due()
    assert await elsewhere.background.erasing.work_queued() == 1

    receipt = await elsewhere.erasure.get(principal, begun.id)
    assert (receipt.state, receipt.removed["messages"]) == ("finished", 600)
    assert places_of(tmp_path, WORD.encode()) == []
    await elsewhere.background.take_due()
    assert await elsewhere.background.erasing.work_queued() == 0


async def test_the_background_looks_for_what_dead_processes_left_again_and_again(
    elsewhere: Service, principal: Principal, settings: Settings, clock: FakeClock
) -> None:
    kept = [await keep(elsewhere, principal, WORD) for _ in range(2)]
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(elsewhere.background.erasing.run)
            for gone in kept:
                dying = store_at(settings.database_url or str(settings.home), clock=clock)
                await dying.open()
                organization = await dying.organization(principal.organization_id)
                request = ErasureRequest(conversation_id=gone)
                begun = await organization.erasing.begin(request, actor="key_gone")
                await dying.close()

                while (await elsewhere.erasure.get(principal, begun.id)).state != "finished":
                    await elsewhere.background.take_due()
            group.cancel_scope.cancel()


async def test_a_long_conversation_is_removed_in_the_background(
    service: Service, principal: Principal
) -> None:
    gone = await keep(service, principal, *(f"{WORD} {number}" for number in range(600)))

    receipt = await service.conversations.delete_conversation(principal, gone)
    assert await found(service, principal) == 0
    assert await service.background.erasing.work(principal.organization_id) == 1

    counters = (await service.account.status(principal)).counters
    assert (receipt.messages, counters.messages, counters.vectors) == (600, 0, 0)


async def test_erasing_needs_the_scopes_for_it(service: Service, principal: Principal) -> None:
    for scopes in ({"admin"}, {"delete", "write", "read", "search"}):
        weak = replace(principal, scopes=frozenset(scopes))

        with pytest.raises(AccessDeniedError):
            await service.erasure.erase(weak, ErasureRequest(subject="name=Ada"))


async def test_the_receipt_of_an_organisation_names_files_and_backups(
    service: Service, principal: Principal, settings: Settings, tmp_path: Path
) -> None:
    await keep(service, principal, f"the word {WORD}")
    name = (await service.operator.list_organizations())[0].name

    deleted = await service.account.delete_account(principal, organization=name)

    assert deleted.removed["messages"] == 1
    is_file = settings.database_url is None
    own = (f"{principal.organization_id}.db", "engram.db") if is_file else ()
    assert deleted.files == own
    assert len(deleted.still_held) == (0 if is_file else 1)
    assert places_of(tmp_path, WORD.encode()) == []
