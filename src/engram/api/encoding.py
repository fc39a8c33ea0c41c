"""Serialization of answers and of error details, shared by all transports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, cast

import orjson

from engram import errors
from engram.model.value import plain
from engram.text.quoting import IN_JSON
from engram.yielding import offload

_SLICE_CHARACTERS = 1_000_000
"""Text encoded in one call, which holds the GIL for some 10 ms."""


def to_json(answer: object) -> bytes:
    """Serialize an answer; a long one in slices, between which other threads can run."""
    is_long = characters_of(answer) > _SLICE_CHARACTERS
    return b"".join(_parts(answer)) if is_long else _at_once(answer)


def answer_text(answer: object) -> str:
    """Return the text of a tool's result: JSON with invisible characters escaped."""
    return IN_JSON.text(to_json(plain(answer)).decode())


async def encode_answer(answer: object) -> bytes:
    """Serialize an answer; a long one off the event loop."""
    return await offload(partial(to_json, answer), characters=characters_of(answer))


def characters_of(value: object) -> int:
    """Return the total length of all strings in an answer."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(characters_of, cast("Mapping[str, Any]", value).values()))
    if isinstance(value, list | tuple):
        return sum(map(characters_of, cast("list[Any]", value)))
    return 0


def _at_once(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # orjson rejects integers above 64 bits, which metadata may have, and lone surrogates in ids.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _parts(value: object) -> Iterator[bytes]:
    if isinstance(value, str):
        yield from _text_parts(value)
    elif isinstance(value, dict):
        yield b"{"
        for place, (name, each) in enumerate(cast("dict[str, Any]", value).items()):
            yield (b"," if place else b"") + _at_once(name) + b":"
            yield from _parts(each)
        yield b"}"
    elif isinstance(value, list | tuple):
        yield b"["
        for place, each in enumerate(cast("list[Any]", value)):
            yield b"," if place else b""
            yield from _parts(each)
        yield b"]"
    else:
        yield _at_once(value)


def _text_parts(text: str) -> Iterator[bytes]:
    if len(text) <= _SLICE_CHARACTERS:
        yield _at_once(text)
        return
    # JSON escapes each character independently, so encoded slices can be concatenated.
    yield b'"'
    for start in range(0, len(text), _SLICE_CHARACTERS):
        yield _at_once(text[start : start + _SLICE_CHARACTERS])[1:-1]
    yield b'"'


def error_details(error: errors.EngramError) -> dict[str, Any]:
    """Return the machine-readable details of an error: field, limit, scope, toolset or resource."""
    match error:
        case errors.LimitExceededError():
            bound = {"limit": error.limit, "actual": error.actual, "unit": error.unit}
            return {"field": error.field, **bound}
        case errors.NotTextError():
            return {**_field(error), "offset_bytes": error.offset_bytes}
        case errors.InvalidRequestError():
            return _field(error)
        case errors.AccessDeniedError():
            kind = "toolset" if isinstance(error, errors.ToolsetDeniedError) else "required"
            return {kind: error.required}
        case errors.QuotaExceededError():
            quota = {"limit": error.limit, "used": error.used, "needed": error.needed}
            return {"resource": error.resource, **quota}
        case _:
            return {}


def _field(error: errors.InvalidRequestError) -> dict[str, Any]:
    return {} if error.field is None else {"field": error.field}
