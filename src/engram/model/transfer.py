"""Memories on their way from one store to another, with all that belongs to them."""

from __future__ import annotations

from dataclasses import dataclass

from engram.model.ids import MemoryId
from engram.model.memory import Memory, MemoryVersion, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A memory with its history and the relations that begin at it."""

    memory: Memory
    versions: tuple[MemoryVersion, ...] = ()
    """Those before the present one, oldest first."""
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsStored:
    """Which of some records came in."""

    stored: tuple[MemoryId, ...]
    present: int
    """Memories that were here already; they stay as they are."""
    purged: int
    """Memories that were removed here for good; they stay removed."""
    documents: tuple[MemoryId, ...] = ()
    """Memories that own a document; they stay out, for its body does not come with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProof:
    """Whether the texts of some memories are what was stored."""

    checked: int
    corrupt: tuple[MemoryId, ...]
    last: MemoryId | None
    """Where to go on; None at the end."""
