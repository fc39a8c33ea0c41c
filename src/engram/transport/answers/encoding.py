"""The JSON of an answer."""

from __future__ import annotations

import json

import orjson


def to_json(answer: object) -> bytes:
    """Return an answer's JSON."""
    try:
        return orjson.dumps(answer)
    except orjson.JSONEncodeError:
        # Metadata may hold whole numbers of any size, which orjson does not write.
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()
