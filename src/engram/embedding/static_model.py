"""Runs a static model: the vector of a text is the mean of the vectors of its tokens.

Imports NumPy and tokenizers, so it is itself imported when a text is first embedded.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engram.embedding.hashed import hashed_vectors
from engram.embedding.port import unit_rows
from engram.embedding.tokens import WordPieces, count_tokens, load_tokenizer
from engram.yielding import yield_to_others

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

TENSOR = "embeddings"
UNKNOWN = "[UNK]"


class StaticModel:
    """A matrix of token vectors, and the tokenizer whose ids are its rows."""

    def __init__(self, directory: Path) -> None:
        self._rows = _map_tensor(directory / "model.safetensors")
        self._tokenizer = load_tokenizer(directory / "tokenizer.json")
        self._pieces = WordPieces(self._tokenizer, unknown=self._tokenizer.token_to_id(UNKNOWN))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a unit vector for each text."""
        sums = np.zeros((len(texts), self._rows.shape[1]), dtype=np.float32)
        for row, text in zip(sums, texts, strict=True):
            yield_to_others()
            # The sum has the direction of the mean, and only the direction is kept.
            np.add.reduce(self._rows[self._pieces.known_tokens(text)], axis=0, out=row)
        self._fill_unknown(sums, texts)
        return unit_rows(sums)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of a text, unknown ones included."""
        return count_tokens(self._tokenizer, text)

    def _fill_unknown(self, sums: Vectors, texts: Sequence[str]) -> None:
        """Give texts without any known token, such as a lone emoji, a hashed vector.

        It is almost orthogonal to everything but similar texts, whereas a zero row has no direction.
        """
        empty: list[int] = np.flatnonzero(~sums.any(axis=1)).tolist()
        if empty:
            sums[empty] = hashed_vectors([texts[index] for index in empty], sums.shape[1])


def _map_tensor(path: Path) -> Vectors:
    """Memory-map the token vectors, so that processes share the pages of the file."""
    with path.open("rb") as content:
        (length,) = struct.unpack("<Q", content.read(8))
        header: dict[str, dict[str, Any]] = json.loads(content.read(length))
    tensor = header[TENSOR]
    rows = np.memmap(
        path,
        dtype=np.dtype("<f4"),
        mode="r",
        offset=8 + length + tensor["data_offsets"][0],
        shape=tuple(tensor["shape"]),
    )
    # As a plain array: indexing a memmap makes memmaps, at twice the cost.
    return rows.view(np.ndarray)
