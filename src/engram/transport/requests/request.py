"""A request of any transport, and what is said when it cannot be read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from engram.errors import InvalidRequestError, LimitExceededError


class Request(BaseModel):
    """A request that refuses arguments nobody knows."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def invalid_request(exc: ValidationError) -> InvalidRequestError:
    """Return what pydantic found first, as our error: the field's path and what it must be."""
    error = exc.errors(include_url=False)[0]
    field = _path(error["loc"])
    match error["type"]:
        case "extra_forbidden":
            return InvalidRequestError("is not a known argument", field=field)
        case "too_long" | "string_too_long":
            unit = "characters" if error["type"] == "string_too_long" else "items"
            bound, actual = error.get("ctx", {})["max_length"], len(error["input"])
            return LimitExceededError(field, limit=bound, actual=actual, unit=unit)
        case _:
            return InvalidRequestError(error["msg"], field=field or None)


def _path(location: tuple[int | str, ...]) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).lstrip(".")
