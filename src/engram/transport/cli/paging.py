"""What a listing says of what it did not show."""

from __future__ import annotations

from engram.transport.cli.visible import counted


def page_notice(shown: int, total: int, next_offset: int | None, thing: str) -> str:
    """Return how many of the things were shown, and how to go on."""
    more = "" if next_offset is None else f"; go on with --offset {next_offset}"
    return f"{shown:,} of {counted(total, thing)}{more}"
