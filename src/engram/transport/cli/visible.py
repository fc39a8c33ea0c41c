"""Text for people to read; characters of stored text that cannot be seen are shown, never obeyed."""

from __future__ import annotations

from engram.text.escaping import PLAIN


def visible(text: str) -> str:
    """Return `text` with what cannot be seen escaped; tabs and ends of lines stay."""
    return PLAIN.text(text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return `text` on one line, with all that cannot be seen escaped."""
    return PLAIN.label(text)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 message`, `2,000 messages`, `2 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"
