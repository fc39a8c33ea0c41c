"""How near in meaning whole texts are to each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engram.embedding.port import Embedder
from engram.ingest.embed import EmbeddedText, deep_splitting, split_texts

if TYPE_CHECKING:
    from engram.embedding.port import Vector, Vectors


async def compare_meanings(pairs: Sequence[tuple[str, str]], embedder: Embedder) -> list[float]:
    """Return the cosine of each pair; a text of several passages has the mean of their vectors.

    Raises:
        EmbedderUnavailableError: the model cannot be asked now.
        InvalidVectorError, InvalidRequestError: it gives no vector for one of the texts.
    """
    if not pairs:
        return []
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    splitting = deep_splitting(embedder, await embedder.identify())
    split = await split_texts([EmbeddedText(None, text) for text in texts], splitting)
    spoken = [text.passage_text(passage) for text, passages in split for passage in passages]
    vectors = await embedder.embed_passages(spoken)
    means = dict[str, "Vector"]()
    start = 0
    for text, passages in split:
        means[text.content] = _mean(vectors[start : start + len(passages)])
        start += len(passages)
    return [float(means[first] @ means[second]) for first, second in pairs]


def _mean(rows: Vectors) -> Vector:
    """Return the direction of some vectors together; opposite ones have none."""
    total = rows.sum(axis=0)
    length = float((total @ total) ** 0.5)
    return total / length if length else total
