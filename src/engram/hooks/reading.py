"""Read one JSON object from a stream that may be huge, broken, or never end."""

from __future__ import annotations

import json
import os
import select
import time

from engram import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engram.hooks.events import Payload

_READ_BYTES = 65_536


def read_object(descriptor: int, *, deadline: float) -> Payload:
    """Return the first JSON object of a stream, as soon as it is whole; empty if there is none.

    Some clients keep the stream open, so its end is not waited for.
    """
    data = bytearray()
    while len(data) <= limits.HOOK_INPUT_BYTES_MAX:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
            return {}
        chunk = os.read(descriptor, _READ_BYTES)
        data += chunk
        # What ends otherwise is not whole yet, and need not be parsed to know.
        is_candidate = data.rstrip().endswith(b"}") or not chunk
        if is_candidate and (found := _parse(data)) is not None:
            return found
        if not chunk:
            return {}
    return {}


def _parse(data: bytearray) -> Payload | None:
    try:
        text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
        value: Payload | None = json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else {}
