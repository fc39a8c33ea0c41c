"""A request of any transport, and what is said when it cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from engram.errors import InvalidRequestError, LimitExceededError
from engram.transport.nearest import shortened

Location: TypeAlias = tuple[int | str, ...]
"""Where in a request a value is: the names of fields and the numbers of items."""

_Place: TypeAlias = "tuple[_Place, int | str] | None"
"""Where a value is: what holds it, and under which name or number."""


class Request(BaseModel):
    """A request that refuses arguments nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def invalid_request(
    exc: ValidationError, *, explain: Callable[[Location], str] | None = None
) -> InvalidRequestError:
    """Return what pydantic found first, as our error: the field's path and what it must be.

    `explain` says of an argument nobody knows which was meant.
    """
    error = exc.errors(include_url=False)[0]
    field = _path(error["loc"])
    match error["type"]:
        case "extra_forbidden":
            unknown = "is not a known argument" if explain is None else explain(error["loc"])
            return InvalidRequestError(unknown, field=field)
        case "too_long" | "string_too_long":
            unit = "characters" if error["type"] == "string_too_long" else "items"
            bound, actual = error.get("ctx", {})["max_length"], len(error["input"])
            return LimitExceededError(field, limit=bound, actual=actual, unit=unit)
        case _:
            return InvalidRequestError(error["msg"], field=field or None)


def check_encodable(arguments: Mapping[str, Any]) -> None:
    """Refuse lone surrogates, which JSON can write and UTF-8 cannot, wherever they are.

    Raises:
        InvalidRequestError: a text or the name of a field holds one; names the field.
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
        message = f"character {exc.start} is a lone surrogate, which no UTF-8 text can hold"
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
