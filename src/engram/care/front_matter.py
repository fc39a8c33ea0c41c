"""Markdown files with a header: each line of it is a name and a JSON value, which is YAML too.

What follows the header is the text itself, byte for byte, up to the end of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from engram.errors import InvalidRequestError

FENCE = "---"
_BEGIN = f"{FENCE}\n".encode()
_END = f"\n{FENCE}\n".encode()
_NAME = re.compile(r"[a-z_]+")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""What JSON leaves as it is and YAML does not take: controls, marks and its own ends of lines."""


def write_page(header: Mapping[str, Any], text: str = "") -> bytes:
    """Return a file with a header and a text."""
    lines = [f"{name}: {_as_json(value)}" for name, value in header.items()]
    return "\n".join((FENCE, *lines, FENCE, text)).encode()


def read_page(content: bytes) -> tuple[dict[str, Any], str]:
    """Return the header and the text of a file that `write_page` made.

    Raises:
        InvalidRequestError: it is no such file.
    """
    header, found, text = content.removeprefix(_BEGIN).partition(_END)
    if not content.startswith(_BEGIN) or not found:
        raise InvalidRequestError("begins with no header between two lines of ---")
    try:
        return dict(map(_read_line, header.decode().split("\n"))), text.decode()
    except UnicodeDecodeError as exc:
        raise InvalidRequestError("is no UTF-8 text") from exc


def has_header(content: bytes, *, name: str) -> bool:
    """Return True if a file begins with a header whose first line is called `name`."""
    return content.startswith(_BEGIN + f"{name}: ".encode())


def _as_json(value: object) -> str:
    written = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _read_line(line: str) -> tuple[str, Any]:
    name, colon, value = line.partition(": ")
    if not colon or not _NAME.fullmatch(name):
        raise InvalidRequestError("has a line in its header that is no 'name: value'")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError) as exc:
        raise InvalidRequestError("is no JSON value", field=name) from exc
