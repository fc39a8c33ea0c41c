"""Stored text made safe for a terminal: control characters are shown, never obeyed."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LINE_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    """Return `text` with its control characters escaped; tabs and ends of lines stay."""
    return _CONTROLS.sub(_escape, text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return `text` on one line, with all its control characters escaped."""
    return _LINE_CONTROLS.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT.get(character, f"\\x{ord(character):02x}")
