"""What several processes have cached of a word index never makes a search wrong."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram import limits
from engram.model.conversation import ConversationChange
from engram.model.erasure import ErasureRequest
from engram.model.ids import ConversationId
from engram.storage.organization import OrganizationStore
from engram.storage.postgres.transactions import revision_of
from engram.storage.postings.block_index import BlockWordIndex
from engram.storage.postings.caches import PostingCache, RowCache
from engram.storage.vectors.index import MatrixIndex
from engram.vectors.matrix_cache import MatrixCache
from tests.postgres.stores import new_organization, opened
from tests.promises import promise
from tests.storage.drafts import ACTOR, append, begin
from tests.storage.erasures import erase
from tests.storage.finding import find_candidates
from tests.storage.test_editing import edit
from tests.storage.test_row_cache import rows

_TERMS = ["appl", "plum", "the", "walnut"]

words = st.sampled_from(["apple", "pear", "plum", "the", "walnut"])
texts = st.lists(words, min_size=1, max_size=6).map(" ".join)
Change = tuple[
    Literal["append", "begin", "delete", "erase", "retitle", "merge", "reindex"], int, list[str]
]
changes = st.tuples(
    st.sampled_from(
        ["append", "append", "append", "begin", "delete", "erase", "retitle", "merge", "reindex"]
    ),
    st.integers(0, 2),
    st.lists(texts | st.just("-"), min_size=1, max_size=4),
)
steps = st.lists(
    st.tuples(changes, st.integers(0, 1), st.sets(st.integers(0, 1))), min_size=1, max_size=10
)
"""What changes, by which of two processes, and which of them search afterwards."""


async def change(
    organization: OrganizationStore, what: Change, conversations: list[ConversationId]
) -> None:
    name, place, messages = what
    number = place % len(conversations)
    match name:
        case "append":
            await append(organization, *messages, to=conversations[number])
        case "begin":
            conversations.append(await begin(organization, *messages))
        case "delete":
            await organization.delete_conversation(conversations[number], actor=ACTOR)
            conversations[number] = await begin(organization)
        case "erase":
            await erase(organization, ErasureRequest(conversation_id=conversations[number]))
            conversations[number] = await begin(organization)
        case "retitle":
            edited = ConversationChange(title=messages[0])
            await edit(organization, conversations[number], edited)
        case "merge":
            await organization.merge_words()
        case "reindex":
            await organization.reindex()


async def search(organization: OrganizationStore) -> list[tuple[float, ...]]:
    return rows(await find_candidates(organization, _TERMS, limit=100))


async def search_uncached(organization: OrganizationStore) -> list[tuple[float, ...]]:
    """Search as a process does that has just started."""
    started = replace(
        organization.tenant,
        words=BlockWordIndex(),
        row_cache=RowCache(),
        posting_cache=PostingCache(),
    )
    vectors = MatrixIndex(MatrixCache(bytes_max=0))
    return await search(OrganizationStore(started, vectors=vectors, revision_of=revision_of))


async def told_apart(url: str, history: list[tuple[Change, int, set[int]]]) -> None:
    """Search after each step where much is cached, and where nothing is."""
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(opened(url)) for _ in range(2)]
        store = await new_organization(first)
        processes = [store, await second.organization(store.organization_id)]
        conversations = [await begin(store) for _ in range(3)]
        for what, writer, searchers in history:
            await change(processes[writer], what, conversations)
            expected = await search_uncached(store)
            for number in searchers:
                assert await search(processes[number]) == expected


@promise("reproducible")
@settings(max_examples=25)
@given(steps)
def test_what_processes_have_cached_equals_what_is_read(
    database_url: str, history: list[tuple[Change, int, set[int]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "TAIL_WORDS_MIN", 40)
        asyncio.run(told_apart(database_url, history))
