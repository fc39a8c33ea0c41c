"""Text for people to read; the control characters of stored text are shown, never obeyed."""

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


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 message`, `2,000 messages`, `2 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _SHORT.get(character, f"\\x{ord(character):02x}")
