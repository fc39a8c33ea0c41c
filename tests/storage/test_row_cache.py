"""What a search remembers of messages and windows never makes it wrong."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engram.clock import RandomIds
from engram.model.access import OrganizationDraft
from engram.model.search import Candidates
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock, SequentialIds
from tests.storage.drafts import ACTOR, append, begin, find

words = st.sampled_from(["apple", "pear", "plum", "the", "walnut"])
texts = st.lists(words, min_size=1, max_size=6).map(" ".join)
Append = tuple[int, list[str]]
appends = st.tuples(st.integers(0, 2), st.lists(texts, min_size=1, max_size=4))
steps = st.lists(appends | st.none(), min_size=1, max_size=8)
"""Appends to one of three conversations; None deletes the first of them."""


def rows(found: Candidates) -> list[tuple[float, ...]]:
    columns = (
        found.keys,
        found.characters,
        found.said_at,
        found.share_message.round(12),
        found.share_window.round(12),
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


async def search(store: OrganizationStore) -> list[tuple[float, ...]]:
    return rows(await find(store, "appl", "plum", "walnut", limit=100))


async def told_apart(history: list[Append | None]) -> None:
    """Search after each step where much is remembered, and where nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        here = SqliteStore(Path(folder), clock=FakeClock(), ids=SequentialIds())
        await here.open()
        made = await here.control.create_organization(OrganizationDraft(name="Acme"), actor=ACTOR)
        store = await here.organization(made.id)
        conversations = [await begin(store) for _ in range(3)]
        for step in history:
            if step is None:
                await store.delete_conversation(conversations[0], actor=ACTOR)
                conversations = [*conversations[1:], await begin(store)]
            else:
                place, messages = step
                await append(store, *messages, to=conversations[place])
            fresh = SqliteStore(Path(folder), clock=FakeClock(), ids=RandomIds())
            await fresh.open()

            assert await search(store) == await search(await fresh.organization(made.id))

            await fresh.close()
        await here.close()


@given(steps)
def test_what_is_remembered_equals_what_is_read(history: list[Append | None]) -> None:
    asyncio.run(told_apart(history))
