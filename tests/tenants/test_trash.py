"""A deletion and its undoing reach the searches of every process, whichever the database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from engram.embedding.choice import Hashed
from engram.limits import TRASH_DAYS
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.ids import ConversationId
from engram.model.memory import NoteDraft
from engram.model.search import SearchRequest
from engram.model.trash import TrashQuery
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.promises import promise

QUERY = "harbour ships ferry"


async def say(service: Service, title: str, text: str) -> ConversationId:
    me = await service.access.local_principal()
    target = await service.conversations.create_conversation(me, ConversationDraft(title=title))
    messages = (MessageDraft(role="user", content=text),)
    request = AppendRequest(messages=messages, conversation_id=target)
    await service.conversations.append_messages(me, request)
    return target


async def results(service: Service) -> list[tuple[str, float]]:
    """Return what a search finds, by words and by meaning, with the scores."""
    me = await service.access.local_principal()
    request = SearchRequest(query=QUERY, profile="composite", min_score=0)
    found = await service.search.search(me, request)
    return [(result.chunk_id, result.score) for result in found.results]


@promise("trash", "processes")
async def test_undoing_a_deletion_gives_every_process_the_same_results_and_scores(
    tmp_path: Path, database: str | None
) -> None:
    settings = Settings(home=tmp_path / "store", database_url=database, embedder=Hashed())
    clock = FakeClock()
    async with (
        open_service(settings, clock=clock) as here,
        open_service(settings, clock=clock) as there,
    ):
        me = await here.access.local_principal()
        thrown = await say(here, "a", "ships wait in the harbour")
        await say(here, "b", "the ferry leaves at noon")
        stored = await here.memories.store_note(me, NoteDraft(content="the harbour is deep"))
        note = stored.memories[0].id
        before = [await results(each) for each in (here, there)]

        await here.conversations.delete_conversation(me, thrown, undo=True)
        await here.memories.purge(me, note, undo=True)
        gone = [await results(each) for each in (there, here)]
        for entry in (await there.trash.list(me, TrashQuery())).entries:
            await there.trash.restore(me, entry.id)
        after = [await results(each) for each in (here, there)]

        assert (len(before[0]), len(gone[0]), gone[0]) == (3, 1, gone[1])
        assert before[0] == before[1] == after[0] == after[1]


@promise("trash")
async def test_the_trash_of_every_organisation_is_purged_by_whichever_process_comes_first(
    tmp_path: Path, database: str | None
) -> None:
    settings = Settings(home=tmp_path / "store", database_url=database, embedder=Hashed())
    clock = FakeClock()
    async with (
        open_service(settings, clock=clock) as here,
        open_service(settings, clock=clock) as there,
    ):
        me = await here.access.local_principal()
        for number in range(30):
            target = await say(here, str(number), "ships wait in the harbour")
            await here.conversations.delete_conversation(me, target, undo=True)
        clock.advance(timedelta(days=TRASH_DAYS))

        for each in (there, here):
            await each.background.take_due()
            await each.background.visit_queued()

        usage = await here.account.usage(me)
        assert (usage.messages, usage.stored_bytes) == (0, 0)
