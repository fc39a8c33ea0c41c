"""Make the vectors of messages: split what is too long, embed the passages, quantise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from engram import limits
from engram.embedding.port import Embedder, EmbedderIdentity
from engram.model.vectors import PassageVector
from engram.offload import offload
from engram.text.passages import Passage, TokenCount, count_tokens_roughly, iterate_passages
from engram.text.sentences import iterate_sentences

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

_COLON_TOKENS = 2
"""At most, for what is between a name and a text."""


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """What of a message is embedded: who said it belongs to its meaning."""

    name: str | None
    content: str
    is_by_sentence: bool = False
    """Each sentence has a vector of its own, and stands in it for itself."""

    @property
    def opening(self) -> str:
        """Return what goes before every passage."""
        return "" if self.name is None or self.is_by_sentence else f"{self.name}: "

    def passage_text(self, passage: Passage) -> str:
        """Return a passage as the model reads it."""
        return self.opening + self.content[passage.start : passage.end]


@dataclass(frozen=True, slots=True)
class Splitting:
    """How long a passage may be, and how many of a message are embedded that is not by sentence."""

    tokens_max: int
    count_tokens: TokenCount
    passages_max: int | None = None

    def fit(self, text: EmbeddedText) -> EmbeddedText:
        """Return the text with as much of the name as leaves room for what was said."""
        half = self.tokens_max // 2
        if text.name is None or self._fits(text.opening, half):
            return text
        room = max(1, half - _COLON_TOKENS)
        start = next(iterate_passages(text.name, tokens_max=room, count_tokens=self.count_tokens))
        return replace(text, name=text.name[: start.end])

    def passages(self, text: EmbeddedText) -> list[Passage]:
        """Return the passages of a text that has been fitted: at least one."""
        if text.is_by_sentence:
            return list(self._sentences(text.content))  # of a chunk, which is short
        if len(text.content) < self.tokens_max and self._fits(
            text.opening + text.content, self.tokens_max
        ):
            return [Passage(0, len(text.content))]
        room = max(1, self.tokens_max - self.count_tokens(text.opening))
        split = iterate_passages(text.content, tokens_max=room, count_tokens=self.count_tokens)
        return list(islice(split, self.passages_max))

    def _sentences(self, content: str) -> Iterator[Passage]:
        """Yield the sentences of a text, in parts where even they do not fit."""
        for sentence in iterate_sentences(content):
            said = content[sentence.start : sentence.end]
            if self._fits(said, self.tokens_max):
                yield sentence
                continue
            parts = iterate_passages(
                said, tokens_max=self.tokens_max, count_tokens=self.count_tokens
            )
            for part in parts:
                yield Passage(sentence.start + part.start, sentence.start + part.end)

    def _fits(self, text: str, tokens_max: int) -> bool:
        # Counting costs more than this, and no token is shorter than a byte; a character may be
        # several tokens.
        return len(text.encode()) <= tokens_max or self.count_tokens(text) <= tokens_max


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


class PassageEmbedder(Protocol):
    """The part of an embedder that makes vectors of passages."""

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        """Return a vector for each passage."""
        ...


async def embed_texts(
    texts: Sequence[EmbeddedText], embedder: PassageEmbedder, *, splitting: Splitting
) -> list[list[PassageVector]]:
    """Return the vectors of each text's passages.

    Raises:
        EmbedderUnavailableError: the model cannot be asked now.
        InvalidVectorError, InvalidRequestError: it gives no vector for one of the texts.
    """
    split = await split_texts(texts, splitting)
    spoken = [text.passage_text(passage) for text, passages in split for passage in passages]
    vectors = await embedder.embed_passages(spoken)

    from engram.vectors.quantise import pack_blobs, quantise  # noqa: PLC0415 brings NumPy

    contents = iter(pack_blobs(quantise(vectors, dimensions=vectors.shape[1])))
    return [
        [
            PassageVector(start=passage.start, end=passage.end, content=next(contents))
            for passage in passages
        ]
        for _, passages in split
    ]


async def split_texts(
    texts: Sequence[EmbeddedText], splitting: Splitting
) -> list[tuple[EmbeddedText, list[Passage]]]:
    """Return each text as it is read, and its passages; long ones do not hold up the event loop."""

    def split() -> list[tuple[EmbeddedText, list[Passage]]]:
        fitted = map(splitting.fit, texts)
        return [(text, splitting.passages(text)) for text in fitted]

    return await offload(split, characters=sum(len(text.content) for text in texts))
