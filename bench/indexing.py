"""What vectors cost: deep ones beside the bare model, instant ones beside storing without any."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from bench.bare import bare_model
from bench.figures import Figure, allowed
from bench.filling import append_chat, drafts_of, in_batches, new_organization
from bench.opening import Parts, open_parts
from bench.texts import chat, sized
from bench.timing import Spent, Stopwatch, fastest_wall, median_cpu, timed
from engram.embedding.choice import LocalModel, NoEmbedder
from engram.embedding.onnx_model import OnnxModel
from engram.embedding.passages import EmbeddedText, deep_splitting
from engram.model.access import Principal
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.service import Service
from engram.settings import Settings

LONG_TEXTS = 6
LONG_CHARACTERS = 5_000
DEEP_BOUND = 0.9
INDEXING_LIMIT_S = 600.0
STORED_BATCH = 100
STORED_MS_MAX = 1.0


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of indexing."""
    texts, rounds, stored = (60, 2, 500) if quick else (300, 5, 2_000)
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        home = Path(directory)
        deep = asyncio.run(_beside_model(home / "deep", texts=texts, rounds=rounds))
        return [*deep, *asyncio.run(_beside_words(home, messages=stored, rounds=rounds))]


async def _beside_model(home: Path, *, texts: int, rounds: int) -> Sequence[Figure]:
    model = bare_model()
    short = list(chat(texts))
    long = list(sized(LONG_TEXTS, characters=LONG_CHARACTERS))
    async with open_parts(Settings(home=home, embedder=LocalModel())) as parts:
        principal = await new_organization(parts.service)
        passages = await _passages(parts, [*short, *long])
        model.embed_passage(passages[0])
        await _index(parts, principal, short[:1])
        pairs = [
            (
                await _index(parts, principal, chain(short, long)),
                timed(lambda: _run(model, passages)),
            )
            for _ in range(rounds)
        ]
    what = f"deep indexing of {texts + LONG_TEXTS:,} messages"
    # A busy machine keeps threads waiting that hand work to each other; the bare model has one.
    return [
        _deep_figure(f"{what}, fastest round", len(passages), pairs, seconds=fastest_wall),
        _deep_figure(f"{what}, CPU time", len(passages), pairs, seconds=median_cpu),
    ]


def _deep_figure(
    name: str,
    passages: int,
    pairs: Sequence[tuple[Spent, Spent]],
    *,
    seconds: Callable[[Iterable[Spent]], float],
) -> Figure:
    return Figure(
        name=name,
        value=passages / seconds(own for own, _ in pairs),
        unit="passages/s",
        floor=passages / seconds(floor for _, floor in pairs),
        floor_name="bare model loop",
        direction="at least",
        bound=DEEP_BOUND,
    )


async def _index(parts: Parts, principal: Principal, texts: Iterable[str]) -> Spent:
    """Return the time from the first claim until no message waits for a deep vector."""
    await append_chat(parts.service, principal, texts)
    store = await parts.store.organization(principal.organization_id)
    watch = Stopwatch()
    await parts.indexer.drain(principal.organization_id, limit_s=INDEXING_LIMIT_S)
    spent = watch.spent()
    assert not (await store.counters()).pending
    return spent


async def _passages(parts: Parts, texts: Sequence[str]) -> list[str]:
    """Return what the model is asked for these texts."""
    assert parts.tiers.deep is not None
    identity = await parts.tiers.deep.identify()
    splitting = deep_splitting(parts.tiers.deep, identity)
    spoken = [EmbeddedText(None, text, "both") for text in texts]
    return [
        identity.passage_prefix + text.passage_text(passage)
        for text in spoken
        for passage in splitting.passages(text)
    ]


def _run(model: OnnxModel, passages: Sequence[str]) -> None:
    for passage in passages:
        model.embed_passage(passage)


async def _beside_words(home: Path, *, messages: int, rounds: int) -> Sequence[Figure]:
    """Store the same messages with and without instant vectors, in turns."""
    drafts = list(drafts_of(chat(messages)))
    async with (
        open_parts(Settings(home=home / "vectors", embedder=LocalModel())) as vectors,
        open_parts(Settings(home=home / "words", embedder=NoEmbedder())) as words,
    ):
        own, floor = await new_organization(vectors.service), await new_organization(words.service)
        await _store(vectors.service, own, drafts[:STORED_BATCH])
        pairs = [
            (
                await _store(vectors.service, own, drafts),
                await _store(words.service, floor, drafts),
            )
            for _ in range(rounds)
        ]
    stored_ms, words_ms = (1000 * median_cpu(side) / messages for side in zip(*pairs, strict=True))
    name = f"storing a message, in batches of {STORED_BATCH}"
    return [
        allowed(
            f"{name}, instant vector included", stored_ms, unit="CPU ms", at_most=STORED_MS_MAX
        ),
        Figure(
            name=f"{name}, beside the same without vectors",
            value=stored_ms,
            unit="CPU ms",
            floor=words_ms,
            floor_name="words alone",
            direction="at most",
            bound=None,
        ),
    ]


async def _store(service: Service, principal: Principal, drafts: Sequence[MessageDraft]) -> Spent:
    draft = ConversationDraft(title="Bench")
    conversation_id = await service.conversations.create_conversation(principal, draft)
    watch = Stopwatch()
    for messages in in_batches(iter(drafts), STORED_BATCH):
        request = AppendRequest(conversation_id=conversation_id, messages=messages)
        await service.conversations.append_messages(principal, request)
    return watch.spent()
