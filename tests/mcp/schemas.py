"""The schema of a tool's whole answer, which clients are not shown."""

from __future__ import annotations

from typing import Any

from engram.api.schema import Schema, object_schema
from engram.api.table import OPERATIONS

BY_TOOL = {each.name: each for each in OPERATIONS if each.tool is not None}


def whole_schema(tool: str) -> dict[str, Any]:
    """Return what a tool answers, with everything nested in it; other fields are refused."""
    components = dict[str, Schema]()
    schema = object_schema(BY_TOOL[tool].answer, components=components)
    for each in (schema, *components.values()):
        each["additionalProperties"] = False
    return {**schema, "components": {"schemas": components}}
