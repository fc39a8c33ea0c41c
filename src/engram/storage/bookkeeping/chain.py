"""Hashes of what a transaction appends, gathered for the chain of a file's history."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar

_gathered: ContextVar[list[bytes] | None] = ContextVar("hashes", default=None)


def gather_hashes() -> list[bytes]:
    """Return a new list, to which this thread's `note_appended` adds from now on."""
    hashes: list[bytes] = []
    _gathered.set(hashes)
    return hashes


def note_appended(hashes: Iterable[bytes]) -> None:
    """Add the hashes of rows that were appended, if anybody gathers them."""
    gathered = _gathered.get()
    if gathered is not None:
        gathered.extend(hashes)
