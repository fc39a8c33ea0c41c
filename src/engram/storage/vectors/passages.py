"""Compare a query with each passage of some messages, to find the part of a long text that matches."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from engram import limits
from engram.model.ids import MessageKey
from engram.model.search import ComparedPassage
from engram.model.vectors import QueryVector, Tier
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.storage.vectors.embedders import read_embedders
from engram.vectors.quantise import restore, unpack_blobs

_SQL = load_queries("vectors/vectors.sql")
_OF_MESSAGES: dict[Tier, str] = {
    "deep": "passages_of_messages",
    "instant": "instant_passages_of_messages",
}


def compare_passages(
    tx: Transaction, keys: Sequence[MessageKey], vectors: Sequence[QueryVector]
) -> Mapping[MessageKey, Sequence[ComparedPassage]]:
    """Return the passages of messages that have vectors, each with its cosine, deep before instant.

    Of texts with very many passages the last may be missing.
    """
    found = defaultdict[MessageKey, list[ComparedPassage]](list)
    embedders = read_embedders(tx) if keys else None
    for vector in sorted(vectors, key=lambda each: each.tier):  # deep before instant
        missing = [key for key in keys if key not in found]
        embedder = embedders and embedders.matching(vector.tier, vector.identity)
        if not missing or embedder is None or vector.vector is None:
            continue
        rows = tx.execute(
            _SQL[_OF_MESSAGES[vector.tier]],
            embedder=embedder.number,
            keys=json.dumps(missing),
            limit=limits.EXCERPT_PASSAGES_MAX,
        ).fetchall()
        blobs = [content for *_, content in rows]
        unit = np.asarray(vector.vector) / np.linalg.norm(vector.vector)
        cosines = restore(unpack_blobs(blobs, dimensions=embedder.dimensions)) @ unit
        for (key, start, end, _), cosine in zip(rows, cosines.tolist(), strict=True):
            found[MessageKey(key)].append(ComparedPassage(start, end, cosine, vector.tier))
    return found
