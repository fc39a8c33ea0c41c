"""An ONNX model at work: one text at a time, pooled, of unit length.

Imports NumPy and ONNX Runtime, so it is itself imported when a text is first embedded.

Texts are not run in batches: a quantised model scales its activations by the whole batch, so that a
text's vector would depend on its company (cosine 0.992 to itself), and batches bring little here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engram.embedding.check import unit_rows
from engram.embedding.onnx_session import open_session
from engram.embedding.tokens import token_ids
from engram.errors import LimitExceededError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

    from engram.embedding.port import Pooling, Vector

SENTENCE_OUTPUT = "sentence_embedding"
"""The name under which some exports give the pooled vector themselves."""


class OnnxModel:
    """A session and its tokenizer; safe to use from several threads at once."""

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
        """Return the vector of a text that fits.

        Raises:
            LimitExceededError: it has more tokens than the model reads.
        """
        tokens = token_ids(self._tokenizer, text)
        if len(tokens) > self._window:
            raise LimitExceededError(
                "passage", limit=self._window, actual=len(tokens), unit="tokens"
            )
        return self._run(tokens)

    def embed_start(self, text: str) -> Vector:
        """Return the vector of as much of a text as the model reads."""
        tokens = token_ids(self._tokenizer, text)
        if len(tokens) > self._window:
            # The last token is the special one that ends every text.
            tokens = [*tokens[: self._window - 1], tokens[-1]]
        return self._run(tokens)

    def room_beside(self, prefix: str) -> int:
        """Return how many tokens of a text the model reads beside `prefix`."""
        return self._window - len(self._tokenizer.encode(prefix).ids)

    @property
    def dimensions(self) -> int:
        """Return how long the vectors are."""
        return len(self.embed_start(""))

    def _run(self, tokens: list[int]) -> Vector:
        ids = np.array([tokens], dtype=np.int64)
        feed = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        wanted = {name: value for name, value in feed.items() if name in self._inputs}
        (output,) = self._session.run([self._output], wanted)
        return unit_rows(self._pool(output)[np.newaxis])[0]

    def _pool(self, output: Vector) -> Vector:
        """Return one row of a model's output, which has a row for each token or just one."""
        if output.ndim == 2:
            return output[0]
        return output[0, 0] if self._pooling == "cls" else output[0].mean(axis=0)


def _output_name(session: InferenceSession) -> str:
    names = [node.name for node in session.get_outputs()]
    return SENTENCE_OUTPUT if SENTENCE_OUTPUT in names else names[0]
