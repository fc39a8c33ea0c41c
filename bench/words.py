"""Processor time of searches that nothing is remembered for, and of storing words, on both databases."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import psutil

from bench.figures import Figure, allowed
from bench.filling import CHAT_MESSAGES, append_chat, new_organization
from bench.planting import plant_vectors
from bench.processes import cpu_s
from bench.search import QUERY_WORDS
from bench.texts import chat, sentences
from engram.embedding.choice import LocalModel, NoEmbedder
from engram.model.access import Principal
from engram.model.conversation import MessageDraft
from engram.model.search import ProfileName, SearchRequest
from engram.service import Service
from engram.settings import Settings
from engram.text.analyse import message_words, part_words
from engram.wiring import open_service
from tests.postgres.servers import running_servers

SEARCHES = 40
WARM_UP = 20
"""Searches before those that count, as the first conversation does not: what a process does once is not
what a search costs.
"""

COLD_MS = {600: 3.0, 100_000: 8.0, 1_000_000: 30.0}
"""To be reached, by the number of messages, with vectors."""

REACHED = {
    ("SQLite", 600, "words"),
    ("SQLite", 600, "words and vectors"),
    ("SQLite", 100_000, "words"),
}
"""Where they are bounds: others are reached as the machine is fast."""

_RARE = 0.7
"""Share of messages with a name or number of their own: vocabularies never stop growing."""


ServerTime: TypeAlias = Callable[[], float]
"""Returns the processor seconds of a server so far."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """A closed store, and what filling it took."""

    settings: Settings
    principal: Principal
    messages: int
    storing_ms: float


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of both databases."""
    if quick:
        return [*_on_files((600, 5_000)), *_on_postgres((600, 5_000))]
    return [*_on_files((600, 100_000, 1_000_000)), *_on_postgres((600, 100_000))]


def _on_files(sizes: Sequence[int]) -> Iterator[Figure]:
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
            home = Path(directory)
            settings = Settings(home=home, embedder=NoEmbedder())
            filled = asyncio.run(_fill(settings, size, server_s=_no_server))
            yield _storing_figure("SQLite", filled)
            searching_ms = asyncio.run(_search_ms(filled, server_s=_no_server))
            yield _search_figure("SQLite", filled, searching_ms)
            plant_vectors(home / "orgs" / f"{filled.principal.organization_id}.db")
            filled = replace(filled, settings=Settings(home=home, embedder=LocalModel()))
            searching_ms = asyncio.run(_search_ms(filled, server_s=_no_server))
            yield _search_figure("SQLite", filled, searching_ms)


def _on_postgres(sizes: Sequence[int]) -> Iterator[Figure]:
    for size in sizes:
        with running_servers() as servers, tempfile.TemporaryDirectory() as directory:
            server = servers.primary()
            server.execute("CREATE DATABASE engram")
            settings = Settings(
                home=Path(directory),
                embedder=NoEmbedder(),
                database_url=server.socket_url("engram"),
            )
            processes = _Processes(server.pid)
            filled = asyncio.run(_fill(settings, size, server_s=processes.cpu_s))
            yield _storing_figure("PostgreSQL", filled)
            searching_ms = asyncio.run(_search_ms(filled, server_s=processes.cpu_s))
            yield _search_figure("PostgreSQL", filled, searching_ms)


def _no_server() -> float:
    return 0.0


class _Processes:
    """The processes of a server, those that have ended included."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._spent: dict[int, float] = {}

    def cpu_s(self) -> float:
        """Return the processor seconds of all of them so far."""
        for process in (self._root, *self._root.children(recursive=True)):
            try:
                self._spent[process.pid] = cpu_s(process.pid)
            except OSError:
                continue
        return sum(self._spent.values())


async def _fill(settings: Settings, messages: int, *, server_s: ServerTime) -> _Filled:
    async with open_service(settings) as service:
        principal = await new_organization(service)
        texts, storing_s = _texts(messages), 0.0
        for number in range(messages // CHAT_MESSAGES):
            some = list(islice(texts, CHAT_MESSAGES))
            storing = await _spent_s(_store(service, principal, some), server_s)
            storing_s += storing if number else 0.0
    return _Filled(settings, principal, messages, 1000 * storing_s / (messages - CHAT_MESSAGES))


async def _search_ms(filled: _Filled, *, server_s: ServerTime) -> float:
    """Return the cost of a search after an append, without that of the query's vector."""
    principal = filled.principal
    has_vectors = filled.settings.embedder != NoEmbedder()
    profile: ProfileName = "default" if has_vectors else "words"
    searching_s = 0.0
    async with open_service(filled.settings) as service:
        for number, (query, text) in enumerate(zip(_queries(), _later_texts(), strict=False)):
            if has_vectors:
                # Has the query's vector cached, and nothing of its words.
                await _search(service, principal, query, profile="vectors")
            await _store(service, principal, [text])
            searching = _search(service, principal, query, profile=profile)
            spent_s = await _spent_s(searching, server_s)
            searching_s += spent_s if number >= WARM_UP else 0.0
    return 1000 * searching_s / SEARCHES


async def _spent_s(work: Awaitable[None], server_s: ServerTime) -> float:
    # Asking for the server's time takes milliseconds of our own, so it is done outside of what is measured.
    before, started = server_s(), time.process_time()
    await work
    return time.process_time() - started + server_s() - before


async def _store(service: Service, principal: Principal, texts: Sequence[str]) -> None:
    """Append messages and do the jobs that follow, as a server does."""
    await append_chat(service, principal, texts)
    await service.background.work(principal.organization_id)


async def _search(
    service: Service, principal: Principal, query: str, *, profile: ProfileName
) -> None:
    await service.search.search(principal, SearchRequest(query=query, profile=profile))


def _search_figure(database: str, filled: _Filled, searching_ms: float) -> Figure:
    legs = "words" if filled.settings.embedder == NoEmbedder() else "words and vectors"
    return allowed(
        f"search for {legs} after an append over {filled.messages:,} messages on {database}, asked for the first time",
        searching_ms,
        unit="CPU ms",
        at_most=COLD_MS.get(filled.messages, COLD_MS[100_000]),
        is_bound=(database, filled.messages, legs) in REACHED,
    )


def _storing_figure(database: str, filled: _Filled) -> Figure:
    return Figure(
        name=f"storing a message on {database} beside {filled.messages:,} others, words alone",
        value=filled.storing_ms,
        unit="CPU ms",
        floor=_analysing_ms(),
        floor_name="deriving its words",
        direction="at most",
        bound=None,
    )


def _later_texts() -> Iterator[str]:
    return _texts(WARM_UP + SEARCHES)


def _texts(messages: int) -> Iterator[str]:
    """Yield messages, most of them with a word that few others have."""
    choice = random.Random(5)  # noqa: S311 fixed texts, not a secret
    for text in chat(messages):
        rare = int(choice.paretovariate(0.35)) % 50_000_000
        yield f"{text} item{rare}" if choice.random() < _RARE else text


@cache
def _queries() -> tuple[str, ...]:
    """Return queries, each from a different sentence."""
    choice = random.Random(17)  # noqa: S311 as above
    chosen = [text.split() for text in sentences() if len(text.split()) > 2 * QUERY_WORDS]
    return tuple(
        " ".join(words[start : start + QUERY_WORDS])
        for words in choice.sample(chosen, WARM_UP + SEARCHES)
        for start in [choice.randrange(len(words) - QUERY_WORDS)]
    )


@cache
def _analysing_ms() -> float:
    drafts = [MessageDraft(role="user", content=text) for text in _texts(5_000)]
    started = time.process_time()
    for draft in drafts:
        part_words(message_words(draft))
    return 1000 * (time.process_time() - started) / len(drafts)
