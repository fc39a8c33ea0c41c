"""Keep what a memory shall be, its content apart, until the content has arrived."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from engram.clock import from_microseconds, to_microseconds
from engram.model.memory import MemoryOptions

_MOMENTS = ("valid_from", "valid_to", "expires_at")


def options_to_json(options: MemoryOptions) -> str:
    """Return the options as they are kept."""
    values = {each.name: getattr(options, each.name) for each in fields(MemoryOptions)}
    for name in _MOMENTS:
        values[name] = None if values[name] is None else to_microseconds(values[name])
    return json.dumps(values, ensure_ascii=False)


def options_from_json(text: str) -> MemoryOptions:
    """Return the options that were kept."""
    values: dict[str, Any] = json.loads(text)
    for name in _MOMENTS:
        values[name] = None if values[name] is None else from_microseconds(values[name])
    values["tags"] = tuple(values["tags"])
    return MemoryOptions(**values)
