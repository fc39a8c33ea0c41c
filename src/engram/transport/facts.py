"""What a program can act on in an error, beside its code: the same names over every transport."""

from __future__ import annotations

from typing import Any

from engram.errors import (
    AccessDeniedError,
    EngramError,
    InvalidRequestError,
    LimitExceededError,
    NotTextError,
    QuotaExceededError,
    ToolsetDeniedError,
)


def error_facts(error: EngramError) -> dict[str, Any]:
    """Return the field, bound, scope, toolset or resource that an error is about."""
    match error:
        case LimitExceededError():
            facts = {"limit": error.limit, "actual": error.actual, "unit": error.unit}
            return {"field": error.field, **facts}
        case NotTextError():
            return {**_field(error), "offset_bytes": error.offset_bytes}
        case InvalidRequestError():
            return _field(error)
        case AccessDeniedError():
            kind = "toolset" if isinstance(error, ToolsetDeniedError) else "required"
            return {kind: error.required}
        case QuotaExceededError():
            facts = {"limit": error.limit, "used": error.used, "needed": error.needed}
            return {"resource": error.resource, **facts}
        case _:
            return {}


def _field(error: InvalidRequestError) -> dict[str, Any]:
    return {} if error.field is None else {"field": error.field}
