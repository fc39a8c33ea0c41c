"""Many clients that search over HTTP at once, alone and while others append."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Direction, Figure
from bench.planting import PlantedStore, plant_store
from bench.search import QUERY_WORDS
from bench.texts import chat, sentences
from bench.timing import percentile
from bench.wire import Wire, connected, prepare_post
from tools.server import running_server

SEARCHERS = (1, 16, 64)
WRITERS = 4
MESSAGES_PER_CALL = 6

SLOWER_MAX = 2.5
"""Times that a search beside writers may take of one alone, at the median."""

WRITTEN_MIN = 0.25
"""Share of their rate that writers keep beside sixteen searchers."""


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of many clients; one that is refused ends the benchmark."""
    messages, seconds = (1_000, 1.5) if quick else (10_000, 10.0)
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        planted = asyncio.run(plant_store(Path(directory), messages=messages))

        def run(searchers: int, writers: int) -> Outcome:
            return _run(planted, seconds, searchers=searchers, writers=writers)

        alone = [run(count, 0) for count in SEARCHERS]
        writing = run(0, WRITERS)
        together = [run(count, WRITERS) for count in SEARCHERS]
    return [*_search_figures(alone, together), *_append_figures(writing, together)]


def _run(planted: PlantedStore, seconds: float, *, searchers: int, writers: int) -> Outcome:
    """Return what clients of a server on a copy of a store got done.

    What writers of another run stored would make searches slower, and keep the model busy long after them.
    """
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        home = shutil.copytree(planted.path.parent.parent, Path(directory) / "home")
        with running_server(LOG="error", HOME=str(home)) as server:
            warm_up = _Load(server.port, planted.api_key, seconds / 4)
            asyncio.run(warm_up.run(searchers=1, writers=0))
            load = _Load(server.port, planted.api_key, seconds)
            return asyncio.run(load.run(searchers=searchers, writers=writers))


@dataclass(slots=True)
class Outcome:
    """What the clients of one run got done."""

    seconds: float = 0.0
    searches_ms: list[float] = field(default_factory=list[float])
    messages: int = 0

    @property
    def searches_per_s(self) -> float:
        return len(self.searches_ms) / self.seconds

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds


class _Load:
    """Clients of one server, each of which waits for its answer before it asks again."""

    def __init__(self, port: int, token: str, seconds: float) -> None:
        self._port = port
        self._token = token
        self._seconds = seconds
        self._queries = _new_queries()
        self._texts = itertools.cycle(chat(20_000))

    async def run(self, *, searchers: int, writers: int) -> Outcome:
        """Return what was done in the time given."""
        outcome, started = Outcome(), time.perf_counter()
        async with asyncio.TaskGroup() as clients:
            for _ in range(searchers):
                clients.create_task(self._search(outcome, started + self._seconds))
            for _ in range(writers):
                clients.create_task(self._append(outcome, started + self._seconds))
        outcome.seconds = time.perf_counter() - started
        return outcome

    async def _search(self, outcome: Outcome, deadline: float) -> None:
        async with connected(self._port) as wire:
            while (begun := time.perf_counter()) < deadline:
                body = {"query": next(self._queries)}
                answer = await self._post(wire, "/api/v1/search", body)
                outcome.searches_ms.append(1000 * (time.perf_counter() - begun))
                assert not answer["degraded"], answer["degraded"]

    async def _append(self, outcome: Outcome, deadline: float) -> None:
        async with connected(self._port) as wire:
            made = await self._post(wire, "/api/v1/conversations", {})
            path = f"/api/v1/conversations/{made['conversation_id']}/messages"
            while time.perf_counter() < deadline:
                texts = itertools.islice(self._texts, MESSAGES_PER_CALL)
                messages = [{"role": "user", "content": text} for text in texts]
                await self._post(wire, path, {"messages": messages})
                outcome.messages += MESSAGES_PER_CALL

    async def _post(self, wire: Wire, path: str, body: object) -> dict[str, object]:
        return json.loads(await wire.send(prepare_post(path, body, token=self._token)))


def _search_figures(alone: Sequence[Outcome], together: Sequence[Outcome]) -> Iterator[Figure]:
    for count, floor, own in zip(SEARCHERS, alone, together, strict=True):
        name = f"searches of {count} at once while {WRITERS} append"
        yield _figure(name, own.searches_per_s, floor.searches_per_s, "searches/s", "at least")
        for share in (0.5, 0.95):
            yield _figure(
                f"{name}, p{100 * share:.0f}",
                percentile(own.searches_ms, share),
                percentile(floor.searches_ms, share),
                "ms",
                "at most",
                bound=SLOWER_MAX if (count, share) == (1, 0.5) else None,
            )


def _append_figures(writing: Outcome, together: Sequence[Outcome]) -> Iterator[Figure]:
    for count, own in zip(SEARCHERS, together, strict=True):
        yield Figure(
            name=f"messages of {WRITERS} writers while {count} search",
            value=own.messages_per_s,
            unit="messages/s",
            floor=writing.messages_per_s,
            floor_name="without searches",
            direction="at least",
            bound=WRITTEN_MIN if count == 16 else None,
        )


def _figure(
    name: str,
    value: float,
    floor: float,
    unit: str,
    direction: Direction,
    *,
    bound: float | None = None,
) -> Figure:
    return Figure(
        name=name,
        value=value,
        unit=unit,
        floor=floor,
        floor_name="without writers",
        direction=direction,
        bound=bound,
    )


def _new_queries() -> Iterator[str]:
    """Yield queries that were hardly asked before, so that each has to be embedded."""
    choice = random.Random(5)  # noqa: S311 the same queries on every run, not a secret
    stock = [words for text in sentences() if len(words := text.split()) > QUERY_WORDS]
    while True:
        words = choice.choice(stock)
        start = choice.randrange(len(words) - QUERY_WORDS)
        yield " ".join(words[start : start + QUERY_WORDS])
