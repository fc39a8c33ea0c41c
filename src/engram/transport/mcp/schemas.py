"""JSON schemas small enough to be paid for in every session: no titles, nulls or references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

from engram import limits

Schema = dict[str, Any]
Definitions = Mapping[str, Schema]

_NULL: Schema = {"type": "null"}

_UNSAID = ("title", "pattern", "uniqueItems", "maxLength")
"""What costs more to read than a refusal, which names the field and says what is wrong with it."""

_SILENT: tuple[tuple[str, object], ...] = (
    ("default", None),
    ("default", False),
    ("default", 0),
    ("default", []),
    ("default", {}),
    ("additionalProperties", True),
    ("minLength", 1),
    ("maximum", limits.WHOLE_NUMBER_MAX),
)
"""What a caller assumes anyway: an absent argument is empty, an object open, a given text is not."""


def input_schema(request: type[BaseModel]) -> Schema:
    """Return what a tool accepts: its bounds and descriptions, unknown arguments refused."""
    generated = request.model_json_schema()
    return _compact(generated, generated.pop("$defs", {}))


def output_schema(answer: type[Any]) -> Schema:
    """Return the fields of a tool's answer; what is nested is named, not spelled out."""
    generated = TypeAdapter(answer).json_schema(mode="serialization")
    definitions = generated.pop("$defs", {})
    fields = generated["properties"].items()
    return {
        "type": "object",
        "properties": {name: _shape(field, definitions) for name, field in fields},
        "required": generated["required"],
    }


def _compact(schema: Schema, definitions: Definitions) -> Schema:
    given = _resolve(schema, definitions)
    if "anyOf" in given:
        # Null is accepted where an argument is optional; leaving it out is the way to say so.
        options = [option for option in given.pop("anyOf") if option != _NULL]
        given = {**_resolve(options[0], definitions), **given}
    if "items" in given:
        given["items"] = _compact(given["items"], definitions)
        if given.get("default") == given["items"].get("enum"):
            given.pop("default", None)
    if "properties" in given:
        fields = given["properties"].items()
        given["properties"] = {name: _compact(field, definitions) for name, field in fields}
    return {key: value for key, value in given.items() if not _is_silent(key, value)}


def _is_silent(key: str, value: object) -> bool:
    return key in _UNSAID or (key, value) in _SILENT


def _shape(schema: Schema, definitions: Definitions) -> Schema:
    given = _resolve(schema, definitions)
    if "anyOf" in given:
        return {"type": [option["type"] for option in given["anyOf"]]}
    if "items" in given:
        return {"type": "array", "items": _shape(given["items"], definitions)}
    return {"type": given["type"]}


def _resolve(schema: Schema, definitions: Definitions) -> Schema:
    own = dict(schema)
    reference = own.pop("$ref", None)
    return own if reference is None else {**definitions[reference.rpartition("/")[2]], **own}
