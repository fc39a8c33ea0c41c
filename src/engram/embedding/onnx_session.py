"""Opens ONNX models, from the graph that ONNX Runtime once made of them where that was kept.

Optimising a graph takes as long as loading it, and gives the same every time. What is kept is named
after all that it follows from, so it never goes stale; whatever is wrong with it, it is made anew.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from pathlib import Path

from onnxruntime import (
    GraphOptimizationLevel,
    InferenceSession,
    SessionOptions,
    get_version_string,
)
from onnxruntime.capi import onnxruntime_pybind11_state as states

from engram.embedding.files import DERIVED_PREFIX

logger = logging.getLogger(__name__)

_FAILURES = (
    OSError,
    states.Fail,
    states.InvalidArgument,
    states.InvalidGraph,
    states.InvalidProtobuf,
    states.NoModel,
    states.NoSuchFile,
    states.RuntimeException,
)
"""How a graph turns out to be unusable, or cannot be written."""

_KEY_DIGITS = 16
_KEPT_LEVEL = GraphOptimizationLevel.ORT_ENABLE_EXTENDED
"""What goes beyond it depends on the very processor, and brings nothing to models of text."""


def open_session(model: Path, *, sha256: str | None) -> InferenceSession:
    """Return a session of a model, and keep its optimised graph beside it if its hash is given."""
    if sha256 is None:
        return _session(model, _options())
    kept = KeptGraph(model.parent, sha256=sha256)
    return kept.open() or kept.make(model) or _session(model, _options())


class KeptGraph:
    """A model's optimised graph in a file, and a note of what that file was like when written."""

    def __init__(self, directory: Path, *, sha256: str) -> None:
        self.path = directory / f"{DERIVED_PREFIX}{_key(sha256)}.onnx"
        self._note = self.path.with_suffix(".json")

    def open(self) -> InferenceSession | None:
        """Return a session of the graph; None where there is none, or it cannot be used."""
        if not self._is_as_written():
            return None
        try:
            return _session(self.path, _options(GraphOptimizationLevel.ORT_DISABLE_ALL))
        except _FAILURES:
            logger.warning("%s cannot be used and is made anew", self.path, exc_info=True)
            return None

    def make(self, model: Path) -> InferenceSession | None:
        """Return a session of the model after keeping its graph; None where that cannot be done."""
        staged = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        options = _options(_KEPT_LEVEL)
        options.optimized_model_filepath = str(staged)
        try:
            session = _session(model, options)
            staged.replace(self.path)
            staged.write_text(json.dumps(_facts(self.path)))
            staged.replace(self._note)
        except _FAILURES:
            # The directory may be another's, or the disk full; a model that is damaged shows next.
            logger.debug("the graph of %s is not kept", model, exc_info=True)
            return None
        return session

    def _is_as_written(self) -> bool:
        try:
            return json.loads(self._note.read_bytes()) == _facts(self.path)
        except (OSError, ValueError):
            return False


def _facts(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _key(sha256: str) -> str:
    """Return a name for all that a graph follows from."""
    causes = [sha256, get_version_string(), platform.machine(), _KEPT_LEVEL.name]
    return hashlib.sha256(json.dumps(causes).encode()).hexdigest()[:_KEY_DIGITS]


def _session(path: Path, options: SessionOptions) -> InferenceSession:
    return InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _options(level: GraphOptimizationLevel | None = None) -> SessionOptions:
    """Return options for many short runs from our own threads, with little memory."""
    options = SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Every text has another length, so that a plan of memory is never used twice, only kept.
    options.enable_mem_pattern = False
    if level is not None:
        options.graph_optimization_level = level
    return options
