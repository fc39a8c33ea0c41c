"""Toolsets: the groups of tools that MCP clients can select."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeGuard, get_args

from engram.errors import InvalidRequestError

Toolset = Literal["conversations", "notes", "memories", "maintenance"]
TOOLSETS: tuple[Toolset, ...] = get_args(Toolset)

DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("conversations", "notes")
"""Used if neither the connection, nor the key, nor the setting names any."""


def choose_toolsets(names: Collection[str]) -> tuple[Toolset, ...]:
    """Return the named toolsets, deduplicated and in canonical order.

    Raises:
        InvalidRequestError: one of them is unknown, or none is given.
    """
    known = ", ".join(TOOLSETS)
    if not names:
        raise InvalidRequestError(f"must name at least one of {known}", field="toolsets")
    for name in names:
        if not is_toolset(name):
            message = f"there is no toolset {name!r}; known: {known}"
            raise InvalidRequestError(message, field="toolsets")
    return tuple(toolset for toolset in TOOLSETS if toolset in names)


def parse_toolsets(text: str) -> tuple[Toolset, ...]:
    """Parse a comma-separated list of toolsets.

    Raises:
        InvalidRequestError: one of them is unknown, or none is given.
    """
    return choose_toolsets([name.strip() for name in text.split(",")])


def is_toolset(name: str) -> TypeGuard[Toolset]:
    """Return True if there is a toolset of this name."""
    return name in TOOLSETS
