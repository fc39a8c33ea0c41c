"""Embed texts: split them into passages, embed these, and quantise or compare the vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeAlias

from engram import limits
from engram.embedding.port import Embedder, EmbedderIdentity
from engram.model.vectors import PassageVector
from engram.offload import offload
from engram.text.passages import (
    Passage,
    TokenCount,
    count_tokens_roughly,
    iterate_passages,
    iterate_sentences,
)

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors

_COLON_TOKENS = 2
"""Upper bound for the tokens of ": " between a name and a text."""


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """The text of a message to embed, with its speaker, who is part of its meaning."""

    name: str | None
    content: str
    is_by_sentence: bool = False
    """Whether each sentence gets a vector of its own, without the name."""

    @property
    def opening(self) -> str:
        """Return the prefix of every passage."""
        return "" if self.name is None or self.is_by_sentence else f"{self.name}: "

    def passage_text(self, passage: Passage) -> str:
        """Return a passage as it is given to the model."""
        return self.opening + self.content[passage.start : passage.end]


SplitText: TypeAlias = tuple[EmbeddedText, list[Passage]]


@dataclass(frozen=True, slots=True)
class Splitting:
    """How texts are split: the length of a passage, and how many are embedded of each text."""

    tokens_max: int
    count_tokens: TokenCount
    passages_max: int | None = None
    """Not applied to texts that are split by sentence."""

    def fit(self, text: EmbeddedText) -> EmbeddedText:
        """Return the text with its name cut to at most half of a passage."""
        half = self.tokens_max // 2
        if text.name is None or self._fits(text.opening, half):
            return text
        room = max(1, half - _COLON_TOKENS)
        start = next(iterate_passages(text.name, tokens_max=room, count_tokens=self.count_tokens))
        return replace(text, name=text.name[: start.end])

    def passages(self, text: EmbeddedText) -> list[Passage]:
        """Return the passages of a fitted text: at least one."""
        if text.is_by_sentence:
            return list(self._sentences(text.content))
        if len(text.content) < self.tokens_max and self._fits(
            text.opening + text.content, self.tokens_max
        ):
            return [Passage(0, len(text.content))]
        room = max(1, self.tokens_max - self.count_tokens(text.opening))
        split = iterate_passages(text.content, tokens_max=room, count_tokens=self.count_tokens)
        return list(islice(split, self.passages_max))

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


def deep_splitting(embedder: Embedder, identity: EmbedderIdentity) -> Splitting:
    """Return the splitting for deep vectors, which cover every passage of a text."""
    return Splitting(
        tokens_max=min(identity.max_tokens, limits.PASSAGE_TOKENS_MAX),
        count_tokens=embedder.count_tokens,
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
    split = await split_texts(texts, splitting)
    vectors = await embedder.embed_passages(_passage_texts(split))

    from engram.vectors.quantise import pack_blobs, quantise  # noqa: PLC0415 brings NumPy

    contents = iter(pack_blobs(quantise(vectors, dimensions=vectors.shape[1])))
    return [
        [
            PassageVector(start=passage.start, end=passage.end, content=next(contents))
            for passage in passages
        ]
        for _, passages in split
    ]


async def split_texts(texts: Sequence[EmbeddedText], splitting: Splitting) -> list[SplitText]:
    """Return each fitted text with its passages; long texts are split on a thread."""

    def split() -> list[SplitText]:
        fitted = map(splitting.fit, texts)
        return [(text, splitting.passages(text)) for text in fitted]

    return await offload(split, characters=sum(len(text.content) for text in texts))


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
    split = await split_texts([EmbeddedText(None, text) for text in texts], splitting)
    vectors = await embedder.embed_passages(_passage_texts(split))
    means = dict[str, "Vector"]()
    start = 0
    for text, passages in split:
        means[text.content] = _mean(vectors[start : start + len(passages)])
        start += len(passages)
    return [float(means[first] @ means[second]) for first, second in pairs]


def _passage_texts(split: Sequence[SplitText]) -> list[str]:
    return [text.passage_text(passage) for text, passages in split for passage in passages]


def _mean(rows: Vectors) -> Vector:
    """Return the normalised mean of vectors; zero if they cancel out."""
    total = rows.sum(axis=0)
    length = float((total @ total) ** 0.5)
    return total / length if length else total
