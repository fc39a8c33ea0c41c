"""JSON schemas of requests and answers, generated from the shapes of their fields."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any

from msgspec import UNSET

from engram import limits
from engram.model.request import Request
from engram.model.shape import REQUIRED, Field, Kind, Shape, fields_of
from engram.model.value import Value, plain, replace

Schema = dict[str, Any]

_NULL: Schema = {"type": "null"}
_TYPES: Mapping[Kind, Schema] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "moment": {"type": "string", "format": "date-time"},
    "any": {},
}

_JSON_TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", str: "string"}

_OMITTED = ("pattern", "uniqueItems", "maxLength")
"""Keywords left out of tool schemas: they cost more tokens in every session than a rare error does,
which names the field and what is wrong with it."""

_IMPLIED: tuple[tuple[str, object], ...] = (
    ("default", None),
    ("default", False),
    ("default", 0),
    ("default", []),
    ("default", {}),
    ("additionalProperties", True),
    ("minLength", 1),
    ("minimum", 0),
    ("maximum", limits.WHOLE_NUMBER_MAX),
    ("maximum", limits.TOKEN_BUDGET_MAX),
    ("maximum", limits.CONVERSATION_MESSAGES_MAX),
    ("maximum", limits.MESSAGE_BYTES_MAX),
    ("maximum", limits.MEMORY_BYTES_MAX),
    ("maxItems", limits.TAGS_MAX),
)
"""Keywords that callers assume anyway, and bounds that none comes near: absent means empty, objects
are open, texts are not empty, numbers are not negative."""


def object_schema(
    struct: type[Value], *, without: Collection[str] = (), components: dict[str, Schema]
) -> Schema:
    """Return the schema of a struct; those of nested structs are added to `components` by name."""
    fields = [field for name, field in fields_of(struct).items() if name not in without]
    if issubclass(struct, Request):
        schema = {**_object(fields, request_field, components), "additionalProperties": False}
        return {**schema, "minProperties": 1} if struct.needs_a_field else schema
    if (always := getattr(struct, "always_present", None)) is not None:
        fields = [
            _present(replace(field, default=REQUIRED if field.name in always else None))
            for field in fields
        ]
    elif struct.__struct_config__.omit_defaults:
        fields = [_present(field) for field in fields]
    else:
        fields = [replace(field, default=REQUIRED) for field in fields]
    return _object(fields, answer_field, components)


def _object(
    fields: Sequence[Field],
    describe: Callable[[Field, dict[str, Schema]], Schema],
    components: dict[str, Schema],
) -> Schema:
    properties = {field.name: describe(field, components) for field in fields}
    required = [field.name for field in fields if field.is_required]
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": required} if required else schema


def _present(field: Field) -> Field:
    """Return a field that is omitted instead of null."""
    if field.default is not None:
        return field
    return replace(field, shape=replace(field.shape, is_nullable=False))


def request_field(field: Field, components: dict[str, Schema]) -> Schema:
    """Return the schema of a request's field with its description and its default."""
    schema = answer_field(field, components)
    if not field.is_required and field.default is not None and field.default is not UNSET:
        schema["default"] = plain(field.default)
    return schema


def answer_field(field: Field, components: dict[str, Schema]) -> Schema:
    """Return the schema of an answer's field with its description."""
    schema = value_schema(field.shape, components)
    if field.shape.description is not None:
        schema["description"] = field.shape.description
    return schema


def value_schema(shape: Shape, components: dict[str, Schema]) -> Schema:
    """Return the schema of a value, without its description."""
    schema = _own_schema(shape, components)
    for constraint in shape.constraints:
        schema |= constraint.keywords(shape.kind)
    return {"anyOf": [schema, _NULL]} if shape.is_nullable else schema


def reference(struct: type[Value], components: dict[str, Schema]) -> Schema:
    """Return a reference to the schema of a struct, which is added to `components`."""
    name = struct.__name__
    if name not in components:
        components[name] = {}  # ends the recursion of a struct that contains itself
        components[name] = object_schema(struct, components=components)
    return {"$ref": f"#/components/schemas/{name}"}


def _own_schema(shape: Shape, components: dict[str, Schema]) -> Schema:
    if shape.struct is not None:
        return reference(shape.struct, components)
    match shape.kind:
        case "choice":
            return _choice_schema(shape.choices)
        case "list":
            return {"type": "array", "items": value_schema(shape.items, components)}
        case "object":
            values = value_schema(shape.items, components)
            return {"type": "object", "additionalProperties": values or True}
        case kind:
            return dict(_TYPES[kind])


def _choice_schema(choices: tuple[Any, ...]) -> Schema:
    kind = _JSON_TYPES[type(choices[0])]
    if len(choices) == 1:
        return {"type": kind, "const": choices[0]}
    return {"type": kind, "enum": list(choices)}


@cache
def input_schema(request: type[Request]) -> Schema:
    """Return the input schema of a tool, compact because every session pays for it."""
    components = dict[str, Schema]()
    schema = _compact(object_schema(request, components=components), components)
    schema.pop("minProperties", None)
    return schema


@cache
def output_schema(answer: type[Value]) -> Schema:
    """Return the output schema of a tool: the types of its fields, without nested fields.

    It does not list the fields that are always there, nor those that always have the same value: a
    model reads the answer, not its schema.
    """
    components = dict[str, Schema]()
    fields = object_schema(answer, components=components)["properties"].items()
    shown = {name: _outline(field, components) for name, field in fields if "const" not in field}
    return {"type": "object", "properties": shown}


def _compact(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    given = _resolve(schema, components)
    if "anyOf" in given:
        # Optional arguments accept null, but omitting them is what models should do.
        options = [option for option in given.pop("anyOf") if option != _NULL]
        given = {**_resolve(options[0], components), **given}
    if "items" in given:
        given["items"] = _compact(given["items"], components)
        if given.get("default") == given["items"].get("enum"):
            given.pop("default", None)
    if "properties" in given:
        fields = given["properties"].items()
        given["properties"] = {name: _compact(field, components) for name, field in fields}
    return {key: value for key, value in given.items() if not _is_left_out(key, value)}


def _is_left_out(key: str, value: object) -> bool:
    return key in _OMITTED or (key, value) in _IMPLIED


def _outline(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    given = _resolve(schema, components)
    if "anyOf" in given:
        return {"type": [_resolve(option, components)["type"] for option in given["anyOf"]]}
    if "items" in given:
        return {"type": "array", "items": _outline(given["items"], components)}
    return {"type": given["type"]}


def _resolve(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    own = dict(schema)
    target = own.pop("$ref", None)
    return own if target is None else {**components[target.rpartition("/")[2]], **own}
