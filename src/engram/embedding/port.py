"""The embedder as the rest of Engram sees it: texts in, unit vectors of one identity out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]
    """One row of unit length."""

    Vectors: TypeAlias = NDArray[np.float32]
    """One row of unit length for each text, in the order of the texts."""

Pooling = Literal["cls", "mean", "remote"]


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """Everything that decides which vector a text gets; vectors of two identities never meet."""

    name: str
    revision: str
    dimensions: int
    max_tokens: int
    query_prefix: str
    passage_prefix: str
    pooling: Pooling

    def as_text(self) -> str:
        """Return the form kept beside vectors: equal for equal identities, in every process."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_text(cls, text: str) -> EmbedderIdentity:
        """Return the identity that `as_text` wrote."""
        return cls(**json.loads(text))


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
    """Something that embeds, shared by all tasks of one event loop.

    Constructing one is free: files are read, libraries imported and services asked at first use.
    Each method raises EmbedderUnavailableError while the model or the service cannot be used; a
    later call may succeed. Vectors are finite, of unit length and of `identity.dimensions`.
    """

    async def identify(self) -> EmbedderIdentity:
        """Return the identity of every vector this embedder gives; it never changes.

        Raises:
            EmbedderUnavailableError: it must be asked for and there is no answer.
        """
        ...

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vector of each text as something to be found.

        A text's vector does not depend on the texts beside it.

        Raises:
            LimitExceededError: a text takes more than `identity.max_tokens`; split it first.
            InvalidRequestError: the service refuses a text.
            InvalidVectorError: what came back is no vector.
            EmbedderMismatchError: what came back has other dimensions than before.
        """
        ...

    async def embed_query(self, text: str) -> Vector:
        """Return the vector of a text as something to search for.

        Only the first `identity.max_tokens` tokens are read. Errors as of `embed_passages`.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """Return how many of `identity.max_tokens` a passage takes, prefix and marks included."""
        ...

    async def close(self) -> None:
        """Let go of threads and connections; the embedder is not used afterwards."""
        ...
