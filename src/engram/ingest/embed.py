"""Make the vectors of messages: split what is too long, embed the passages, quantise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from engram import limits
from engram.embedding.port import Embedder, EmbedderIdentity
from engram.model.vectors import PassageVector
from engram.text.passages import Passage, TokenCount, count_tokens_roughly, split_passages


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """What of a message is embedded: who said it belongs to its meaning."""

    name: str | None
    content: str

    def passage_text(self, passage: Passage) -> str:
        """Return a passage as the model reads it."""
        content = self.content[passage.start : passage.end]
        return content if self.name is None else f"{self.name}: {content}"


@dataclass(frozen=True, slots=True)
class Splitting:
    """How long a passage may be, and how many of a message are embedded."""

    tokens_max: int
    count_tokens: TokenCount
    passages_max: int | None = None

    def passages(self, text: EmbeddedText) -> list[Passage]:
        """Return the passages of a text: at least one."""
        content, name = text.content, text.name or ""
        if len(content) + len(name) < self.tokens_max:
            return [Passage(0, len(content))]  # No token is shorter than a character.
        # A long name must not leave the text without room.
        room = max(self.tokens_max // 2, self.tokens_max - self.count_tokens(f"{name}: "))
        split = split_passages(content, tokens_max=room, count_tokens=self.count_tokens)
        return list(islice(split, self.passages_max))


def instant_splitting() -> Splitting:
    """Return how messages are split for the path of a write, where counting tokens costs too much."""
    return Splitting(
        tokens_max=limits.INSTANT_PASSAGE_TOKENS,
        count_tokens=count_tokens_roughly,
        passages_max=limits.INSTANT_PASSAGES_MAX,
    )


def deep_splitting(embedder: Embedder, identity: EmbedderIdentity) -> Splitting:
    """Return how messages are split so that no text stays without a deep vector."""
    return Splitting(
        tokens_max=min(identity.max_tokens, limits.PASSAGE_TOKENS_MAX),
        count_tokens=embedder.count_tokens,
    )


async def embed_texts(
    texts: Sequence[EmbeddedText], embedder: Embedder, *, splitting: Splitting
) -> list[list[PassageVector]]:
    """Return the vectors of each text's passages.

    Raises:
        EmbedderUnavailableError: the model cannot be asked now.
        InvalidVectorError, InvalidRequestError: it gives no vector for one of the texts.
    """
    split = await _split(texts, splitting)
    spoken = [
        text.passage_text(passage)
        for text, passages in zip(texts, split, strict=True)
        for passage in passages
    ]
    vectors = await embedder.embed_passages(spoken)

    from engram.vectors.quantise import pack_blobs, quantise  # noqa: PLC0415 brings NumPy

    contents = iter(pack_blobs(quantise(vectors, dimensions=vectors.shape[1])))
    return [
        [
            PassageVector(start=passage.start, end=passage.end, content=next(contents))
            for passage in passages
        ]
        for passages in split
    ]


async def _split(texts: Sequence[EmbeddedText], splitting: Splitting) -> list[list[Passage]]:
    """Return the passages of each text; long ones do not hold up the event loop."""
    if sum(len(text.content) for text in texts) <= limits.INLINE_CHARACTERS_MAX:
        return [splitting.passages(text) for text in texts]
    return await asyncio.to_thread(lambda: [splitting.passages(text) for text in texts])
