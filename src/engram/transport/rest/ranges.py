"""Which bytes of a representation a request asks for (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re

from starlette.types import Scope

from engram.model.document import ByteRange
from engram.transport.rest.headers import header

_ONE_RANGE = re.compile(r"bytes=[ \t]*(\d*)-(\d*)[ \t]*", re.ASCII)
_DIGITS_MAX = 20
"""More could not be a place in any document, and numbers of any length cost time."""


class UnsatisfiableRangeError(Exception):
    """The range begins past the end."""


def asked_range(scope: Scope, *, etag: str, size_bytes: int) -> ByteRange | None:
    """Return the range that a request asks for, None for all bytes.

    Several ranges at once, other units and what is no range at all are answered with everything,
    as RFC 9110 allows.

    Raises:
        UnsatisfiableRangeError: no byte of it exists.
    """
    found = _ONE_RANGE.fullmatch(header(scope, b"range") or "")
    if found is None or not _is_for(scope, etag):
        return None
    first, last = found.groups()
    if not (first or last) or max(len(first), len(last)) > _DIGITS_MAX:
        return None
    if not first:
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start, end = int(first), size_bytes if not last else min(int(last) + 1, size_bytes)
        if last and int(last) < start:
            return None
    if start >= size_bytes or start >= end:
        raise UnsatisfiableRangeError
    return ByteRange(start=start, end=end)


def is_known(scope: Scope, *, etag: str) -> bool:
    """Return True if a client asks only for what it does not have, and has this."""
    known = header(scope, b"if-none-match")
    if known is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or etag in tags


def _is_for(scope: Scope, etag: str) -> bool:
    """Return True if a range may be answered: not if it goes on with bytes of something else."""
    condition = header(scope, b"if-range")
    return condition is None or condition.strip() == etag
