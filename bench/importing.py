"""How soon an import is found: by word, by instant vector, by deep vector."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.bare import bare_model, bare_static_model
from bench.figures import Figure
from bench.filling import append_chat, drafts_of, in_batches, new_organization
from bench.opening import Parts, open_parts
from bench.texts import chat
from bench.timing import Spent, Stopwatch, median_wall, timed
from engram.embedding.choice import LocalModel, NoEmbedder
from engram.embedding.static_model import StaticModel
from engram.limits import MESSAGES_PER_CALL_MAX
from engram.model.access import Principal, Quota
from engram.model.conversation import AppendRequest, ConversationDraft
from engram.model.search import SearchRequest
from engram.settings import Settings

BOUND = 0.5
BOTH_LOOPS = "bare store loop, then bare static model loop"
CONVERSATION_MESSAGES = MESSAGES_PER_CALL_MAX
MODEL_TEXTS = 100
"""So many texts of the import tell how fast the bare model is."""


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of an import."""
    messages, rounds, sample_s = (1_000, 1, 3.0) if quick else (20_000, 3, 60.0)
    texts = list(chat(messages))
    static = bare_static_model()
    static.embed(texts[:1])
    imports: list[_Import] = []
    for number in range(rounds):
        is_last = number == rounds - 1
        imports.append(
            _Import(
                *asyncio.run(_import(texts, sample_s=sample_s if is_last else None)),
                stored=asyncio.run(_store(texts)),
                embedded=timed(lambda: _embed(static, texts)),
            )
        )
    return [*_rates(imports, messages), _deep_figure(imports[-1].sample, texts)]


@dataclass(frozen=True, slots=True)
class _Sample:
    """Deep vectors of the newest messages of an import."""

    messages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Import:
    by_word: Spent
    by_vector: Spent
    sample: _Sample | None
    stored: Spent
    """The bare store loop."""
    embedded: Spent
    """The bare loop of the static model."""

    @property
    def stored_and_embedded(self) -> Spent:
        return Spent(
            self.stored.wall_s + self.embedded.wall_s, self.stored.cpu_s + self.embedded.cpu_s
        )


async def _import(
    texts: Sequence[str], *, sample_s: float | None
) -> tuple[Spent, Spent, _Sample | None]:
    """Return when the import was found by word and by vector, and how deep vectors went on."""
    async with _opened(LocalModel()) as (parts, principal):
        await parts.service.search.search(principal, SearchRequest(query="models are loaded"))
        watch = Stopwatch()
        for start in range(0, len(texts), CONVERSATION_MESSAGES):
            some = texts[start : start + CONVERSATION_MESSAGES]
            await append_chat(parts.service, principal, some)
        await _assert_found(parts, principal, texts, profile="words")
        by_word = watch.spent()
        await _assert_found(parts, principal, texts, profile="vectors")
        by_vector = watch.spent()
        sample = None if sample_s is None else await _index(parts, principal, seconds=sample_s)
        return by_word, by_vector, sample


async def _index(parts: Parts, principal: Principal, *, seconds: float) -> _Sample:
    store = await parts.store.organization(principal.organization_id)
    before = (await store.counters()).pending
    watch = Stopwatch()
    await parts.indexer.drain(principal.organization_id, limit_s=seconds)
    spent = watch.spent()
    return _Sample(before - (await store.counters()).pending, spent.wall_s)


async def _assert_found(
    parts: Parts,
    principal: Principal,
    texts: Sequence[str],
    *,
    profile: Literal["words", "vectors"],
) -> None:
    for text in (texts[0], texts[len(texts) // 2], texts[-1]):
        answer = await parts.service.search.search(
            principal, SearchRequest(query=text, profile=profile)
        )
        found = [item.message.content for result in answer.results for item in result.messages]
        assert text in found, (profile, text)


async def _store(texts: Sequence[str]) -> Spent:
    """Return the time of the store alone: no service, no vectors."""
    async with _opened(NoEmbedder()) as (parts, principal):
        store = await parts.store.organization(principal.organization_id)
        watch = Stopwatch()
        for batch in in_batches(drafts_of(texts), MESSAGES_PER_CALL_MAX):
            draft = ConversationDraft(title="Bench")
            conversation_id = await store.create_conversation(draft, actor="bench")
            request = AppendRequest(conversation_id=conversation_id, messages=batch)
            await store.append_messages(request, actor="bench", quota=Quota())
        return watch.spent()


def _embed(model: StaticModel, texts: Sequence[str]) -> None:
    for start in range(0, len(texts), MESSAGES_PER_CALL_MAX):
        model.embed(texts[start : start + MESSAGES_PER_CALL_MAX])


def _rates(imports: Sequence[_Import], messages: int) -> Iterator[Figure]:
    """Yield the rates; words and instant vectors share a transaction, so they cost both loops."""
    name = f"import of {messages:,} messages until found by"
    store = median_wall(each.stored for each in imports)
    both = median_wall(each.stored_and_embedded for each in imports)
    by_word = median_wall(each.by_word for each in imports)
    by_vector = median_wall(each.by_vector for each in imports)
    for leg, seconds, floor, floor_name, bound in (
        ("word", by_word, both, BOTH_LOOPS, BOUND),
        ("instant vector", by_vector, both, BOTH_LOOPS, BOUND),
        ("word, beside a store without vectors", by_word, store, "bare store loop", None),
    ):
        yield Figure(
            name=f"{name} {leg}",
            value=messages / seconds,
            unit="messages/s",
            floor=messages / floor,
            floor_name=floor_name,
            direction="at least",
            bound=bound,
        )


def _deep_figure(sample: _Sample | None, texts: Sequence[str]) -> Figure:
    assert sample is not None
    model, some = bare_model(), texts[-MODEL_TEXTS:]
    model.embed_passage(some[0])
    bare = timed(lambda: [model.embed_passage(text) for text in some])
    return Figure(
        name=(
            f"import of {len(texts):,} messages until found by deep vector, "
            f"extrapolated from {sample.messages:,}"
        ),
        value=len(texts) * sample.seconds / sample.messages,
        unit="s",
        floor=len(texts) * bare.wall_s / len(some),
        floor_name=f"bare model loop, extrapolated from {len(some)}",
        direction="at most",
        bound=None,
    )


@asynccontextmanager
async def _opened(
    embedder: LocalModel | NoEmbedder,
) -> AsyncGenerator[tuple[Parts, Principal]]:
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        async with open_parts(Settings(home=Path(directory), embedder=embedder)) as parts:
            yield parts, await new_organization(parts.service)
