"""One embedder alone: a search first gives new messages their vectors, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx

from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from tests.fakes import FakeClock
from tests.meaning.house import explained, opened_house
from tests.meaning.servers import append, found, search, serve
from tests.promises import promise

pytestmark = promise("findable")

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

ROUNDS = 30


class SlowEmbedder(HashedEmbedder):
    """Gives vectors of passages when it is let."""

    def __init__(self) -> None:
        self.is_let = asyncio.Event()

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        await self.is_let.wait()
        return await super().embed_passages(passages)


async def test_a_search_finds_what_was_just_stored_by_its_vector(tmp_path: Path) -> None:
    with serve(tmp_path, embedder="hash") as server:
        async with server.client() as client:
            for number in range(ROUNDS):
                await expect_vector_at_once(client, client, number)


async def test_a_search_in_another_process_does_so_too(tmp_path: Path) -> None:
    with serve(tmp_path, embedder="hash") as first, serve(tmp_path, embedder="hash") as second:
        async with first.client() as here, second.client(first.key) as there:
            for number in range(ROUNDS):
                await expect_vector_at_once(here, there, number)


async def test_a_search_does_not_wait_long_for_vectors_and_says_that_some_are_missing(
    tmp_path: Path,
) -> None:
    embedder = SlowEmbedder()
    async with opened_house(tmp_path, Tiers.of(deep=embedder), clock=FakeClock()) as house:
        await house.append("The letter came by post")

        answer = await house.search("letter")

        assert (answer.degraded, answer.pending) == (("index_lag",), 1)
        assert explained(answer).vector_tier is None
        embedder.is_let.set()
        with anyio.fail_after(30):
            while (answer := await house.search("letter")).pending:
                # On a busy machine a search may not see the work done in its time either.
                assert answer.degraded == ("index_lag",)
        assert answer.degraded == ()
        assert explained(answer).vector_tier == "deep"


async def expect_vector_at_once(
    here: httpx.AsyncClient, there: httpx.AsyncClient, number: int
) -> None:
    (stored,) = await append(here, f"The letter {number} came by post")

    answer = await search(there, f"letter {number}")

    assert (answer["degraded"], answer["pending"]) == ([], 0)
    (how,) = [message["score_breakdown"] for message in found(answer) if message["id"] == stored]
    assert how["vector_tier"] == "deep"
