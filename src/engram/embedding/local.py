"""Embedders that run a model in this process, loaded at first use.

The libraries that run models are imported with the model, so that a process that never embeds does
not pay for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from engram.clock import Clock
from engram.embedding.files import ModelFiles, OnnxFiles
from engram.embedding.port import EmbeddedPassage, EmbeddedQueryText, EmbedderIdentity
from engram.embedding.registry import KnownModel
from engram.errors import EmbedderUnavailableError
from engram.limits import INLINE_CHARACTERS_MAX, MODEL_RETRY_S
from engram.model.value import Value, replace

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from engram.embedding.onnx_model import OnnxModel
    from engram.embedding.port import Vector, Vectors
    from engram.embedding.static_model import StaticModel
    from engram.embedding.token_outputs import TokenProjection

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that is loaded at first use, once, by whichever thread comes first.

    A failure is repeated for a few seconds without another attempt: a damaged model would otherwise
    be read and hashed for every message.
    """

    def __init__(self, load: Callable[[], T], clock: Clock) -> None:
        self._load = load
        self._clock = clock
        self._lock = threading.Lock()
        self._value: T | None = None
        self._failure: tuple[str, datetime] | None = None

    @property
    def value(self) -> T | None:
        """Return the value if it is loaded already."""
        return self._value

    @property
    def has_failed(self) -> bool:
        """Return True if the last attempt to load it failed."""
        return self._value is None and self._failure is not None

    def get(self) -> T:
        """Return the value, loading it if necessary.

        Raises:
            EmbedderUnavailableError: it cannot be loaded, or could not a few seconds ago.
        """
        if self._value is None:
            with self._lock:
                self._value = self._value or self._loaded()
        return self._value

    def _loaded(self) -> T:
        if self._failure is not None:
            reason, until = self._failure
            if self._clock.now() < until:
                raise EmbedderUnavailableError(reason)
        try:
            return self._load()
        except EmbedderUnavailableError as exc:
            self._failure = exc.message, self._clock.now() + timedelta(seconds=MODEL_RETRY_S)
            raise


class StaticEmbedder:
    """The instant tier: a static model of the registry, fast enough for the write path."""

    def __init__(self, model: KnownModel, files: ModelFiles, *, clock: Clock) -> None:
        self._registered = model
        self._files = files
        self._model = Lazy(self._load, clock)

    async def identify(self) -> EmbedderIdentity:
        return self._registered.identity

    async def probe(self) -> None:
        if self._model.has_failed:
            # The files have the right size and yet failed to load: only another attempt can tell.
            await asyncio.to_thread(self._model.get)
        elif self._model.value is None:
            self._files.probe(self._registered)

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        if self._model.value and sum(map(len, passages)) <= INLINE_CHARACTERS_MAX:
            # A thread would cost more than the work.
            return self._model.value.embed(passages)
        return await asyncio.to_thread(lambda: self._model.get().embed(passages))

    async def embed_query(self, query: str) -> Vector:
        return (await self.embed_passages([query]))[0]

    def count_tokens(self, text: str) -> int:
        return self._model.get().count_tokens(text)

    async def close(self) -> None:
        """There is nothing to close."""

    def _load(self) -> StaticModel:
        from engram.embedding.static_model import StaticModel

        return StaticModel(self._files.require(self._registered))


class _LoadedOnnx(Value, kw_only=False):
    identity: EmbedderIdentity
    model: OnnxModel


class OnnxEmbedder:
    """The deep tier: one ONNX session, shared by all threads of the process.

    Passages run on as many threads as the operator allows; queries have a thread of their own, so
    that a search does not queue behind indexing.
    """

    def __init__(
        self,
        find: Callable[[], OnnxFiles],
        *,
        threads: int,
        clock: Clock,
        identity: EmbedderIdentity | None = None,
        probe: Callable[[], object] | None = None,
    ) -> None:
        self._identity = identity
        self._probe = probe or find
        # Separate, because counting the tokens of a long message must not load the model.
        self._files = Lazy(lambda: _load_or_fail(find), clock)
        self._tokenizer = Lazy(lambda: _load_or_fail(self._load_tokenizer), clock)
        self._loaded = Lazy(lambda: _load_or_fail(self._load), clock)
        self._passages = ThreadPoolExecutor(threads, thread_name_prefix="embed-passages")
        self._queries = ThreadPoolExecutor(1, thread_name_prefix="embed-query")

    async def identify(self) -> EmbedderIdentity:
        if self._identity is not None:
            return self._identity
        return (await self._on(self._queries, self._loaded.get)).identity

    async def probe(self) -> None:
        if self._loaded.has_failed:
            # The files have the right size and yet failed to load: only another attempt can tell.
            await self._on(self._queries, self._loaded.get)
        elif self._loaded.value is None:
            await self._on(self._queries, lambda: _load_or_fail(self._probe))

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

        return load_tokenizer(self._files.get().tokenizer)

    def _load(self) -> _LoadedOnnx:
        from engram.embedding.onnx_model import OnnxModel

        files = self._files.get()
        model = OnnxModel(
            model=files.model,
            tokenizer=self._tokenizer.get(),
            pooling=files.identity.pooling,
            window=files.window,
            sha256=files.sha256,
        )
        return _LoadedOnnx(_completed_identity(files.identity, model), model)

    @staticmethod
    async def _on(pool: ThreadPoolExecutor, work: Callable[..., T], *arguments: str) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)


class TokenOnnxEmbedder(OnnxEmbedder):
    """A deep tier that returns the vectors of tokens too."""

    def __init__(
        self,
        find: Callable[[], OnnxFiles],
        *,
        projection: str,
        threads: int,
        clock: Clock,
        identity: EmbedderIdentity,
        probe: Callable[[], object],
    ) -> None:
        """Use a `projection` of the package beside the model; the others are as of `OnnxEmbedder`."""
        super().__init__(find, threads=threads, clock=clock, identity=identity, probe=probe)
        self._projection = Lazy(
            lambda: _load_or_fail(lambda: self._load_projection(projection)), clock
        )

    async def embed_passages_with_tokens(
        self, passages: Sequence[str]
    ) -> Sequence[EmbeddedPassage]:
        work = (self._on(self._passages, self._run_passage, text) for text in passages)
        return await asyncio.gather(*work)

    async def embed_query_with_tokens(self, query: str) -> EmbeddedQueryText:
        return await self._on(self._queries, self._run_query, query)

    def _run_passage(self, text: str) -> EmbeddedPassage:
        loaded, projection = self._loaded.get(), self._projection.get()
        output = loaded.model.run_passage(loaded.identity.passage_prefix + text)
        return EmbeddedPassage(output.vector, projection.pack(output))

    def _run_query(self, text: str) -> EmbeddedQueryText:
        loaded, projection = self._loaded.get(), self._projection.get()
        prefix = loaded.identity.query_prefix
        output = loaded.model.run_start(prefix + text)
        tokens = projection.ask(output, start=loaded.model.count_before(prefix))
        return EmbeddedQueryText(output.vector, tokens)

    def _load_projection(self, resource: str) -> TokenProjection:
        from engram.embedding.token_outputs import TokenProjection

        return TokenProjection(resource, self._tokenizer.get())


def _load_or_fail(load: Callable[[], T]) -> T:
    """Call `load`, and translate whatever it raises.

    Raises:
        EmbedderUnavailableError: it failed.
    """
    try:
        return load()
    except EmbedderUnavailableError:
        raise
    except Exception as exc:
        # The libraries raise classes of their own, some of them Exception itself.
        raise EmbedderUnavailableError(f"the model cannot be loaded: {exc}") from exc


def _completed_identity(identity: EmbedderIdentity, model: OnnxModel) -> EmbedderIdentity:
    """Return the identity of a loaded model, which is run once if its dimensions are unknown."""
    if identity.dimensions:
        return identity
    room = model.room_beside(identity.passage_prefix)
    return replace(identity, dimensions=model.dimensions, max_tokens=room)
