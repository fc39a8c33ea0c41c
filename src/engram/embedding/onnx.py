"""The embedder of the deep tier: an ONNX model on threads of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engram.clock import Clock
from engram.embedding.files import ModelFiles
from engram.embedding.lazy import Lazy
from engram.embedding.port import EmbedderIdentity
from engram.embedding.registry import KnownModel
from engram.errors import EmbedderUnavailableError

if TYPE_CHECKING:
    from engram.embedding.onnx_model import OnnxModel
    from engram.embedding.port import Vector, Vectors

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OnnxSource:
    """The files of an ONNX model and what is known of it before it is loaded."""

    identity: EmbedderIdentity
    model: Path
    tokenizer: Path


@dataclass(frozen=True, slots=True)
class _Loaded:
    identity: EmbedderIdentity
    model: OnnxModel


class OnnxEmbedder:
    """Embeds with one ONNX session, shared by all threads of the process.

    Passages run on as many threads as the operator allows; a query has a thread of its own, so that
    a search does not wait behind what is being indexed.
    """

    def __init__(
        self,
        find: Callable[[], OnnxSource],
        *,
        threads: int,
        clock: Clock,
        identity: EmbedderIdentity | None = None,
    ) -> None:
        self._find = find
        self._identity = identity
        self._loaded = Lazy(self._load, clock)
        self._passages = ThreadPoolExecutor(threads, thread_name_prefix="embed-passages")
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")

    async def identify(self) -> EmbedderIdentity:
        if self._identity is not None:
            return self._identity
        return (await self._on(self._queries, self._loaded.get)).identity

    async def embed_passages(self, texts: Sequence[str]) -> Vectors:
        import numpy as np

        if not texts:
            return np.zeros((0, (await self.identify()).dimensions), dtype=np.float32)
        work = (self._on(self._passages, self._embed_passage, text) for text in texts)
        return np.stack(await asyncio.gather(*work))

    async def embed_query(self, text: str) -> Vector:
        return await self._on(self._queries, self._embed_query, text)

    def count_tokens(self, text: str) -> int:
        loaded = self._loaded.get()
        return loaded.model.count_tokens(loaded.identity.passage_prefix + text)

    async def close(self) -> None:
        for pool in (self._passages, self._queries):
            pool.shutdown(wait=False, cancel_futures=True)

    def _embed_passage(self, text: str) -> Vector:
        loaded = self._loaded.get()
        return loaded.model.embed_passage(loaded.identity.passage_prefix + text)

    def _embed_query(self, text: str) -> Vector:
        loaded = self._loaded.get()
        return loaded.model.embed_start(loaded.identity.query_prefix + text)

    def _load(self) -> _Loaded:
        from engram.embedding.onnx_model import OnnxModel

        try:
            source = self._find()
            model = OnnxModel(
                model=source.model,
                tokenizer=source.tokenizer,
                pooling=source.identity.pooling,
                max_tokens=source.identity.max_tokens,
            )
            return _Loaded(replace(source.identity, dimensions=model.dimensions), model)
        except EmbedderUnavailableError:
            raise
        except Exception as exc:
            # Both libraries raise classes of their own making, some of them Exception itself.
            raise EmbedderUnavailableError(f"the model cannot be loaded: {exc}") from exc

    @staticmethod
    async def _on(pool: ThreadPoolExecutor, work: Callable[..., T], *arguments: str) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)


def find_known(model: KnownModel, files: ModelFiles) -> OnnxSource:
    """Return the proven files of a model of the registry.

    Raises:
        EmbedderUnavailableError: a file is missing or damaged.
    """
    directory = files.require(model)
    return OnnxSource(
        identity=model.identity,
        model=directory / "model.onnx",
        tokenizer=directory / "tokenizer.json",
    )
