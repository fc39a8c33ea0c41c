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
    from tokenizers import Tokenizer

    from engram.embedding.onnx_model import OnnxModel
    from engram.embedding.port import Vector, Vectors

T = TypeVar("T")

MODEL_NAME = "model.onnx"
BERT_WINDOW = 512
"""What every ONNX model of the registry reads."""


@dataclass(frozen=True, slots=True)
class OnnxSource:
    """The files of an ONNX model and what is known of it before it is loaded."""

    identity: EmbedderIdentity
    """Without dimensions, these and its tokens are those of the loaded model."""
    window: int
    """Tokens the model reads, prefix and special ones included."""
    model: Path
    tokenizer: Path
    sha256: str | None = None
    """Of the model, where files may be kept beside it."""


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
        probe: Callable[[], object] | None = None,
    ) -> None:
        self._identity = identity
        self._probe = probe or find
        # Each apart: counting the tokens of a long message must not load the model.
        self._source = Lazy(lambda: _usable(find), clock)
        self._tokenizer = Lazy(lambda: _usable(self._load_tokenizer), clock)
        self._loaded = Lazy(lambda: _usable(self._load), clock)
        self._passages = ThreadPoolExecutor(threads, thread_name_prefix="embed-passages")
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")

    async def identify(self) -> EmbedderIdentity:
        if self._identity is not None:
            return self._identity
        return (await self._on(self._queries, self._loaded.get)).identity

    async def probe(self) -> None:
        if self._loaded.has_failed:
            # Files that look well have failed before: only loading them tells.
            await self._on(self._queries, self._loaded.get)
        elif self._loaded.value is None:
            await self._on(self._queries, lambda: _usable(self._probe))

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        import numpy as np

        if not passages:
            return np.zeros((0, (await self.identify()).dimensions), dtype=np.float32)
        work = (self._on(self._passages, self._embed_passage, text) for text in passages)
        return np.stack(await asyncio.gather(*work))

    async def embed_query(self, query: str) -> Vector:
        return await self._on(self._queries, self._embed_query, query)

    def count_tokens(self, text: str) -> int:
        from engram.embedding.tokens import count_tokens

        return count_tokens(self._tokenizer.get(), text)

    async def close(self) -> None:
        for pool in (self._passages, self._queries):
            pool.shutdown(wait=False, cancel_futures=True)

    def _embed_passage(self, text: str) -> Vector:
        loaded = self._loaded.get()
        return loaded.model.embed_passage(loaded.identity.passage_prefix + text)

    def _embed_query(self, text: str) -> Vector:
        loaded = self._loaded.get()
        return loaded.model.embed_start(loaded.identity.query_prefix + text)

    def _load_tokenizer(self) -> Tokenizer:
        from engram.embedding.tokens import load_tokenizer

        return load_tokenizer(self._source.get().tokenizer)

    def _load(self) -> _Loaded:
        from engram.embedding.onnx_model import OnnxModel

        source = self._source.get()
        model = OnnxModel(
            model=source.model,
            tokenizer=self._tokenizer.get(),
            pooling=source.identity.pooling,
            window=source.window,
            sha256=source.sha256,
        )
        return _Loaded(_seen(source.identity, model), model)

    @staticmethod
    async def _on(pool: ThreadPoolExecutor, work: Callable[..., T], *arguments: str) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)


def _usable(load: Callable[[], T]) -> T:
    """Return what `load` loads, or say that it cannot be used."""
    try:
        return load()
    except EmbedderUnavailableError:
        raise
    except Exception as exc:
        # The libraries raise classes of their own making, some of them Exception itself.
        raise EmbedderUnavailableError(f"the model cannot be loaded: {exc}") from exc


def _seen(identity: EmbedderIdentity, model: OnnxModel) -> EmbedderIdentity:
    """Return the identity of a loaded model, which is run once if its dimensions are not known."""
    if identity.dimensions:
        return identity
    room = model.room_beside(identity.passage_prefix)
    return replace(identity, dimensions=model.dimensions, max_tokens=room)


def find_known(model: KnownModel, files: ModelFiles) -> OnnxSource:
    """Return the proven files of a model of the registry.

    Raises:
        EmbedderUnavailableError: a file is missing or damaged.
    """
    directory = files.require(model)
    return OnnxSource(
        identity=model.identity,
        window=BERT_WINDOW,
        model=directory / MODEL_NAME,
        tokenizer=directory / "tokenizer.json",
        sha256=next(file.hub.sha256 for file in model.files if file.name == MODEL_NAME),
    )
