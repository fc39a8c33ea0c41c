"""Requests of a table, with the ids of what a test has stored put in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def filled(value: Any, ids: Mapping[str, str]) -> Any:
    """Return a JSON value in which every `{name}` is the id of that name."""
    text = json.dumps(value)
    for name, identifier in ids.items():
        text = text.replace(f"{{{name}}}", identifier)
    return json.loads(text)
