"""The embedder port: texts in, validated unit vectors of one identity out.

Vectors of two embedders are never compared. So every embedder has an identity, every stored vector
refers to it, and it includes everything that affects the vector of a text.

Vectors are validated without importing NumPy here, so that importing the port stays cheap.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import msgspec

from engram.errors import (
    EmbedderMismatchError,
    EmbedderUnavailableError,
    InvalidRequestError,
    InvalidVectorError,
)
from engram.model.value import Value
from engram.model.vectors import QueryTokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    """One row of unit length."""

    Vectors: TypeAlias = NDArray[np.float32]
    """One row of unit length for each text, in the order of the texts."""

Pooling = Literal["cls", "mean", "remote"]

EMBEDDING_FAILURES = (
    EmbedderUnavailableError,
    EmbedderMismatchError,
    InvalidVectorError,
    InvalidRequestError,
)
"""Expected failures of an embedder: operational, not programming errors."""


class EmbedderIdentity(Value):
    """Two vectors are comparable if and only if their identities are equal."""

    name: str
    revision: str
    """The exact version behind the name, such as a hash of the files."""
    dimensions: int
    max_tokens: int
    """Passages with more tokens, by `Embedder.count_tokens`, must be split: `engram.text.passages`."""
    query_prefix: str
    passage_prefix: str
    pooling: Pooling

    def as_text(self) -> str:
        """Serialize to the text stored beside vectors: equal for equal identities, in every process."""
        return _identity_text(self)

    @classmethod
    def from_text(cls, text: str) -> EmbedderIdentity:
        """Parse the identity that `as_text` serialized."""
        return cls(**json.loads(text))


@lru_cache(maxsize=16)
def _identity_text(identity: EmbedderIdentity) -> str:
    """Return an identity as JSON; cached, because every search needs it."""
    return json.dumps(
        msgspec.structs.asdict(identity), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


class CosineScale(Value, kw_only=False):
    """The cosine at which a model's texts start to be related, and the range above it."""

    offset: float
    span: float


class Calibration(Value, kw_only=False):
    """The scales that make cosines of different models comparable."""

    message: CosineScale
    neighborhood: CosineScale


class Embedder(Protocol):
    """A model that turns texts into unit vectors, shared by all tasks of one event loop.

    Constructing one is free: files, libraries and connections are opened at first use.
    """

    async def identify(self) -> EmbedderIdentity:
        """Return the identity of this embedder's vectors, which never changes while it lives.

        Local models know it at once; a service must have answered once.

        Raises:
            EmbedderUnavailableError: a service must be called for it and does not answer.
        """
        ...

    async def probe(self) -> None:
        """Return if this embedder seems to be available, as cheaply as that can be checked.

        Raises:
            EmbedderUnavailableError: it is not; the message has the reason.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of `text`, without prefix and special tokens.

        Raises:
            EmbedderUnavailableError: the tokenizer's files are missing or damaged.
        """
        ...

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        """Return a vector for each passage, in order.

        The embedder adds its passage prefix. A passage's vector does not depend on the others.
        Every vector is finite and has the identity's dimensions, or the whole call fails.

        Raises:
            LimitExceededError: a passage does not fit into the model's window.
            InvalidRequestError: a service refuses one of the passages.
            InvalidVectorError: the model returned something other than finite vectors.
            EmbedderMismatchError: the dimensions of the vectors are not the identity's.
            EmbedderUnavailableError: the model is not available now; a retry may succeed.
        """
        ...

    async def embed_query(self, query: str) -> Vector:
        """Return the vector of a query; the embedder adds its query prefix.

        A query that does not fit into the model's window is truncated: it is not stored.
        Errors are those of `embed_passages`.
        """
        ...

    async def close(self) -> None:
        """Release threads and connections; the embedder must not be used afterwards."""
        ...


class EmbeddedPassage(NamedTuple):
    """What a model made of a passage."""

    vector: Vector
    tokens: bytes
    """The vectors of its tokens, packed by `engram.vectors.tokens`; empty if it has none."""


class EmbeddedQueryText(NamedTuple):
    """What a model made of a query."""

    vector: Vector
    tokens: QueryTokens | None = None
    """None without late interaction, or if the query has no tokens."""


@runtime_checkable
class TokenPassageEmbedder(Protocol):
    """The part of a `TokenEmbedder` that embeds passages."""

    async def embed_passages_with_tokens(
        self, passages: Sequence[str]
    ) -> Sequence[EmbeddedPassage]:
        """Return the vectors of each passage and of its tokens; otherwise as `embed_passages`."""
        ...


@runtime_checkable
class TokenEmbedder(TokenPassageEmbedder, Embedder, Protocol):
    """An embedder that returns the vectors of tokens too, from the same run of its model."""

    async def embed_query_with_tokens(self, query: str) -> EmbeddedQueryText:
        """Return the vectors of a query and of its tokens; otherwise as `embed_query`."""
        ...


def with_tokens(embedder: object) -> TokenPassageEmbedder:
    """Return an embedder that has to return the vectors of tokens, as one.

    Raises:
        TypeError: it cannot; callers ask `WatchedEmbedder.has_tokens` before.
    """
    if not isinstance(embedder, TokenPassageEmbedder):
        raise TypeError(f"{type(embedder).__name__} has no vectors of tokens")
    return embedder


UNIT_TOLERANCE = 1e-3
"""How far the squared length of a float32 unit vector may be from 1."""


def unit_rows(raw: Vectors) -> Vectors:
    """Return the rows scaled to unit length.

    Raises:
        InvalidVectorError: a row is zero or not finite.
    """
    squares = _squared_lengths(raw)
    # Not `squares <= 0`: NaN compares false with everything.
    if not bool(((squares > 0) & (squares < float("inf"))).all()):
        raise InvalidVectorError("a vector is zero or not finite")
    return (raw / squares[:, None] ** 0.5).astype("float32")


def check_vectors(vectors: Vectors, identity: EmbedderIdentity, *, count: int) -> None:
    """Validate that these are `count` unit vectors of `identity`.

    Raises:
        EmbedderMismatchError: they have other dimensions.
        InvalidVectorError: one is missing, not finite, or not of unit length.
    """
    if vectors.ndim != 2 or len(vectors) != count:
        raise InvalidVectorError(f"expected {count:,} vectors, got shape {vectors.shape}")
    if vectors.shape[1] != identity.dimensions:
        raise EmbedderMismatchError(
            f"{identity.name} has {identity.dimensions} dimensions, got {vectors.shape[1]}: "
            "another model answers; run `engram reembed` to use it"
        )
    if not bool((abs(_squared_lengths(vectors) - 1) < UNIT_TOLERANCE).all()):
        raise InvalidVectorError("a vector is not finite or not of unit length")


def _squared_lengths(rows: Vectors) -> NDArray[np.float64]:
    # Wide enough that no finite row overflows.
    wide: NDArray[np.float64] = rows.astype("float64")
    return (wide * wide).sum(axis=1)
