"""What a program can act on in an error, beside its code: the same names over every transport."""

from __future__ import annotations

from typing import Any

from engram.errors import (
    AccessDeniedError,
    EngramError,
    InvalidRequestError,
    LimitExceededError,
    QuotaExceededError,
)


def error_facts(error: EngramError) -> dict[str, Any]:
    """Return the field, bound, scope or resource that an error is about."""
    match error:
        case LimitExceededError():
            facts = {"limit": error.limit, "actual": error.actual, "unit": error.unit}
            return {"field": error.field, **facts}
        case InvalidRequestError(field=str(name)):
            return {"field": name}
        case AccessDeniedError():
            return {"required": error.required}
        case QuotaExceededError():
            return {"resource": error.resource, "limit": error.limit}
        case _:
            return {}
