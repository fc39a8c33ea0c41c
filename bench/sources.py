"""How fast sessions of another program are imported, beside appending the same messages."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from bench.figures import Figure, allowed
from bench.filling import append_chat, new_organization
from bench.opening import Parts, open_parts
from bench.texts import chat
from bench.timing import Stopwatch, timed
from engram.embedding.choice import LocalModel
from engram.model.access import Principal
from engram.model.search import SearchRequest
from engram.settings import Settings
from engram.sources.batches import Choices
from engram.sources.importing import find_files
from engram.sources.ledger import Ledger
from engram.sources.policy import Policy
from engram.sources.registry import SOURCES

BOUND = 0.7
GROWTH_BYTES = 100_000_000
"""From a tenth of the files to all of them; caches of the store are part of it."""

SESSION_MESSAGES = 200
BASE = {"sessionId": "", "cwd": "/srv/bench", "timestamp": "2026-03-02T10:00:00.000Z"}


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of an import of Claude Code's sessions."""
    return asyncio.run(_measure(2_000 if quick else 100_000, is_whole=not quick))


async def _measure(messages: int, *, is_whole: bool) -> Sequence[Figure]:
    texts = list(chat(messages))
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        place = Path(directory)
        _write(place / "files", texts)
        appended = await _append(place, texts)
        stored, again, looked, grown = await _import(place, messages)
    rate = Figure(
        name=f"import of {messages:,} messages of Claude Code",
        value=messages / stored,
        unit="messages/s",
        floor=messages / appended,
        floor_name="appending the same",
        direction="at least",
        bound=BOUND if is_whole else None,
    )
    unchanged = Figure(
        name=f"imported again, {messages // SESSION_MESSAGES:,} files that are unchanged",
        value=again * 1_000,
        unit="ms",
        floor=looked * 1_000,
        floor_name="a look at each",
        direction="at most",
        bound=None,
    )
    memory = allowed(
        "memory grown from a tenth of the import to its end",
        grown / 1e6,
        unit="MB",
        at_most=GROWTH_BYTES / 1e6,
        is_bound=is_whole,
    )
    return [rate, unchanged, memory]


def _write(place: Path, texts: Sequence[str]) -> None:
    place.mkdir()
    for start in range(0, len(texts), SESSION_MESSAGES):
        base = {**BASE, "sessionId": f"session-{start}"}
        with (place / f"session-{start}.jsonl").open("w", encoding="utf-8") as file:
            for number, text in enumerate(texts[start : start + SESSION_MESSAGES]):
                role = "assistant" if number % 2 else "user"
                message = {"role": role, "content": [{"type": "text", "text": text}]}
                line = {**base, "type": role, "uuid": f"{start}-{number}", "message": message}
                file.write(json.dumps(line) + "\n")


async def _append(place: Path, texts: Sequence[str]) -> float:
    async with _opened(place / "appended") as (parts, me):
        watch = Stopwatch()
        for start in range(0, len(texts), SESSION_MESSAGES):
            await append_chat(parts.service, me, texts[start : start + SESSION_MESSAGES])
        return watch.spent().wall_s


async def _import(place: Path, messages: int) -> tuple[float, float, float, int]:
    """Return how long an import took, one more, and a look at each file; and how the process grew."""
    source = SOURCES["claude"]
    paths = find_files(source, [place / "files"])
    choices = Choices(policy=Policy(home=place))
    home = place / "imported"
    first = len(paths) // 10
    async with _opened(home) as (parts, me):
        ledger = Ledger(home, organization=me.organization_id)
        importing = parts.service.importing
        watch = Stopwatch()
        one = await importing.import_files(
            me, source, paths[:first], ledger=ledger, choices=choices
        )
        small = _resident_bytes()
        two = await importing.import_files(
            me, source, paths[first:], ledger=ledger, choices=choices
        )
        stored = watch.spent().wall_s
        grown = _resident_bytes() - small
        assert messages == one.stored + two.stored
        watch = Stopwatch()
        again = await importing.import_files(me, source, paths, ledger=ledger, choices=choices)
        spent = watch.spent().wall_s
        assert len(paths) == again.unchanged
        looked = timed(lambda: [path.stat() for path in paths]).wall_s
        return stored, spent, looked, grown


def _resident_bytes() -> int:
    return psutil.Process().memory_info().rss


@asynccontextmanager
async def _opened(home: Path) -> AsyncGenerator[tuple[Parts, Principal]]:
    async with open_parts(Settings(home=home, embedder=LocalModel())) as parts:
        me = await new_organization(parts.service)
        await parts.service.search.search(me, SearchRequest(query="models are loaded"))
        yield parts, me
