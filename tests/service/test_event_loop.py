"""Whatever a caller sends, no use case stops the event loop that everybody's requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from engram import limits
from engram.api.encoding import encode_answer, to_json
from engram.embedding.hashed import HashedEmbedder
from engram.model.access import Principal
from engram.model.conversation import AppendRequest, MessageDraft
from engram.model.document import DocumentQuery, TextFilter
from engram.model.ids import MemoryId
from engram.model.memory import MemoryDraft
from engram.model.recall import ContextRequest, MemoryFetch, RecallRequest
from engram.model.search import SearchRequest
from engram.service import Service
from tests.promises import promise
from tests.stalls import STALL_MS_MAX, measured_callbacks

STRANGE_WORDS = " ".join(f"w{number}x" for number in range(13_000))[: limits.QUERY_BYTES_MAX]
"""A query of words that were never seen: none is remembered from before."""

LONG_MEMORY = "alpha <beta> & gamma. " * 20_000


async def worst_ms(work: Callable[[], Coroutine[Any, Any, object]]) -> float:
    """Return how long the longest callback of some work takes; in a task, to see its first step."""
    with measured_callbacks() as stalls:
        await asyncio.create_task(work())
    return stalls.worst_ms


async def warm_up(*work: Awaitable[object]) -> None:
    """Have modules imported and files opened that the first request of a process pays for."""
    for each in work:
        await each


def question_of(memory_id: MemoryId) -> DocumentQuery:
    return DocumentQuery(
        memory_ids=(memory_id,),
        question="alpha gamma",
        filter=TextFilter(regex="(a|l|p|h)+"),
        token_budget=limits.TOKEN_BUDGET_MAX,
    )


async def keep_long_memories(service: Service, principal: Principal) -> None:
    drafts = [MemoryDraft(content=f"{number} {LONG_MEMORY}") for number in range(12)]
    await service.memories.store_batch(principal, drafts)


@promise("fair")
@pytest.mark.parametrize(
    "contents",
    [["." * 10_000_000], ["a" * 10_000_000], [" " * 9_999_999 + "x"], ["\u4e2d " * 5_000] * 200],
    ids=["dots", "one word", "blanks", "200 messages"],
)
async def test_appending_the_longest_messages_stops_nobody(
    service: Service, principal: Principal, contents: list[str]
) -> None:
    append = service.conversations.append_messages
    first = AppendRequest(messages=(MessageDraft(role="user", content="first"),))
    await warm_up(append(principal, first))
    drafts = tuple(MessageDraft(role="user", content=content) for content in contents)

    took = await worst_ms(lambda: append(principal, AppendRequest(messages=drafts)))

    assert took < STALL_MS_MAX


async def test_embedding_long_passages_without_a_model_stops_nobody() -> None:
    embedder = HashedEmbedder()
    await warm_up(embedder.embed_passages(["first"]))

    took = await worst_ms(lambda: embedder.embed_passages(["the letter came by post " * 40] * 300))

    assert took < STALL_MS_MAX


@promise("fair")
@pytest.mark.parametrize("query", [STRANGE_WORDS, "1. " * 33_000, "\u4e2d\u6587" * 16_000])
async def test_the_longest_queries_stop_nobody(
    service: Service, principal: Principal, query: str
) -> None:
    searches: tuple[Callable[[str], Coroutine[Any, Any, object]], ...] = (
        lambda text: service.search.search(principal, SearchRequest(query=text)),
        lambda text: service.search.fetch_context(principal, ContextRequest(query=text)),
        lambda text: service.search.recall(principal, RecallRequest(query=text)),
    )
    await warm_up(*(search("alpha") for search in searches))

    took = [await worst_ms(partial(search, query)) for search in searches]

    assert max(took) < STALL_MS_MAX


@promise("fair")
async def test_reading_long_memories_stops_nobody(service: Service, principal: Principal) -> None:
    (kept,) = (await service.memories.store(principal, MemoryDraft(content="short"))).memories
    budget = limits.TOKEN_BUDGET_MAX
    query = "alpha gamma"
    searches: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "search": lambda: service.search.search(
            principal, SearchRequest(query=query, token_budget=budget)
        ),
        "windows": lambda: service.search.search(
            principal, SearchRequest(query=query, detail="window", token_budget=budget)
        ),
        "context": lambda: service.search.fetch_context(
            principal, ContextRequest(query=query, token_budget=budget)
        ),
        "recall": lambda: service.search.recall(principal, RecallRequest(query=query)),
    }
    await warm_up(*(search() for search in searches.values()))
    await warm_up(
        service.memories.fetch(principal, MemoryFetch(id=kept.id)),
        service.search.query_document(principal, question_of(kept.id)),
    )
    await keep_long_memories(service, principal)
    (long,) = (await service.memories.store(principal, MemoryDraft(content=LONG_MEMORY))).memories
    searches["fetch"] = lambda: service.memories.fetch(
        principal, MemoryFetch(id=long.id, detail="chunk", token_budget=budget)
    )
    searches["question"] = lambda: service.search.query_document(principal, question_of(long.id))

    took = {name: await worst_ms(search) for name, search in searches.items()}

    assert {} == {name: each for name, each in took.items() if each >= STALL_MS_MAX}


@promise("fair")
async def test_writing_the_longest_answer_stops_nobody() -> None:
    contents = ['"\n' * 5_000_000, "\u00e9" * 5_000_000, "x" * 10_000_000]
    answer = {"messages": [{"content": content, "sequence": 1} for content in contents]}

    took = await worst_ms(lambda: encode_answer(answer))

    assert took < STALL_MS_MAX


def test_an_answer_is_the_same_in_parts() -> None:
    short: dict[str, Any] = {"a": [1, None, {"b": 'c"\n\u00e9'}, []], "d": {}, "e": 2**70, "f": 0.5}

    long = to_json({**short, "g": "\U0001f9e0\\" * 700_000})

    assert to_json(short)[:-1] + b',"g":"' == long[: len(to_json(short)) + 5]
    assert long.endswith("\U0001f9e0\\\\".encode() * 2 + b'"}')
