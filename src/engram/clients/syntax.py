"""What the editors of JSON, TOML and YAML share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

At = Sequence[str | int]
"""A place in a document: the keys, and the indexes of items, that lead there."""


class UnreadableError(Exception):
    """The file cannot be edited without a risk for what else is in it."""


def newline_of(text: str) -> str:
    """Return the line end of a text, that of the first line."""
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"


def enclosed(at: At, value: Any) -> Any:
    """Return a value inside an object for each step of a place."""
    for key in reversed(at):
        value = {key: value}
    return value


def value_at(document: Any, at: At) -> Any:
    """Return the value at a place, or None if there is none."""
    for key in at:
        if not isinstance(document, dict):
            return None
        document = cast("dict[Any, Any]", document).get(key)
    return document
