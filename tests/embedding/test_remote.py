"""The embedder behind a service: its bounds, and how it handles a service that misbehaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from http import HTTPStatus

import numpy as np
import pytest

from engram.embedding.registry import SEARCH_PREFIX
from engram.embedding.remote import RemoteAddress, RemoteEmbedder
from engram.embedding.retry import Backoff
from engram.errors import (
    EmbedderMismatchError,
    EmbedderUnavailableError,
    InvalidRequestError,
    InvalidVectorError,
)
from engram.limits import (
    BREAKER_FAILURES_MAX,
    BREAKER_OPEN_S,
    REMOTE_ATTEMPTS_MAX,
    REMOTE_BATCH_BYTES_MAX,
    REMOTE_BATCH_TEXTS_MAX,
    REMOTE_TOKENS_MAX,
)
from tests.embedding.service import (
    DIMENSIONS,
    Reply,
    Service,
    failing,
    running_service,
    saying,
    vectors,
)
from tests.fakes import FakeClock


class Waits:
    """A sleep that moves the clock instead of waiting."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.seconds = list[float]()

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self._clock.advance(timedelta(seconds=seconds))


class Scene:
    """A service, an embedder that calls it, and their clock."""

    def __init__(self, service: Service, *, model: str, key: str | None, query_s: float) -> None:
        self.service = service
        self.clock = FakeClock()
        self.waits = Waits(self.clock)
        self.embedder = RemoteEmbedder(
            RemoteAddress(service.url, model, key),
            clock=self.clock,
            backoff=Backoff(sleep=self.waits.sleep, chance=lambda: 1.0),
            query_s=query_s,
        )


@asynccontextmanager
async def a_scene(
    *, model: str = "m", key: str | None = None, query_s: float = 5.0, identified: bool = True
) -> AsyncGenerator[Scene]:
    with running_service() as service:
        scene = Scene(service, model=model, key=key, query_s=query_s)
        if identified:
            await scene.embedder.identify()
            service.requests.clear()
        yield scene
        await scene.embedder.close()


async def test_vectors_come_back_in_the_order_of_their_texts_and_of_unit_length() -> None:
    async with a_scene() as scene:
        rows = await scene.embedder.embed_passages(["a", "bb" * 500])

    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert rows[0, 0] < 0.9 < rows[1, 0]


async def test_the_dimensions_are_discovered_and_then_fixed() -> None:
    async with a_scene(model="some-model") as scene:
        identity = await scene.embedder.identify()
        scene.service.behaviours.append(lambda texts: vectors(texts, dimensions=7))

        assert (identity.name, identity.dimensions) == ("some-model", DIMENSIONS)
        with pytest.raises(EmbedderMismatchError, match=f"{DIMENSIONS} dimensions, got 7"):
            await scene.embedder.embed_passages(["a"])


async def test_the_model_and_the_key_are_sent() -> None:
    async with a_scene(model="some-model", key="secret") as scene:
        await scene.embedder.embed_query("where?")

        assert scene.service.requests == [{"model": "some-model", "input": ["where?"]}]
        assert scene.service.keys[-1] == "Bearer secret"


async def test_a_model_of_the_registry_keeps_its_query_prefix_behind_a_service() -> None:
    async with a_scene(model="BAAI/bge-small-en-v1.5") as scene:
        await scene.embedder.embed_query("where?")
        await scene.embedder.embed_passages(["here"])

        assert scene.service.texts == [[SEARCH_PREFIX + "where?"], ["here"]]


async def test_requests_stay_within_the_bounds_of_one_batch() -> None:
    async with a_scene() as scene:
        short = ["x"] * (REMOTE_BATCH_TEXTS_MAX + 1)
        long = ["y" * (REMOTE_BATCH_BYTES_MAX // 2)] * 3

        rows = await scene.embedder.embed_passages([*short, *long])

        assert len(rows) == len(short) + len(long)
        assert [len(texts) for texts in scene.service.texts] == [REMOTE_BATCH_TEXTS_MAX, 2, 2]
        assert all(sum(map(len, texts)) <= REMOTE_BATCH_BYTES_MAX for texts in scene.service.texts)


async def test_no_request_is_sent_for_no_texts() -> None:
    async with a_scene() as scene:
        assert (await scene.embedder.embed_passages([])).shape == (0, DIMENSIONS)
        assert scene.service.requests == []


async def test_a_long_query_is_truncated() -> None:
    async with a_scene() as scene:
        await scene.embedder.embed_query("é" * 10 * REMOTE_TOKENS_MAX)

        ((sent,),) = scene.service.texts
        assert sent == "é" * REMOTE_TOKENS_MAX
        assert scene.embedder.count_tokens(sent) == REMOTE_TOKENS_MAX


async def test_a_batch_is_retried_with_exponential_backoff() -> None:
    async with a_scene() as scene:
        scene.service.behaviours += [failing(HTTPStatus.INTERNAL_SERVER_ERROR)] * 3

        rows = await scene.embedder.embed_passages(["a"])

        assert len(rows) == 1
        assert scene.waits.seconds == [0.5, 1.0, 2.0]


async def test_a_batch_that_keeps_failing_is_given_up() -> None:
    async with a_scene() as scene:
        scene.service.behaviours += [failing(HTTPStatus.BAD_GATEWAY)] * REMOTE_ATTEMPTS_MAX

        with pytest.raises(EmbedderUnavailableError, match="502"):
            await scene.embedder.embed_passages(["a"])
        assert len(scene.service.requests) == REMOTE_ATTEMPTS_MAX


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("Fri, 08 May 2026 12:00:09 GMT", 9.0), ("99999", 30.0), ("soon", 0.5)],
)
async def test_retry_after_is_respected_within_a_bound(header: str, seconds: float) -> None:
    async with a_scene() as scene:
        scene.service.behaviours.append(failing(HTTPStatus.TOO_MANY_REQUESTS, retry_after=header))

        await scene.embedder.embed_passages(["a"])

        assert scene.waits.seconds == [seconds]


async def test_a_query_is_not_retried() -> None:
    async with a_scene() as scene:
        scene.service.behaviours.append(failing(HTTPStatus.SERVICE_UNAVAILABLE))

        with pytest.raises(EmbedderUnavailableError):
            await scene.embedder.embed_query("where?")
        assert (len(scene.service.requests), scene.waits.seconds) == (1, [])


async def test_a_query_does_not_wait_for_a_slow_service() -> None:
    async with a_scene(query_s=0.05, identified=False) as scene:
        scene.service.awake.clear()

        with pytest.raises(EmbedderUnavailableError, match="no answer"):
            await scene.embedder.embed_query("where?")


async def test_a_service_that_is_down_is_unavailable() -> None:
    async with a_scene() as scene:
        down = RemoteEmbedder(RemoteAddress("http://127.0.0.1:1", "m"), clock=scene.clock)

        with pytest.raises(EmbedderUnavailableError, match="cannot be reached"):
            await down.identify()
        await down.close()


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_one_refused_text_does_not_fail_the_others(status: int) -> None:
    def refuse_poison(texts: list[str]) -> Reply:
        return Reply(status) if "poison" in texts else vectors(texts)

    async with a_scene() as scene:
        scene.service.behaviours += [refuse_poison] * 10

        with pytest.raises(InvalidRequestError, match=str(status)):
            await scene.embedder.embed_passages(["a", "b", "c", "poison"])
        rows = await scene.embedder.embed_passages(["a", "b", "c"])

    assert len(rows) == 3
    assert scene.waits.seconds == []


ANSWERS = {
    "a number that is not finite": '{"data": [{"embedding": [1.0, NaN, 1.0]}]}',
    "a number too large": '{"data": [{"embedding": [1.0, 1e999, 1.0]}]}',
    "a length too large": '{"data": [{"embedding": [1.0, 1e300, 1.0]}]}',
    "only zeros": '{"data": [{"embedding": [0, 0, 0]}]}',
    "no number": '{"data": [{"embedding": [1.0, null, 1.0]}]}',
    "text": '{"data": [{"embedding": "AACAPwAAgD8="}]}',
    "nested lists": '{"data": [{"embedding": [[1.0, 2.0, 3.0]]}]}',
    "no vector": '{"data": [{"index": 0}]}',
    "an empty vector": '{"data": [{"embedding": []}]}',
    "too few vectors": '{"data": []}',
    "too many vectors": '{"data": [{"embedding": [1, 2, 3]}, {"embedding": [1, 2, 3]}]}',
    "unequal vectors": '{"data": [{"embedding": [1, 2, 3]}, {"embedding": [1, 2]}]}',
    "items that are none": '{"data": [1]}',
    "data that is none": '{"data": {"embedding": [1, 2, 3]}}',
    "another object": '{"error": "quota"}',
    "a list": "[1, 2, 3]",
    "a page": "<html>",
    "nothing": "",
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_without_vectors_is_refused(answer: str) -> None:
    async with a_scene() as scene:
        scene.service.behaviours.append(saying(answer))

        with pytest.raises(InvalidVectorError):
            await scene.embedder.embed_query("where?")


async def test_the_circuit_opens_for_a_failing_service_and_closes_again() -> None:
    async with a_scene() as scene:
        scene.service.behaviours += [failing(500)] * BREAKER_FAILURES_MAX
        for _ in range(BREAKER_FAILURES_MAX):
            with pytest.raises(EmbedderUnavailableError, match="500"):
                await scene.embedder.embed_query("where?")

        with pytest.raises(EmbedderUnavailableError, match="suspended"):
            await scene.embedder.embed_passages(["not sent"])
        assert len(scene.service.requests) == BREAKER_FAILURES_MAX
        assert scene.waits.seconds == []
        scene.clock.advance(timedelta(seconds=BREAKER_OPEN_S))

        assert len(await scene.embedder.embed_query("back?")) == DIMENSIONS


async def test_a_response_without_vectors_does_not_close_the_circuit() -> None:
    async with a_scene() as scene:
        scene.service.behaviours += [failing(500)] * (BREAKER_FAILURES_MAX - 1)
        # One for the query, one for the probe that follows a response without vectors.
        scene.service.behaviours += [saying("<html>"), saying("<html>"), failing(500)]
        for _ in range(BREAKER_FAILURES_MAX + 1):
            with pytest.raises(EmbedderUnavailableError):
                await scene.embedder.embed_query("where?")

        with pytest.raises(EmbedderUnavailableError, match="suspended"):
            await scene.embedder.embed_query("not sent")


async def test_a_cancelled_probe_frees_the_slot_for_the_next() -> None:
    async with a_scene() as scene:
        scene.service.behaviours += [failing(500)] * BREAKER_FAILURES_MAX
        for _ in range(BREAKER_FAILURES_MAX):
            with pytest.raises(EmbedderUnavailableError):
                await scene.embedder.embed_query("where?")
        scene.clock.advance(timedelta(seconds=BREAKER_OPEN_S))
        scene.service.awake.clear()
        scene.service.asked.clear()

        probe = asyncio.create_task(scene.embedder.embed_query("probe"))
        assert await asyncio.to_thread(scene.service.asked.wait, timeout=60)
        with pytest.raises(EmbedderUnavailableError, match="suspended"):
            await scene.embedder.embed_query("beside the probe")
        probe.cancel()
        await asyncio.wait([probe])
        scene.service.awake.set()

        assert len(await scene.embedder.embed_query("next")) == DIMENSIONS
