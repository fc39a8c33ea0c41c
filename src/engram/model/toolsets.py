"""Toolsets: the groups in which MCP clients see the tools."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, TypeGuard, get_args

from engram.errors import InvalidRequestError

Toolset = Literal["conversations", "notes", "memories", "maintenance"]
TOOLSETS: tuple[Toolset, ...] = get_args(Toolset)

DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("conversations", "notes")
"""What a client sees when neither its connection, nor its key, nor the setting names others."""


def choose_toolsets(names: Collection[str]) -> tuple[Toolset, ...]:
    """Return the toolsets of these names, each once and in their own order.

    Raises:
        InvalidRequestError: one of them is unknown, or none is given.
    """
    known = ", ".join(TOOLSETS)
    if not names:
        raise InvalidRequestError(f"must be some of {known}", field="toolsets")
    for name in names:
        if not is_toolset(name):
            message = f"there is no toolset {name!r}; known: {known}"
            raise InvalidRequestError(message, field="toolsets")
    return tuple(toolset for toolset in TOOLSETS if toolset in names)


def parse_toolsets(text: str) -> tuple[Toolset, ...]:
    """Return the toolsets that a text names, comma-separated.

    Raises:
        InvalidRequestError: one of them is unknown, or none is given.
    """
    return choose_toolsets([name.strip() for name in text.split(",")])


def is_toolset(name: str) -> TypeGuard[Toolset]:
    """Return True if there is a toolset of this name."""
    return name in TOOLSETS
