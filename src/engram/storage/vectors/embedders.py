"""The embedders whose vectors an organisation has, by role."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple

from engram.model.vectors import StoredIdentities
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("vectors/vectors.sql")

EmbedderRole = Literal["instant", "deep", "next"]


@dataclass(frozen=True, slots=True)
class StoredEmbedder:
    """A row of the table `embedder`."""

    number: int
    identity: str
    near_upto: int | None = None
    """Its vectors up to this change are in an HNSW index; None if there is no index."""

    @property
    def dimensions(self) -> int:
        """Return how long its vectors are."""
        return _dimensions_of(self.identity)


@cache
def _dimensions_of(identity: str) -> int:
    return json.loads(identity)["dimensions"]


class VectorState(NamedTuple):
    """The position of an organisation in the change log of its vectors."""

    seq: int
    """The last change."""
    forgotten: int
    """Removals up to here have been pruned from the log."""


@dataclass(frozen=True, slots=True)
class Embedders:
    """The embedders that have a role."""

    by_role: Mapping[str, StoredEmbedder] = field(default_factory=dict[str, StoredEmbedder])
    state: VectorState | None = None
    """Of the vectors, if it is stored."""

    @property
    def deep(self) -> StoredEmbedder | None:
        """Return the embedder whose vectors every message has or is queued for."""
        return self.by_role.get("deep")

    def matching(self, role: EmbedderRole, identity: str) -> StoredEmbedder | None:
        """Return the embedder in `role` if it is the one of `identity`."""
        found = self.by_role.get(role)
        return found if found is not None and found.identity == identity else None

    def identities(self) -> StoredIdentities:
        """Return the identities of the embedders."""
        return StoredIdentities(**{role: found.identity for role, found in self.by_role.items()})


def expect_embedders(tx: Transaction) -> None:
    """Prepare for `read_embedders`."""
    tx.ask_ahead(_SQL["list_embedders"])


def read_embedders(tx: Transaction) -> Embedders:
    """Return the embedders that have a role."""
    by_role: dict[str, StoredEmbedder] = {}
    state = None
    for role, number, identity, near_upto, seq, forgotten in tx.execute(_SQL["list_embedders"]):
        by_role[role] = StoredEmbedder(number, identity, near_upto)
        state = None if seq is None else VectorState(seq, forgotten)
    tx.tenant.last_embedders.value = found = Embedders(by_role, state)
    return found


def register(tx: Transaction, *, role: EmbedderRole, identity: str) -> StoredEmbedder | None:
    """Give a vacant role to an embedder; return None if another has it."""
    embedders = read_embedders(tx)
    if role in embedders.by_role:
        return embedders.matching(role, identity)
    row = tx.execute(_SQL["add_embedder"], role=role, identity=identity)
    return StoredEmbedder(row.fetchone()[0], identity)
