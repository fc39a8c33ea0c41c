"""JSON-RPC messages: parsed so that whatever is wrong with one can be answered, and encoded.

Over HTTP the long texts of a message travel beside it, in the scope of the request that carried it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import anyio
import mcp_types as types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from engram.bodies.json_text import NotJsonError, Texts, prepare, restore
from engram.bodies.lines import id_of_refused, usable_id
from engram.errors import LimitExceededError

JSON = "application/json"
_TEXTS = "engram.texts"
_FINISHED = "engram.finished"


class UnreadableMessageError(Exception):
    """Input that is not a JSON-RPC message; `answer` is the error to send back."""

    def __init__(
        self,
        code: int,
        message: str,
        request_id: types.RequestId | None = None,
        *,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        error = types.ErrorData(code=code, message=message)
        if data is not None:
            # Only a field that was set is sent.
            error.data = data
        self.answer = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def read_message(line: bytes) -> types.JSONRPCMessage:
    """Parse the message on a line, after checking its shape.

    Raises:
        UnreadableMessageError: it is not a message, or one that is too deep or too large.
    """
    try:
        text = prepare(line)
    except NotJsonError as exc:
        raise UnreadableMessageError(types.PARSE_ERROR, f"Parse error: {exc}") from exc
    except LimitExceededError as exc:
        raise UnreadableMessageError(
            types.INVALID_REQUEST, f"Invalid request: {exc}", id_of_refused(line)
        ) from exc
    message = parse_message(bytes(text.data))
    if text.texts and isinstance(message, types.JSONRPCRequest | types.JSONRPCNotification):
        return message.model_copy(update={"params": restore(message.params, text.texts)})
    return message


def parse_message(data: bytes) -> types.JSONRPCMessage:
    """Parse a message.

    Raises:
        UnreadableMessageError: it is not one.
    """
    message = _parse_strictly(data)
    return _parse_leniently(data) if message is None else message


def check_message(data: bytes) -> None:
    """Validate a message that the SDK's own parser would refuse or misread.

    Raises:
        UnreadableMessageError: it is not a message, or contains a lone surrogate.
    """
    if _parse_strictly(data) is not None:
        return
    message = _parse_leniently(data)
    request_id = message.id if isinstance(message, types.JSONRPCRequest) else None
    reason = "a lone surrogate is part of no text"
    raise UnreadableMessageError(types.PARSE_ERROR, f"Parse error: {reason}", request_id)


def _parse_strictly(data: bytes) -> types.JSONRPCMessage | None:
    try:
        message = types.jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError:
        return None
    # A request whose id is of a wrong type would pass for a notification, and get no answer.
    is_doubtful = isinstance(message, types.JSONRPCNotification) and b'"id"' in data
    return None if is_doubtful else message


def encode_message(message: types.JSONRPCMessage) -> bytes:
    """Return a message as JSON; lone surrogates in it, such as those of an id, come as escapes."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except PydanticSerializationError:
        content = message.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(content, separators=(",", ":")).encode()


def error_response(error: UnreadableMessageError, *, status: int = 400) -> Response:
    """Return the HTTP response to input that is not a message."""
    return Response(encode_message(error.answer), status_code=status, media_type=JSON)


def _parse_leniently(data: bytes) -> types.JSONRPCMessage:
    """Read what the strict parser refuses, such as lone surrogates, so that a tool can name it."""
    try:
        decoded: object = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise UnreadableMessageError(types.PARSE_ERROR, f"Parse error: {exc}") from exc
    given = cast("dict[str, Any]", decoded) if isinstance(decoded, dict) else {}
    try:
        message = types.jsonrpc_message_adapter.validate_python(given, by_name=False)
    except ValidationError as exc:
        raise _not_a_message(given) from exc
    if isinstance(message, types.JSONRPCNotification) and "id" in given:
        raise _not_a_message(given)
    return message


def _not_a_message(given: Mapping[str, Any]) -> UnreadableMessageError:
    return UnreadableMessageError(
        types.INVALID_REQUEST, "not a JSON-RPC message", usable_id(given.get("id"))
    )


def with_texts(scope: Scope, texts: Texts) -> Scope:
    """Return a request's scope with the long texts that were taken out of its message."""
    return {**scope, _TEXTS: texts}


def texts_of(request: Request | None) -> Texts:
    """Return the long texts that were taken out of a message."""
    return {} if request is None else request.scope.get(_TEXTS, {})


def with_finish(scope: Scope) -> tuple[Scope, anyio.Event]:
    """Return a request's scope, and an event that happens when the call in its message is over."""
    finished = anyio.Event()
    return {**scope, _FINISHED: finished}, finished


def finish(request: Request | None) -> None:
    """Signal that a call is over."""
    finished = None if request is None else request.scope.get(_FINISHED)
    if finished is not None:
        finished.set()
