"""The trash over REST: final unless `undo` is sent, listed, restored, and purged when its time is over."""

from __future__ import annotations

from datetime import timedelta

import httpx
from dirty_equals import IsPartialDict

from engram.limits import TRASH_DAYS
from engram.model.conversation import ConversationDraft
from engram.model.memory import MemoryDraft
from engram.model.value import replace
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import append, new_conversation, refusal, stored

pytestmark = promise("trash")

TRASH = "/api/v1/trash"
FACT = "The staging database is reset every Monday"


async def made(api: httpx.AsyncClient) -> tuple[str, str]:
    """Return the ids of a conversation and a note."""
    conversation_id = await new_conversation(api, title="Ferry", project="harbour")
    await append(api, conversation_id, "the ferry leaves at noon", "and returns at night")
    note = await api.post("/api/v1/notes", json={"content": FACT})
    return conversation_id, note.json()["id"]


async def found(api: httpx.AsyncClient, query: str) -> int:
    answer = await api.get("/api/v1/search", params={"q": query, "min_score": 0})
    return len(answer.json()["results"])


async def test_a_deletion_is_final_unless_undo_is_sent(api: httpx.AsyncClient) -> None:
    conversation_id, note = await made(api)

    deleted = await api.delete(f"/api/v1/conversations/{conversation_id}")
    removed = await api.delete(f"/api/v1/notes/{note}")

    assert "restorable_until" not in deleted.json()
    assert "restorable_until" not in removed.json()
    assert (await api.get(TRASH)).json()["total"] == 0
    for gone in (conversation_id, note):
        assert refusal(await api.post(f"{TRASH}/{gone}/restore"))[:2] == (404, "not_found")


async def test_what_was_deleted_with_undo_is_listed_and_restored(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient, clock: FakeClock
) -> None:
    conversation_id, note = await made(api)
    before = (await api.get(f"/api/v1/conversations/{conversation_id}")).json()
    until = clock.now() + timedelta(days=TRASH_DAYS)

    deleted = await api.delete(f"/api/v1/conversations/{conversation_id}?undo=true")
    removed = await api.delete(f"/api/v1/memories/{note}?undo=true")
    hidden = [await found(api, "ferry noon"), await found(api, FACT), *await stored(api)]
    listed = (await api.get(TRASH)).json()
    foreign = (await stranger.get(TRASH)).json()
    usage = (await api.get("/api/v1/usage")).json()
    restored = [
        (await api.post(f"{TRASH}/{each}/restore")).json() for each in (conversation_id, note)
    ]

    expires = until.isoformat().replace("+00:00", ".000000Z")
    assert deleted.json() == IsPartialDict(deleted=True, messages=2, restorable_until=expires)
    assert removed.json() == IsPartialDict(removed=True, id=note, restorable_until=expires)
    assert (hidden, foreign["total"], usage["messages"]) == ([0, 0, 0, 0], 0, 3)
    assert {each["id"]: each["kind"] for each in listed["entries"]} == {
        conversation_id: "conversation",
        note: "memory",
    }
    assert [each["restored"] for each in restored] == [True, True]
    assert (await api.get(f"/api/v1/conversations/{conversation_id}")).json() == before
    assert (await found(api, "ferry noon"), await found(api, FACT)) == (1, 1)


async def test_a_final_deletion_takes_what_is_in_the_trash(api: httpx.AsyncClient) -> None:
    conversation_id, note = await made(api)
    for path in (f"conversations/{conversation_id}", f"notes/{note}"):
        await api.delete(f"/api/v1/{path}?undo=true")

    deleted = await api.delete(f"/api/v1/conversations/{conversation_id}")
    removed = await api.delete(f"/api/v1/notes/{note}")
    again = await api.delete(f"/api/v1/conversations/{conversation_id}")

    assert (deleted.json()["messages"], removed.json()["removed"]) == (2, True)
    assert (again.status_code, (await api.get(TRASH)).json()["total"]) == (404, 0)


async def test_one_entry_or_all_of_them_are_removed_for_good(api: httpx.AsyncClient) -> None:
    conversation_id, note = await made(api)
    for path in (f"conversations/{conversation_id}", f"notes/{note}"):
        await api.delete(f"/api/v1/{path}?undo=true")

    one = (await api.delete(f"{TRASH}/{note}")).json()
    all_of_them = (await api.delete(TRASH)).json()

    assert (one["removed"], all_of_them["removed"]) == (1, 1)
    assert (await api.get("/api/v1/usage")).json() == IsPartialDict(messages=0, stored_bytes=0)
    actions = [each["action"] for each in (await api.get("/api/v1/audit")).json()["entries"]]
    assert actions[:4] == ["trash_purge", "trash_purge", "trash", "trash"]


async def test_a_setting_says_how_long_deletions_can_be_undone(
    settings: Settings, clock: FakeClock
) -> None:
    until = clock.now() + timedelta(days=2)
    async with open_service(replace(settings, trash_days=2), clock=clock) as service:
        me = await service.access.local_principal()
        conversation_id = await service.conversations.create_conversation(me, ConversationDraft())
        (note,) = (await service.memories.store(me, MemoryDraft(content=FACT))).memories

        deleted = await service.conversations.delete_conversation(me, conversation_id, undo=True)
        removed = await service.memories.purge(me, note.id, undo=True)

    assert (deleted.restorable_until, removed.restorable_until) == (until, until)


async def test_the_background_purges_what_has_expired(
    api: httpx.AsyncClient, settings: Settings, clock: FakeClock
) -> None:
    conversation_id, note = await made(api)
    await api.delete(f"/api/v1/conversations/{conversation_id}?undo=true")
    clock.advance(timedelta(days=1))
    await api.delete(f"/api/v1/notes/{note}?undo=true")

    async with open_service(settings, clock=clock) as service:
        await service.background.take_due()
        await service.background.visit_queued()
        early = (await api.get(TRASH)).json()["total"]
        clock.advance(timedelta(days=TRASH_DAYS - 1))
        await service.background.take_due()
        await service.background.visit_queued()

    left = [each["id"] for each in (await api.get(TRASH)).json()["entries"]]
    assert (early, left) == (2, [note])
    newest = (await api.get("/api/v1/audit")).json()["entries"][0]
    assert newest == IsPartialDict(actor="system", action="trash_purge")
