"""What tool calls and failures look like on the wire."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from engram.errors import (
    AccessDeniedError,
    ConflictError,
    EngramError,
    InvalidRequestError,
    NotFoundError,
)
from engram.text.quoting import label
from engram.transport.facts import error_facts

ERROR_KEY = "engram/error"
"""Where a failed call's `_meta` holds its code and facts. Not the structured content: clients hold
that to the tool's output schema even when the call failed."""

MASKED = "internal_error: Engram failed; its log says why"
"""All that a client learns of a failure nobody expected."""

_CALLERS_FAULT = (InvalidRequestError, NotFoundError, AccessDeniedError, ConflictError)


def call_result(text: str, **fields: Any) -> dict[str, Any]:
    """Return the result of a tool call.

    A plain object: the SDK checks it against the protocol anyway, and would only take a model of
    its own apart before.
    """
    content = [{"type": "text", "text": text}]
    return {"content": content, "resultType": "complete", **fields}


def failed_call(error: EngramError) -> dict[str, Any]:
    """Return the result of a tool call that failed with `error`."""
    facts = {ERROR_KEY: _facts(error)}
    return call_result(f"{error.code}: {label(str(error))}", isError=True, _meta=facts)


def masked_call() -> dict[str, Any]:
    """Return the result of a tool call that failed for a reason of ours."""
    return call_result(MASKED, isError=True)


def protocol_error(error: EngramError, **facts: str) -> MCPError:
    """Return `error` for requests other than tool calls."""
    code = types.INVALID_PARAMS if isinstance(error, _CALLERS_FAULT) else types.INTERNAL_ERROR
    return MCPError(code=code, message=label(str(error)), data={**_facts(error), **facts})


def _facts(error: EngramError) -> dict[str, Any]:
    facts = {"code": error.code, **error_facts(error)}
    return {
        name: _sendable(fact) if isinstance(fact, str) else fact for name, fact in facts.items()
    }


def _sendable(text: str) -> str:
    """Show the lone surrogates in a caller's own words, which no answer can carry."""
    return text.encode(errors="backslashreplace").decode()
