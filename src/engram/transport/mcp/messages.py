"""JSON-RPC messages as they arrive, read so that whatever is wrong with one can be answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from engram.errors import LimitExceededError
from engram.transport.bodies.texts import NotJsonError, prepare, restore
from engram.transport.mcp.lines import id_of_refused, usable_id


class UnreadableMessageError(Exception):
    """What arrived is no message; `answer` says so to whoever sent it."""

    def __init__(self, code: int, message: str, request_id: types.RequestId | None = None) -> None:
        super().__init__(message)
        error = types.ErrorData(code=code, message=message)
        self.answer = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def read_message(line: bytes) -> types.JSONRPCMessage:
    """Return the message on a line, after its shape was checked.

    Raises:
        UnreadableMessageError: it holds none, or one that is too deep or too large.
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
    """Return the message that `data` holds.

    Raises:
        UnreadableMessageError: it holds none.
    """
    message = _parse_strictly(data)
    return _parse_leniently(data) if message is None else message


def check_message(data: bytes) -> None:
    """Refuse what the SDK's own parser would refuse, or take for something else.

    Raises:
        UnreadableMessageError: it is no message, or holds a text that UTF-8 cannot.
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
