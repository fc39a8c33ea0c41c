"""Introspection: the shape of a struct's fields, derived from their annotations.

A field is declared once, as `name: Annotated[type, constraints …, "Description."]`. Parsing,
validation, JSON schemas, command options and the reference are all generated from its shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec

from engram.model.value import (
    INTERNAL,
    UNLISTED,
    Value,
    computed_hints,
    defaults_of,
    marks_of,
)

Kind = Literal[
    "text", "whole", "number", "flag", "choice", "moment", "list", "struct", "object", "any"
]

_KINDS: Mapping[Any, Kind] = {
    str: "text",
    int: "whole",
    float: "number",
    bool: "flag",
    datetime: "moment",
    Any: "any",
    object: "any",
}


REQUIRED: Any = object()
"""Sentinel: the field has no default."""


class Constraint(Protocol):
    """A constraint on a field, given in its annotation."""

    def check(self, field: str, value: Any) -> None:
        """Validate a value.

        Raises:
            InvalidRequestError: it is out of bounds; names the field and the bound.
        """
        ...

    def keywords(self, kind: Kind, /) -> Mapping[str, Any]:
        """Return the constraint as JSON Schema keywords."""
        ...


class Shape(Value):
    """The type of a value, with its constraints and description."""

    kind: Kind
    is_nullable: bool = False
    constraints: tuple[Constraint, ...] = ()
    description: str | None = None
    choices: tuple[Any, ...] = ()
    item: Shape | None = None
    struct: type[Value] | None = None
    takes_days: bool = False
    """True if a date is accepted, meaning the start of that day in UTC."""

    @property
    def items(self) -> Shape:
        """Return the shape of the values of a list or an object."""
        return self.item or Shape(kind="any")


class Field(Value):
    """One field of a struct."""

    name: str
    shape: Shape
    default: Any = REQUIRED

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


class TakesDays:
    """Marks a timestamp field that also accepts a date."""


@cache
def fields_of(struct: type[Value]) -> Mapping[str, Field]:
    """Return the fields of a struct's JSON by name, computed ones last."""
    hints = get_type_hints(struct, include_extras=True)
    defaults = defaults_of(struct)
    fields = {
        name: Field(
            name=name,
            shape=shape_of(hints[name]),
            default=defaults.get(name, REQUIRED),
        )
        for name in struct.__struct_fields__
        if INTERNAL not in marks_of(hints[name]) and UNLISTED not in marks_of(hints[name])
    }
    for name, hint in computed_hints(struct).items():
        shape = shape_of(hint)
        omits = shape.is_nullable and struct.__struct_config__.omit_defaults
        fields[name] = Field(name=name, shape=shape, default=None if omits else REQUIRED)
    return fields


def shape_of(annotation: Any) -> Shape:
    """Return the shape of an annotation.

    Raises:
        TypeError: the type has no JSON form.
    """
    annotation = getattr(annotation, "__supertype__", annotation)  # NewType: ids are strings
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(*arguments)
    if origin in (Union, UnionType):
        return _optional(arguments)
    if origin is Literal:
        return Shape(kind="choice", choices=arguments)
    return _plain_shape(annotation, origin, arguments)


def _plain_shape(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Shape:
    if annotation in _KINDS:
        return Shape(kind=_KINDS[annotation])
    if origin is tuple:
        return Shape(kind="list", item=shape_of(arguments[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Shape(kind="object", item=shape_of(arguments[1]))
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return Shape(kind="struct", struct=annotation)
    raise TypeError(f"no JSON has the type {annotation!r}")


def _annotated(inner: Any, *marks: Any) -> Shape:
    shape = shape_of(inner)
    texts = [mark for mark in marks if isinstance(mark, str)]
    return msgspec.structs.replace(
        shape,
        constraints=(*shape.constraints, *(mark for mark in marks if hasattr(mark, "check"))),
        description=texts[-1] if texts else shape.description,
        takes_days=shape.takes_days or any(isinstance(mark, TakesDays) for mark in marks),
    )


def _optional(options: tuple[Any, ...]) -> Shape:
    """Return the shape of `X | None`; `UnsetType` is not part of it, as JSON has no such value."""
    given = [each for each in options if each not in (NoneType, msgspec.UnsetType)]
    if len(given) != 1:
        raise TypeError(f"no field may be one of {options!r}")
    return msgspec.structs.replace(shape_of(given[0]), is_nullable=NoneType in options)
