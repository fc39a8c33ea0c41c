"""Name the nearest known name to one that nobody knows, so that a caller need not guess."""

from __future__ import annotations

from collections.abc import Collection

SHOWN_CHARACTERS_MAX = 100
"""Of a name that a caller made up: longer than any of ours, short enough for an error."""


def nearest(name: str, known: Collection[str]) -> str:
    """Return which known name is meant, or all of them where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 few sessions mistake a name

    if close := get_close_matches(shortened(name), known, n=1):
        return f"did you mean {close[0]}?"
    return f"there are {', '.join(known)}" if known else "there are none"


def shortened(name: str) -> str:
    """Return a caller's name, cut where it is too long to be told."""
    if len(name) <= SHOWN_CHARACTERS_MAX:
        return name
    return name[:SHOWN_CHARACTERS_MAX] + "…"
