"""Make the projection of a model's outputs for tokens that the package ships: `python -m bench.projection`.

From texts of this repository and of Python's documentation alone, and without labels: the mean output for
tokens of messages, that for tokens of queries behind their prefix, and the directions in which those of
messages vary most, scaled so that the variance in each is more alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import engram.embedding
from bench.needles.chats import turns
from bench.needles.names import PEOPLE
from bench.note_questions import ASKED_NOTES
from bench.pairs import PAIRS
from bench.texts import chat
from engram.embedding.files import ModelFiles, find_registered
from engram.embedding.onnx_model import OnnxModel
from engram.embedding.registry import ARCTIC
from engram.embedding.tokens import load_tokenizer
from engram.settings import load_settings
from engram.vectors.tokens import TOKEN_DIMENSIONS

Rows = NDArray[np.float64]

PROSE, TALK = 400, 500
"""Texts of each kind."""

FLOOR = 0.5
"""Added to the variance of each direction, in means of them all: scaled fully, the least would be noise."""


def main() -> None:
    """Write the projection of the default model."""
    model = _load()
    prefix = ARCTIC.identity.query_prefix
    messages = _outputs(model, [*chat(PROSE), *_talk()], start=1)
    questions = [each.question for each in (*PAIRS, *ASKED_NOTES)]
    queries = _outputs(
        model, [prefix + text for text in questions], start=model.count_before(prefix)
    )
    mean = messages.mean(axis=0)
    rows = np.vstack([mean, queries.mean(axis=0), _directions(messages - mean)])
    assert ARCTIC.projection is not None
    path = Path(engram.embedding.__file__).with_name(ARCTIC.projection)
    np.save(path, rows.astype(np.float16))
    print(f"{path.name}: {len(messages):,} tokens of messages, {len(queries):,} of queries")


def _load() -> OnnxModel:
    files = find_registered(ARCTIC, ModelFiles(load_settings().model_dir))
    return OnnxModel(
        model=files.model,
        tokenizer=load_tokenizer(files.tokenizer),
        pooling=ARCTIC.identity.pooling,
        window=files.window,
    )


def _talk() -> Iterator[str]:
    """Yield messages as conversations store them, each behind a name."""
    choice = random.Random(3)  # noqa: S311 a fixed choice, not a secret
    said = (each.message for each in PAIRS), (each.content for each in ASKED_NOTES)
    everyday = islice(turns(random.Random(4)), TALK)  # noqa: S311 as above
    for text in (*everyday, *said[0], *said[1]):
        yield f"{choice.choice(PEOPLE)}: {text}"


def _outputs(model: OnnxModel, texts: Sequence[str], *, start: int) -> Rows:
    """Return the outputs of unit length for all tokens from `start` to the last but one."""
    rows = np.concatenate([model.run_start(text).rows[start:-1] for text in texts])
    wide = rows.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def _directions(centred: Rows) -> Rows:
    variances, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
    largest = np.argsort(-variances)[:TOKEN_DIMENSIONS]
    kept = variances[largest]
    return (vectors[:, largest] / np.sqrt(kept + FLOOR * kept.mean())).T


if __name__ == "__main__":
    main()
