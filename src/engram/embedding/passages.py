"""Embed texts: split them into passages, embed these, and quantise or compare the vectors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engram import limits
from engram.embedding.port import Embedder, EmbedderIdentity, with_tokens
from engram.model.value import Value, replace
from engram.model.vectors import PassageVector, Units
from engram.text.passages import (
    Passage,
    TokenCount,
    count_tokens_roughly,
    iterate_passages,
    iterate_sentences,
    message_sentences,
)
from engram.yielding import offload

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors

PASSAGES_TOGETHER = 256
"""Split and embedded before the next ones of a long text are, so that neither their texts nor the thread
that splits them is taken for as long as a model needs for megabytes."""

_COLON_TOKENS = 2
"""Upper bound for the tokens of ": " between a name and a text."""


SENTENCE_LENGTH = 0.97
"""Length of a sentence's vector beside the message's of length 1. The best of several cosines is higher by
chance; at full length, messages with sentences push others back in chats."""


class EmbeddedText(Value, kw_only=False):
    """The text of a message to embed, with its speaker, who is part of its meaning."""

    name: str | None
    content: str
    units: Units = "passages"

    @property
    def opening(self) -> str:
        """Return the prefix of every passage."""
        return "" if self.name is None or self.units == "sentences" else f"{self.name}: "

    def is_message_as_whole(self, passage: Passage) -> bool:
        """Return True if this is a message of a conversation, and the passage all of it."""
        return self.units == "both" and passage == Passage(0, len(self.content))

    def passage_text(self, passage: Passage) -> str:
        """Return a passage as it is given to the model."""
        return self.opening + self.content[passage.start : passage.end]


class _Piece(NamedTuple):
    """A passage, the number of its text, and what the model is given."""

    number: int
    passage: Passage
    text: str
    is_repeated: bool
    """True for a sentence of what an earlier passage covers."""
    has_tokens: bool
    """Whether the vectors of its tokens are wanted."""

    @property
    def length(self) -> float:
        """Return the length that its vector is stored with."""
        return SENTENCE_LENGTH if self.is_repeated else 1.0


class Splitting(Value):
    """How texts are split: the length of a passage, and how many are embedded of each text."""

    tokens_max: int
    count_tokens: TokenCount
    passages_max: int | None = None
    """Not applied to texts that are split by sentence."""
    is_deep: bool = False
    """Whether texts that want both units get vectors of their sentences too."""
    has_tokens: bool = False
    """Whether those that are one passage get vectors of its tokens too."""

    def fit(self, text: EmbeddedText) -> EmbeddedText:
        """Return the text with its name cut to at most half of a passage."""
        half = self.tokens_max // 2
        if text.name is None or self._fits(text.opening, half):
            return text
        room = max(1, half - _COLON_TOKENS)
        start = next(iterate_passages(text.name, tokens_max=room, count_tokens=self.count_tokens))
        return replace(text, name=text.name[: start.end])

    def passages(self, text: EmbeddedText) -> Iterator[Passage]:
        """Return the passages of a fitted text: at least one.

        They cover it once, in order; where both units are wanted, the sentences of a text that is one
        passage follow and cover it again.
        """
        if text.units == "sentences":
            return self._sentences(text.content)
        if self.is_deep and text.units == "both":
            return self._with_sentences(text)
        return self._passages(text)

    def _with_sentences(self, text: EmbeddedText) -> Iterator[Passage]:
        sentences = message_sentences(text.content)
        if sentences and self._fits(text.opening + text.content, self.tokens_max):
            return iter([Passage(0, len(text.content)), *sentences])
        return self._passages(text)

    def _passages(self, text: EmbeddedText) -> Iterator[Passage]:
        if len(text.content) < self.tokens_max and self._fits(
            text.opening + text.content, self.tokens_max
        ):
            return iter([Passage(0, len(text.content))])
        room = max(1, self.tokens_max - self.count_tokens(text.opening))
        split = iterate_passages(text.content, tokens_max=room, count_tokens=self.count_tokens)
        return islice(split, self.passages_max)

    def _sentences(self, content: str) -> Iterator[Passage]:
        """Yield the sentences of a text, splitting those that are too long."""
        for sentence in iterate_sentences(content):
            text = content[sentence.start : sentence.end]
            if self._fits(text, self.tokens_max):
                yield sentence
                continue
            parts = iterate_passages(
                text, tokens_max=self.tokens_max, count_tokens=self.count_tokens
            )
            for part in parts:
                yield Passage(sentence.start + part.start, sentence.start + part.end)

    def _fits(self, text: str, tokens_max: int) -> bool:
        # A token has at least one byte, so few bytes spare the expensive count. (Characters would
        # not do: one may be several tokens.)
        return len(text.encode()) <= tokens_max or self.count_tokens(text) <= tokens_max


def instant_splitting() -> Splitting:
    """Return the splitting for the write path, where counting tokens exactly is too slow."""
    return Splitting(
        tokens_max=limits.INSTANT_PASSAGE_TOKENS,
        count_tokens=count_tokens_roughly,
        passages_max=limits.INSTANT_PASSAGES_MAX,
    )


def deep_splitting(
    embedder: Embedder, identity: EmbedderIdentity, *, has_tokens: bool = False
) -> Splitting:
    """Return the splitting for deep vectors, which cover every passage of a text."""
    return Splitting(
        tokens_max=min(identity.max_tokens, limits.PASSAGE_TOKENS_MAX),
        count_tokens=embedder.count_tokens,
        is_deep=True,
        has_tokens=has_tokens,
    )


class PassageEmbedder(Protocol):
    """The part of an embedder that embeds passages."""

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        """Return a vector for each passage."""
        ...


async def embed_texts(
    texts: Sequence[EmbeddedText], embedder: PassageEmbedder, *, splitting: Splitting
) -> list[list[PassageVector]]:
    """Return the quantised vectors of each text's passages.

    Raises:
        EmbedderUnavailableError: the model is not available now.
        InvalidVectorError, InvalidRequestError: the model has no vector for one of the texts.
    """
    from engram.vectors.quantise import pack_blobs, quantise  # brings NumPy

    embedded: list[list[PassageVector]] = [[] for _ in texts]
    async for pieces, vectors, tokens in _embed_pieces(texts, embedder, splitting):
        rows = quantise(vectors, dimensions=vectors.shape[1])
        rows.scales[:] *= [piece.length for piece in pieces]
        for piece, content, packed in zip(pieces, pack_blobs(rows), tokens, strict=True):
            start, end = piece.passage
            embedded[piece.number].append(
                PassageVector(start=start, end=end, content=content, tokens=packed)
            )
    return embedded


async def compare_meanings(pairs: Sequence[tuple[str, str]], embedder: Embedder) -> list[float]:
    """Return the cosine similarity of each pair of texts, by the mean vectors of their passages.

    Raises:
        EmbedderUnavailableError: the model is not available now.
        InvalidVectorError, InvalidRequestError: the model has no vector for one of the texts.
    """
    if not pairs:
        return []
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    splitting = deep_splitting(embedder, await embedder.identify())
    rows: list[list[Vector]] = [[] for _ in texts]
    wanted = [EmbeddedText(None, text) for text in texts]
    async for pieces, vectors, _ in _embed_pieces(wanted, embedder, splitting):
        for piece, vector in zip(pieces, vectors, strict=True):
            rows[piece.number].append(vector)
    means = dict(zip(texts, map(_mean, rows), strict=True))
    return [float(means[first] @ means[second]) for first, second in pairs]


async def _embed_pieces(
    texts: Sequence[EmbeddedText], embedder: PassageEmbedder, splitting: Splitting
) -> AsyncIterator[tuple[list[_Piece], Vectors, Sequence[bytes | None]]]:
    """Yield the passages of all texts with their vectors and those of their tokens, some at a time.

    Long texts are split on a thread.
    """
    pieces = _iterate_pieces(texts, splitting)
    characters = sum(len(text.content) for text in texts)
    is_last = not texts
    while not is_last:
        some = await offload(partial(_take, pieces), characters=characters)
        is_last = len(some) < PASSAGES_TOGETHER
        if some:
            vectors, tokens = await _embed_some(some, embedder)
            yield some, vectors, tokens


async def _embed_some(
    pieces: Sequence[_Piece], embedder: PassageEmbedder
) -> tuple[Vectors, Sequence[bytes | None]]:
    texts = [piece.text for piece in pieces]
    if not any(piece.has_tokens for piece in pieces):
        return await embedder.embed_passages(texts), [None] * len(pieces)
    import numpy as np  # slow to import

    embedded = await with_tokens(embedder).embed_passages_with_tokens(texts)
    tokens = [
        (each.tokens or None) if piece.has_tokens else None
        for piece, each in zip(pieces, embedded, strict=True)
    ]
    return np.stack([each.vector for each in embedded]), tokens


def _take(pieces: Iterator[_Piece]) -> list[_Piece]:
    return list(islice(pieces, PASSAGES_TOGETHER))


def _iterate_pieces(texts: Sequence[EmbeddedText], splitting: Splitting) -> Iterator[_Piece]:
    for number, text in enumerate(map(splitting.fit, texts)):
        covered = 0
        for passage in splitting.passages(text):
            said = text.passage_text(passage)
            yield _Piece(
                number,
                passage,
                said,
                is_repeated=passage.start < covered,
                has_tokens=splitting.has_tokens and text.is_message_as_whole(passage),
            )
            covered = max(covered, passage.end)


def _mean(rows: Sequence[Vector]) -> Vector:
    """Return the normalised mean of vectors; zero if they cancel out."""
    total = sum(rows[1:], start=rows[0])
    length = float((total @ total) ** 0.5)
    return total / length if length else total
