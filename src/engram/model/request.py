"""Requests: structs that validate themselves when they are constructed.

`parse` builds one from JSON, a query string or the command line: it converts types, rejects unknown
fields, and leaves bounds to the constructor. Errors name the field and what it must be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cache, partial
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast, get_type_hints

import msgspec

from engram.errors import InvalidRequestError
from engram.model.fields import check_choice, check_moment, is_near, nearest, shortened
from engram.model.shape import Constraint, Field, Kind, Shape, fields_of
from engram.model.value import Value, defaults_of

R = TypeVar("R", bound="Request")
Mode = Literal["exact", "lenient"]
Read = Callable[[Shape, Any, "Reading"], Any]
Check = Callable[[Any], None]

Location: TypeAlias = tuple[int | str, ...]
"""Path of a value in a request: field names and list indexes."""

_Place: TypeAlias = "tuple[_Place, int | str] | None"
"""The same as a linked list: the place of the container, and the name or index in it. Nothing is
copied per value; the path is built only for an error."""

NOTHING: Mapping[str, Any] = MappingProxyType({})

_Meta: Callable[..., type] = type(Value)

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
# `int` raises ValueError for a string of more than 4,300 digits.
_WHOLE = re.compile(r"\s*[+-]?\d{1,4300}(\.0*)?\s*", re.ASCII)
_TRUE = frozenset(("1", "true", "t", "yes", "y", "on"))
_FALSE = frozenset(("0", "false", "f", "no", "n", "off"))


class Reading(Value):
    """Options of a parse."""

    is_lenient: bool
    kind: str
    """The word for a field in an error about an unknown one."""


class Request(Value):
    """A struct whose constructor enforces the bounds of its fields."""

    needs_a_field: ClassVar[bool] = False
    """True if every field is optional but at least one must be given."""

    def __post_init__(self) -> None:
        for name, check in _checks(type(self)):
            value = getattr(self, name)
            if value is not None and value is not msgspec.UNSET:
                check(value)
        self.check()

    def check(self) -> None:
        """Validate fields against each other; subclasses override it."""


def subset(request: type[Request], names: Collection[str]) -> type[Request]:
    """Return a request with some of the fields of another, in their own order."""
    hints, defaults = get_type_hints(request, include_extras=True), defaults_of(request)
    given = {name: defaults[name] for name in names if name in defaults}
    namespace = {
        "__module__": request.__module__,
        "__annotations__": {name: hints[name] for name in names},
        **given,
    }
    return cast("type[Request]", _Meta(f"{request.__name__}Subset", (Request,), namespace))


def parse(
    request: type[R],
    given: object,
    *,
    mode: Mode = "exact",
    fixed: Mapping[str, Any] = NOTHING,
    aliases: Mapping[str, str] = NOTHING,
    kind: str = "argument",
) -> R:
    """Parse and validate a request.

    Args:
        request: the type of the request.
        given: a parsed JSON object.
        mode: lenient accepts "5" for 5 and "yes" for true, as in query strings and from some models.
        fixed: fields that come from elsewhere, such as a path; `given` must not contain them.
        aliases: names of fields in `given` that differ from their own.
        kind: the word for a field in an error about an unknown one.

    Raises:
        InvalidRequestError: a field is missing, unknown, of the wrong type or out of bounds.
    """
    reading = Reading(is_lenient=mode == "lenient", kind=kind)
    return _parse(request, given, reading, fixed=fixed, aliases=aliases)


def _parse(
    request: type[R],
    given: object,
    reading: Reading,
    *,
    fixed: Mapping[str, Any] = NOTHING,
    aliases: Mapping[str, str] = NOTHING,
) -> R:
    if not isinstance(given, dict):
        raise InvalidRequestError("must be an object")
    raw = cast("dict[str, Any]", given)
    values = dict(fixed)
    fields = {
        aliases.get(name, name): field
        for name, field in fields_of(request).items()
        if name not in values
    }
    unknown = [name for name in raw if name not in fields]
    for name, field in fields.items():
        if name in raw:
            values[field.name] = _read_field(field, raw[name], reading, name)
        elif field.is_required:
            # A misspelled field is also a missing one, and its spelling is the remedy.
            for given_name in unknown:
                if is_near(given_name, name):
                    raise _unknown(given_name, fields, reading.kind)
            raise InvalidRequestError("is required", field=name)
    for name in unknown:
        raise _unknown(name, fields, reading.kind)
    try:
        return request(**values)
    except InvalidRequestError as exc:
        # The constructor knows fields by their own names; the caller used the alias.
        exc.field = aliases.get(exc.field or "", exc.field)
        raise


def _unknown(name: str, fields: Mapping[str, Field], kind: str) -> InvalidRequestError:
    message = f"is not a known {kind}; {nearest(name, fields)}"
    return InvalidRequestError(message, field=shortened(name))


def _read_field(field: Field, value: Any, reading: Reading, name: str) -> Any:
    shape = field.shape
    if value is None and shape.is_nullable:
        return None
    try:
        return _READ[shape.kind](shape, value, reading)
    except InvalidRequestError as exc:
        exc.prefix_field(name)
        raise


def _text(_: Shape, value: Any, _reading: Reading) -> str:
    if not isinstance(value, str):
        raise InvalidRequestError("must be a string")
    return value


def _whole(_: Shape, value: Any, reading: Reading) -> int:
    if isinstance(value, int) and (reading.is_lenient or not isinstance(value, bool)):
        return int(value)
    if isinstance(value, float) and value.is_integer():  # 5.0 and 5 are one number in JSON
        return int(value)
    if reading.is_lenient and isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value.strip().partition(".")[0])
    raise InvalidRequestError("must be a whole number")


def _number(_: Shape, value: Any, reading: Reading) -> float:
    if isinstance(value, int | float) and (reading.is_lenient or not isinstance(value, bool)):
        return _to_float(value)
    if reading.is_lenient and isinstance(value, str):
        return _to_float(value)
    raise InvalidRequestError("must be a number")


def _to_float(value: float | str) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError) as exc:
        raise InvalidRequestError("must be a number") from exc


def _flag(_: Shape, value: Any, reading: Reading) -> bool:
    if isinstance(value, bool):
        return value
    if reading.is_lenient and isinstance(value, str | int | float):
        spelled = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if spelled.lower() in _TRUE:
            return True
        if spelled.lower() in _FALSE:
            return False
    raise InvalidRequestError("must be true or false")


def _choice(shape: Shape, value: Any, _reading: Reading) -> Any:
    if not isinstance(value, str) or value not in shape.choices:
        raise InvalidRequestError(f"must be one of {', '.join(map(str, shape.choices))}")
    return value


def _moment(shape: Shape, value: Any, _reading: Reading) -> datetime:
    if isinstance(value, datetime):
        return value
    if shape.takes_days and isinstance(value, str) and _DAY.fullmatch(value):
        value = f"{value}T00:00:00Z"
    try:
        # RFC 3339 allows a lower-case z, which `fromisoformat` rejects.
        return datetime.fromisoformat(cast("str", value).upper())
    except (ValueError, AttributeError, TypeError) as exc:
        message = "must be a time such as 2026-01-02T03:04:05Z"
        raise InvalidRequestError(message) from exc


def _list(shape: Shape, value: Any, reading: Reading) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidRequestError("must be a list")
    item = shape.items
    read, values = _READ[item.kind], list[Any]()
    for index, each in enumerate(cast("list[Any]", value)):
        try:
            values.append(read(item, each, reading))
        except InvalidRequestError as exc:
            exc.prefix_field(f"[{index}]")
            raise
    return tuple(values)


def _struct(shape: Shape, value: Any, reading: Reading) -> Any:
    struct = cast("type[Request]", shape.struct)
    return value if isinstance(value, struct) else _parse(struct, value, reading)


def _object(_: Shape, value: Any, _reading: Reading) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidRequestError("must be an object")
    return cast("dict[str, Any]", value)


def _any(_: Shape, value: Any, _reading: Reading) -> Any:
    return value


_READ: Mapping[Kind, Read] = {
    "text": _text,
    "whole": _whole,
    "number": _number,
    "flag": _flag,
    "choice": _choice,
    "moment": _moment,
    "list": _list,
    "struct": _struct,
    "object": _object,
    "any": _any,
}


@cache
def _checks(request: type[Request]) -> tuple[tuple[str, Check], ...]:
    """Return the validators of the fields that have bounds."""
    found = ((name, field_checks(name, field.shape)) for name, field in fields_of(request).items())
    return tuple((name, check) for name, checks_ in found for check in checks_)


def field_checks(name: str, shape: Shape) -> list[Check]:
    """Return the validators of one field."""
    found: list[Check] = [partial(each.check, name) for each in _constraints(shape)]
    if shape.kind == "list" and (own := _constraints(shape.items)):
        found.append(partial(_check_items, name, own))
    return found


def _constraints(shape: Shape) -> tuple[Constraint, ...]:
    """Return the constraints of a value, including those implied by its type."""
    match shape.kind:
        case "moment":
            return (*shape.constraints, Moment())
        case "choice":
            return (*shape.constraints, Choice(shape.choices))
        case _:
            return shape.constraints


def _check_items(name: str, constraints: tuple[Constraint, ...], values: tuple[Any, ...]) -> None:
    for index, value in enumerate(values):
        for each in constraints:
            each.check(f"{name}[{index}]", value)


class Moment:
    """A timestamp with a time zone."""

    def check(self, field: str, value: datetime) -> None:
        check_moment(field, value)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {}


class Choice:
    """One of a few values."""

    def __init__(self, choices: tuple[Any, ...]) -> None:
        self._choices = choices

    def check(self, field: str, value: object) -> None:
        check_choice(field, value, self._choices)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {}


def check_encodable(arguments: Mapping[str, Any]) -> None:
    """Reject lone surrogates anywhere: JSON can escape them, UTF-8 cannot encode them.

    Raises:
        InvalidRequestError: a text or a field name contains one; names the field.
    """
    waiting: list[tuple[object, _Place]] = [(arguments, None)]
    while waiting:
        value, place = waiting.pop()
        if isinstance(value, str):
            _check_text(value, place)
        elif isinstance(value, dict):
            for name, item in cast("dict[str, object]", value).items():
                waiting += [(item, (place, name)), (name, (place, name))]
        elif isinstance(value, list):
            items = cast("list[object]", value)
            waiting += [(item, (place, index)) for index, item in enumerate(items)]


def _check_text(text: str, place: _Place) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        message = f"character {exc.start} is a lone surrogate, which UTF-8 cannot encode"
        raise InvalidRequestError(message, field=_path(_location(place))) from exc


def _location(place: _Place) -> Location:
    parts: list[int | str] = []
    while place is not None:
        place, part = place
        parts.append(part)
    return tuple(reversed(parts))


def _path(location: Location) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{shortened(part)}" for part in location)
    return "".join(parts).lstrip(".")
