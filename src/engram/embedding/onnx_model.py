"""Runs an ONNX model: one text at a time, pooled, scaled to unit length.

Imports NumPy and ONNX Runtime, so it is itself imported when a text is first embedded.

Texts are not batched: a quantised model scales its activations by the whole batch, so a text's vector
would depend on the texts beside it (cosine 0.992 to itself), and batches are hardly faster here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from onnxruntime import (
    GraphOptimizationLevel,
    InferenceSession,
    SessionOptions,
    get_version_string,
)
from onnxruntime.capi import onnxruntime_pybind11_state as states

from engram.embedding.files import DERIVED_PREFIX
from engram.embedding.port import unit_rows
from engram.embedding.tokens import token_ids
from engram.errors import LimitExceededError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from engram.embedding.port import Pooling, Vector, Vectors

logger = logging.getLogger(__name__)

SENTENCE_OUTPUT = "sentence_embedding"
"""The output in which some exports return the pooled vector themselves."""

_GRAPH_FAILURES = (
    OSError,
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.InvalidProtobuf,
    states.NoModel,
    states.NoSuchFile,
    states.RuntimeException,
)
"""Raised for a graph that is unusable or cannot be written."""

_KEY_DIGITS = 16
_CACHED_LEVEL = GraphOptimizationLevel.ORT_ENABLE_EXTENDED
"""Higher levels depend on the exact processor, and bring nothing to text models."""


class ModelOutput(NamedTuple):
    """What one run of a model returns."""

    vector: Vector
    """Pooled, of unit length."""
    ids: Sequence[int]
    """The tokens that were read, special ones included."""
    rows: Vectors
    """An output for each token; of a model that pools them itself, its only one."""


class OnnxModel:
    """An ONNX Runtime session and its tokenizer; thread-safe."""

    def __init__(
        self,
        *,
        model: Path,
        tokenizer: Tokenizer,
        pooling: Pooling,
        window: int,
        sha256: str | None = None,
    ) -> None:
        self._session = open_session(model, sha256=sha256)
        self._inputs = {node.name for node in self._session.get_inputs()}
        self._output = _output_name(self._session)
        self._pooling = pooling
        self._window = window
        self._tokenizer = tokenizer

    def embed_passage(self, text: str) -> Vector:
        """Return the vector of a text that fits into the model's window.

        Raises:
            LimitExceededError: it has too many tokens.
        """
        return self.run_passage(text).vector

    def embed_start(self, text: str) -> Vector:
        """Return the vector of a text, truncated to the model's window."""
        return self.run_start(text).vector

    def run_passage(self, text: str) -> ModelOutput:
        """Return the vectors of a text that fits into the model's window, and of its tokens.

        Raises:
            LimitExceededError: it has too many tokens.
        """
        tokens = token_ids(self._tokenizer, text)
        if len(tokens) > self._window:
            raise LimitExceededError(
                "passage", limit=self._window, actual=len(tokens), unit="tokens"
            )
        return self._run(tokens)

    def run_start(self, text: str) -> ModelOutput:
        """Return the vectors of a text, truncated to the model's window, and of its tokens."""
        tokens = token_ids(self._tokenizer, text)
        if len(tokens) > self._window:
            # The last token is the special one that ends every text.
            tokens = [*tokens[: self._window - 1], tokens[-1]]
        return self._run(tokens)

    def count_before(self, prefix: str) -> int:
        """Return how many tokens, the special one included, come before a text behind `prefix`."""
        return len(self._tokenizer.encode(prefix).ids) - 1

    def room_beside(self, prefix: str) -> int:
        """Return how many tokens of a text fit beside `prefix`."""
        return self._window - len(self._tokenizer.encode(prefix).ids)

    @property
    def dimensions(self) -> int:
        """Return the length of the vectors, by running the model once."""
        return len(self.embed_start(""))

    def _run(self, tokens: list[int]) -> ModelOutput:
        output = self._outputs(tokens)
        return ModelOutput(unit_rows(self._pool(output)[np.newaxis])[0], tokens, output[0])

    def _outputs(self, tokens: list[int]) -> Vector:
        ids = np.array([tokens], dtype=np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        wanted = {name: value for name, value in feed.items() if name in self._inputs}
        (output,) = self._session.run([self._output], wanted)
        return output

    def _pool(self, output: Vector) -> Vector:
        """Return one vector from the model's output, which has a row per token or is pooled already."""
        if output.ndim == 2:
            return output[0]
        return output[0, 0] if self._pooling == "cls" else output[0].mean(axis=0)


def _output_name(session: InferenceSession) -> str:
    names = [node.name for node in session.get_outputs()]
    return SENTENCE_OUTPUT if SENTENCE_OUTPUT in names else names[0]


def open_session(model: Path, *, sha256: str | None) -> InferenceSession:
    """Return a session for a model, caching the optimised graph beside it if its hash is given."""
    if sha256 is None:
        return _session(model, _options())
    cached = CachedGraph(model.parent, sha256=sha256)
    return cached.open() or cached.make(model) or _session(model, _options())


class CachedGraph:
    """A model's optimised graph in a file, with a stamp of that file's size and time when written.

    Optimising a graph takes as long as loading it, and always gives the same. The file is named after
    a hash of everything the graph depends on, so it cannot go stale; a damaged one is made again.
    """

    def __init__(self, directory: Path, *, sha256: str) -> None:
        self.path = directory / f"{DERIVED_PREFIX}{_cache_key(sha256)}.onnx"
        self._stamp = self.path.with_suffix(".json")

    def open(self) -> InferenceSession | None:
        """Return a session for the graph, or None if it is missing or unusable."""
        if not self._is_as_written():
            return None
        try:
            return _session(self.path, _options(GraphOptimizationLevel.ORT_DISABLE_ALL))
        except _GRAPH_FAILURES:
            logger.warning("%s is unusable and will be made again", self.path, exc_info=True)
            return None

    def make(self, model: Path) -> InferenceSession | None:
        """Return a session for the model after writing its graph, or None if that fails."""
        staged = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        options = _options(_CACHED_LEVEL)
        options.optimized_model_filepath = str(staged)
        try:
            session = _session(model, options)
            staged.replace(self.path)
            staged.write_text(json.dumps(_size_and_time(self.path)))
            staged.replace(self._stamp)
        except _GRAPH_FAILURES:
            # The directory may be read-only or the disk full; a damaged model fails again next.
            logger.debug("the graph of %s cannot be cached", model, exc_info=True)
            return None
        return session

    def _is_as_written(self) -> bool:
        try:
            return json.loads(self._stamp.read_bytes()) == _size_and_time(self.path)
        except (OSError, ValueError):
            return False


def _size_and_time(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _cache_key(sha256: str) -> str:
    """Return a hash of everything that an optimised graph depends on."""
    causes = [sha256, get_version_string(), platform.machine(), _CACHED_LEVEL.name]
    return hashlib.sha256(json.dumps(causes).encode()).hexdigest()[:_KEY_DIGITS]


def _session(path: Path, options: SessionOptions) -> InferenceSession:
    return InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _options(level: GraphOptimizationLevel | None = None) -> SessionOptions:
    """Return options for many short runs from our own threads in little memory."""
    options = SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Texts differ in length, so a memory plan would be kept and never be used again.
    options.enable_mem_pattern = False
    if level is not None:
        options.graph_optimization_level = level
    return options
