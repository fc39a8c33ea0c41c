"""What Engram asks of an embedder: texts in, vectors of length 1 and of one identity out.

Vectors of two embedders are never compared. So every embedder has an identity, every stored vector
carries it, and whatever could make the same text another vector is part of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from engram.errors import (
    EmbedderMismatchError,
    EmbedderUnavailableError,
    InvalidRequestError,
    InvalidVectorError,
)

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
"""What an embedder may raise for texts that nobody has to mend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderIdentity:
    """What makes two vectors comparable: equal identities, and nothing else."""

    name: str
    revision: str
    """The exact files or version behind the name, such as a hash."""
    dimensions: int
    max_tokens: int
    """A passage of more, by `Embedder.count_tokens`, must be split; see `engram.text.passages`."""
    query_prefix: str
    passage_prefix: str
    pooling: Pooling

    def as_text(self) -> str:
        """Return the form kept beside vectors: equal for equal identities, in every process."""
        return _identity_text(self)

    @classmethod
    def from_text(cls, text: str) -> EmbedderIdentity:
        """Return the identity that `as_text` wrote."""
        return cls(**json.loads(text))


@lru_cache(maxsize=16)
def _identity_text(identity: EmbedderIdentity) -> str:
    """Return an identity as JSON; every search asks for that of its embedders."""
    return json.dumps(asdict(identity), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class CosineScale:
    """Where a model's cosines begin to mean something, and how far from there they reach."""

    offset: float
    span: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The scales that make cosines of different models mean the same."""

    message: CosineScale
    neighborhood: CosineScale


class Embedder(Protocol):
    """A model that turns texts into vectors of length 1, shared by all tasks of one event loop.

    Constructing one is free: files are read, libraries imported and services asked at first use.
    """

    async def identify(self) -> EmbedderIdentity:
        """Return what this embedder's vectors carry; it never changes while the embedder lives.

        Models of this process know it at once; a service must have answered once.

        Raises:
            EmbedderUnavailableError: it must be asked for and there is no answer.
        """
        ...

    async def probe(self) -> None:
        """Return if it seems that this embedder can be asked, as cheaply as that can be told.

        Raises:
            EmbedderUnavailableError: it cannot, and why.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the model reads of `text`, without prefix and special tokens.

        Raises:
            EmbedderUnavailableError: the tokenizer's files are missing or damaged.
        """
        ...

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        """Return a vector for each passage, in order.

        The embedder adds its passage prefix. A passage's vector does not depend on the others.
        Every vector is finite and has the identity's dimensions, or the call fails: all of it.

        Raises:
            LimitExceededError: a passage is longer than the model can read.
            InvalidRequestError: a service refuses one of the passages.
            InvalidVectorError: what came back is no vector.
            EmbedderMismatchError: what came back has other dimensions than the identity.
            EmbedderUnavailableError: the model cannot be asked now; a retry may succeed.
        """
        ...

    async def embed_query(self, query: str) -> Vector:
        """Return the vector to search with; the embedder adds its query prefix.

        A query longer than the model can read is cut at its end: it is asked for, not kept.
        Errors are those of `embed_passages`.
        """
        ...

    async def close(self) -> None:
        """Let go of threads and connections; the embedder is not used afterwards."""
        ...
