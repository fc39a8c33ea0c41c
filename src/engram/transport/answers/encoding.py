"""The JSON of an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, cast

import orjson

from engram.offload import offload

_SLICE_CHARACTERS = 1_000_000
"""Of a text written at once, some 10 ms: no other thread can run meanwhile."""


def to_json(answer: object) -> bytes:
    """Return an answer's JSON; a long one is written in parts, so that other threads can run."""
    is_long = characters_of(answer) > _SLICE_CHARACTERS
    return b"".join(_parts(answer)) if is_long else _at_once(answer)


async def encode_answer(answer: object) -> bytes:
    """Return an answer's JSON; a long one does not hold up the event loop."""
    return await offload(partial(to_json, answer), characters=characters_of(answer))


def characters_of(value: object) -> int:
    """Return the characters of all texts in an answer."""
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
        # Metadata may hold whole numbers of any size, and ids lone surrogates: orjson writes neither.
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
    # Each character is escaped for itself, so slices join to what the whole text would be.
    yield b'"'
    for start in range(0, len(text), _SLICE_CHARACTERS):
        yield _at_once(text[start : start + _SLICE_CHARACTERS])[1:-1]
    yield b'"'
