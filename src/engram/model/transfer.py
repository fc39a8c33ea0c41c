"""Memories on their way from one store to another, with all that belongs to them."""

from __future__ import annotations

from dataclasses import dataclass

from engram.model.memory import Memory, MemoryVersion, Relation


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A memory with its history and the relations that begin at it."""

    memory: Memory
    versions: tuple[MemoryVersion, ...] = ()
    """Those before the present one, oldest first."""
    relations: tuple[Relation, ...] = ()
