"""Immutable values and their serialization to JSON.

Values are frozen msgspec structs with keyword-only fields: a dataclass takes 40 times as long to
define, and there are some two hundred of them, which every start of a process pays for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum, auto
from functools import cache
from typing import Annotated, Any, TypeVar, cast, dataclass_transform, get_type_hints

import msgspec

from engram.clock import format_time

__all__ = [
    "INTERNAL",
    "UNLISTED",
    "Score",
    "Value",
    "computed",
    "computed_hints",
    "defaults_of",
    "derived",
    "marks_of",
    "plain",
    "replace",
]

T = TypeVar("T")
V = TypeVar("V", bound="Value")

SCORE_DIGITS = 4


class Mark(Enum):
    """Marks in a field's annotation that control its serialization."""

    INTERNAL = auto()
    UNLISTED = auto()
    ROUNDED = auto()


INTERNAL = Mark.INTERNAL
"""The field is not serialized."""

UNLISTED = Mark.UNLISTED
"""The field is serialized but left out of schemas."""

Score = Annotated[float, Mark.ROUNDED]
"""A relevance score, rounded to four digits in answers: further ones are noise."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class _ValueMeta(msgspec.StructMeta):
    """Sets options on every subclass, as msgspec structs do not inherit them."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> _ValueMeta:
        options = {"frozen": True, "kw_only": True, **options}
        return cast("_ValueMeta", super().__new__(cls, name, bases, namespace, **options))


class Value(msgspec.Struct, metaclass=_ValueMeta):
    """A frozen struct. With `omit_defaults=True` its JSON omits fields that equal their default."""


def replace(value: T, /, **changes: Any) -> T:
    """Return a copy of a struct or dataclass with some fields changed."""
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **changes)
    return dataclasses.replace(cast("Any", value), **changes)


def derived(kind: type[V], *sources: object, **fields: Any) -> V:
    """Return a struct with the given fields, and others from the first source that has them."""
    found = dict(fields)
    for source in sources:
        for name in kind.__struct_fields__:
            if name not in found and hasattr(source, name):
                found[name] = getattr(source, name)
    return kind(**found)


class computed(property):  # noqa: N801 it is used as `property` is
    """A property that is serialized with the fields."""


def plain(value: Any) -> Any:
    """Return a value as JSON-compatible types; times are RFC 3339 in UTC."""
    if isinstance(value, Value):
        return {
            name: read(getattr(value, name)) if read else getattr(value, name)
            for name, read, default in _encoders(type(value))
            if default is _ALWAYS or getattr(value, name) != default
        }
    if isinstance(value, tuple | list):
        return [plain(each) for each in cast("tuple[Any, ...]", value)]
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(name): plain(each) for name, each in items}
    return format_time(value) if isinstance(value, datetime) else value


_ALWAYS: Any = object()
"""Sentinel: the field is never omitted, as no value equals it."""

_PLAIN = (str, int, float, bool)
"""Types that are serialized as they are."""


def defaults_of(kind: type[Value]) -> dict[str, Any]:
    """Return the defaults of fields that have one, in field order."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    # Defaults belong to the last fields; keyword-only fields without one have NODEFAULT in between.
    given = zip(names[len(names) - len(defaults) :], defaults, strict=True)
    return {
        name: default.factory() if hasattr(default, "factory") else default
        for name, default in given
        if default is not msgspec.NODEFAULT
    }


def computed_hints(kind: type[Value]) -> dict[str, Any]:
    """Return the annotations of the computed properties, by name."""
    found = {name: getattr(kind, name) for name in dir(kind)}
    return {
        name: get_type_hints(each.fget, include_extras=True)["return"]
        for name, each in found.items()
        if isinstance(each, computed)
    }


@cache
def _encoders(kind: type[Value]) -> tuple[tuple[str, Callable[[Any], Any] | None, Any], ...]:
    """Return the name, the encoder and the omitted default of each field of the JSON."""
    hints = get_type_hints(kind, include_extras=True)
    omitted = defaults_of(kind) if kind.__struct_config__.omit_defaults else {}
    fields = [
        (name, _encoder(hints[name]), omitted.get(name, _ALWAYS))
        for name in kind.__struct_fields__
        if INTERNAL not in marks_of(hints[name])
    ]
    # A computed property has no default: with `omit_defaults` it is omitted when it is None.
    left_out = None if kind.__struct_config__.omit_defaults else _ALWAYS
    own = computed_hints(kind).items()
    return (*fields, *((name, _encoder(hint), left_out) for name, hint in own))


def marks_of(hint: Any) -> tuple[Any, ...]:
    """Return the metadata of an `Annotated` type."""
    return getattr(hint, "__metadata__", ())


def _encoder(hint: Any) -> Callable[[Any], Any] | None:
    if Mark.ROUNDED in marks_of(hint):
        return _round
    return None if hint in _PLAIN else plain


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, SCORE_DIGITS)
