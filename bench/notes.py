"""What notes cost beside the same texts as messages, and which of them a context fetches.

The costs are of storing, recalling, starting a session, and bytes on disk. The cut below which an entry is not
fetched is measured on stores of several sizes (`bench.note_questions`): how many of the answers among the first
entries it keeps, for questions and for topics of a few words, and on how many foreign questions it is silent.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count as count_from
from pathlib import Path

from bench.figures import Figure
from bench.filling import CHAT_MESSAGES, drafts_of, in_batches, new_organization
from bench.note_questions import ASKED_NOTES, FOREIGN_QUERIES
from bench.search import queries
from bench.size import file_bytes
from bench.texts import chat
from bench.timing import Stopwatch
from engram.embedding.choice import LocalModel
from engram.model.access import Principal
from engram.model.conversation import AppendRequest, ConversationDraft
from engram.model.memory import NoteDraft
from engram.model.recall import ContextRequest, RecallRequest
from engram.model.search import SearchRequest
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service

BATCH = 100
BLOCK = 1_000
"""So many texts are stored as notes, then as messages: machines change their pace."""

ROUNDS = 5
RESULTS = 5
SESSION_START = "fetch_context without a query"
FLOOR = "search over the same texts as messages"
STORING_BOUND = 3.0
ASKING_BOUND = 3.0
BYTES_BOUND = 2.5
"""Alarms: nothing is promised of notes beside messages, but a change should not pass unseen."""

CUT_SIZES = (8, 23, len(ASKED_NOTES))
"""Notes of one store: the notes are dealt to as many stores as that takes."""

SILENT_BOUND = 0.75
KEPT_BOUND = 0.97

Ask = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Side:
    """One organisation, which holds all texts in one form."""

    service: Service
    principal: Principal
    path: Path

    async def store_notes(self, texts: Sequence[str], *, together: int) -> None:
        for drafts in in_batches((NoteDraft(content=text) for text in texts), together):
            await self.service.memories.store_notes(self.principal, drafts)

    async def store_messages(self, texts: Sequence[str], *, together: int) -> None:
        conversations = self.service.conversations
        for chats in in_batches(drafts_of(texts), CHAT_MESSAGES):
            draft = ConversationDraft(title="Bench")
            conversation_id = await conversations.create_conversation(self.principal, draft)
            for messages in in_batches(iter(chats), together):
                request = AppendRequest(conversation_id=conversation_id, messages=messages)
                await conversations.append_messages(self.principal, request)

    async def search(self, query: str) -> object:
        request = SearchRequest(query=query, limit=RESULTS)
        return await self.service.search.search(self.principal, request)

    async def recall(self, query: str) -> object:
        request = RecallRequest(query=query, top_k=RESULTS)
        return await self.service.search.recall(self.principal, request)

    async def fetch_context(self, query: str, *, token_budget: int) -> object:
        """Fetch a context, which is not remembered from one of another budget."""
        request = ContextRequest(query=query, top_k=RESULTS, token_budget=token_budget)
        return await self.service.search.fetch_context(self.principal, request)

    async def start_session(self, _query: str, *, budgets: Iterator[int]) -> object:
        """Fetch what a new session should know, each time with another budget."""
        request = ContextRequest(top_k=RESULTS, token_budget=next(budgets))
        return await self.service.search.fetch_context(self.principal, request)

    async def fetched(self, query: str, *, min_score: float | None = None) -> list[str]:
        """Return the texts that a query fetches."""
        request = ContextRequest(query=query, min_score=min_score)
        context = await self.service.search.fetch_context(self.principal, request)
        return [entry.content for entry in context.entries]


@dataclass(frozen=True, slots=True)
class _Beside:
    """The cost of one operation on notes, and of the same on messages."""

    notes: float
    messages: float


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of notes."""
    count, rounds = (200, 1) if quick else (10_000, ROUNDS)
    sizes = CUT_SIZES[-1:] if quick else CUT_SIZES
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        costs = asyncio.run(_measure(Path(directory), count=count, rounds=rounds))
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        return [*costs, *asyncio.run(_measure_cut(Path(directory), sizes))]


async def _measure(home: Path, *, count: int, rounds: int) -> Sequence[Figure]:
    texts = list(chat(count))
    async with open_service(Settings(home=home, embedder=LocalModel())) as service:
        await _warm_up(await _new_side(service, home), texts[:BATCH])
        notes, messages = await _new_side(service, home), await _new_side(service, home)
        batched = await _store(notes, messages, texts, together=BATCH)
        asked = await _ask(notes, messages, rounds=rounds)
        sizes = _Beside(file_bytes(notes.path) / count, file_bytes(messages.path) / count)
        notes, messages = await _new_side(service, home), await _new_side(service, home)
        alone = await _store(notes, messages, texts, together=1)
    stored = f"storing one of {count:,} notes"
    return [
        _figure(f"{stored}, in batches of {BATCH}", batched, bound=STORING_BOUND),
        _figure(f"{stored}, one by one", alone, bound=STORING_BOUND),
        *(
            _figure(f"{name} over {count:,} notes", cost, bound=ASKING_BOUND, floor=FLOOR)
            for name, cost in asked.items()
        ),
        _figure("bytes on disk a note", sizes, unit="bytes", bound=BYTES_BOUND),
    ]


async def _new_side(service: Service, home: Path) -> _Side:
    principal = await new_organization(service)
    return _Side(service, principal, home / "orgs" / f"{principal.organization_id}.db")


async def _warm_up(side: _Side, texts: Sequence[str]) -> None:
    """Load what only the first call loads."""
    await side.store_notes(texts, together=BATCH)
    await side.store_messages(texts, together=BATCH)


async def _store(notes: _Side, messages: _Side, texts: Sequence[str], *, together: int) -> _Beside:
    """Return the processor milliseconds of storing one text."""
    spent = _Beside(0.0, 0.0)
    for block in in_batches(iter(texts), BLOCK):
        spent = _Beside(
            spent.notes + await _cpu_ms(notes.store_notes(block, together=together)),
            spent.messages + await _cpu_ms(messages.store_messages(block, together=together)),
        )
    return _Beside(spent.notes / len(texts), spent.messages / len(texts))


async def _ask(notes: _Side, messages: _Side, *, rounds: int) -> Mapping[str, _Beside]:
    """Return the processor milliseconds of each way to ask, in turns with a search of messages."""
    turns = [await _turn(notes, messages, budget=1_500 + turn) for turn in range(rounds + 1)]
    # The first turn embeds the queries, which the others have from memory.
    medians = {name: statistics.median(turn[name] for turn in turns[1:]) for name in turns[0]}
    floor = medians.pop(FLOOR)
    return {name: _Beside(cost, floor) for name, cost in medians.items()}


async def _turn(notes: _Side, messages: _Side, *, budget: int) -> dict[str, float]:
    ways = {
        FLOOR: messages.search,
        "search": notes.search,
        "memory_recall": notes.recall,
        "fetch_context": partial(notes.fetch_context, token_budget=budget),
        SESSION_START: partial(notes.start_session, budgets=count_from(10 * budget)),
    }
    return {name: await _cpu_ms(_ask_all(ask)) / len(queries()) for name, ask in ways.items()}


async def _ask_all(ask: Ask) -> None:
    for query in queries():
        await ask(query)


async def _cpu_ms(work: Awaitable[object]) -> float:
    watch = Stopwatch()
    await work
    return 1000 * watch.spent().cpu_s


def _figure(
    name: str,
    cost: _Beside,
    *,
    bound: float,
    unit: str = "CPU ms",
    floor: str = "the same texts as messages",
) -> Figure:
    return Figure(
        name=name,
        value=cost.notes,
        unit=unit,
        floor=cost.messages,
        floor_name=floor,
        direction="at most",
        bound=bound,
    )


@dataclass(slots=True)
class _Tally:
    """How often the cut was right about one form of query, in stores of one size."""

    found: int = 0
    """Queries whose note is among the first entries without a cut."""
    kept: int = 0
    """Those whose note is above the cut."""
    foreign: int = 0
    silent: int = 0

    async def ask(self, side: _Side, query: str, content: str) -> None:
        """Ask for a note."""
        if content in await side.fetched(query, min_score=0.0):
            self.found += 1
            self.kept += content in await side.fetched(query)

    async def ask_foreign(self, side: _Side, query: str) -> None:
        """Ask for what no note holds."""
        self.foreign += 1
        self.silent += not await side.fetched(query)


async def _measure_cut(home: Path, sizes: Sequence[int]) -> list[Figure]:
    figures: list[Figure] = []
    async with open_service(Settings(home=home, embedder=LocalModel())) as service:
        for size in sizes:
            questions, topics = _Tally(), _Tally()
            for start in range(-(-len(ASKED_NOTES) // size)):
                dealt = ASKED_NOTES[start :: -(-len(ASKED_NOTES) // size)]
                side = await _new_side(service, home)
                await side.store_notes([note.content for note in dealt], together=BATCH)
                while await service.indexer.work(side.principal.organization_id):
                    pass
                for note in dealt:
                    await questions.ask(side, note.question, note.content)
                    await topics.ask(side, note.topic, note.content)
                for query in FOREIGN_QUERIES:
                    await (questions if query.endswith("?") else topics).ask_foreign(side, query)
            figures += _cut_figures(questions, "questions", size, KEPT_BOUND, SILENT_BOUND)
            figures += _cut_figures(topics, "topics", size, None, None)
    return figures


def _cut_figures(
    tally: _Tally, form: str, size: int, kept: float | None, silent: float | None
) -> list[Figure]:
    among = f"among {size} notes"
    return [
        _share(f"answers to {form} kept by the cut, {among}", tally.kept, tally.found, kept),
        _share(f"foreign {form} that bring nothing, {among}", tally.silent, tally.foreign, silent),
    ]


def _share(name: str, right: int, of: int, bound: float | None) -> Figure:
    return Figure(
        name=name,
        value=100 * right / of,
        unit="%",
        floor=100,
        floor_name="all of them",
        direction="at least",
        bound=bound,
    )
