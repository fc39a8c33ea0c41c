"""Remove the parts of a text that lie between two tags.

`<private>` marks what its writer wants nobody to keep; `<memory_context>` and `<hook_context>` enclose what
Engram, or a client for it, put into a prompt. A text without such a part is returned as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

PRIVATE = "[private]"
"""Stands where a private part was, so that the texts around it do not join to another tag."""

_PRIVATE_TAG = re.compile(r"<(?P<end>/?)private(?:\s[^<>]*)?>", re.IGNORECASE)

_INJECTION_TAG = re.compile(
    r"(?P<mark><|&lt;|&#0*60;|&#x0*3c;|\\u003c)(?P<end>/?)(?P<name>memory_context|hook_context)"
    r"(?:>|&gt;|&#0*62;|&#x0*3e;|\\u003e)(?P<line>(?:\r?\n|\\n)?)",
    re.IGNORECASE,
)
_OWN = "memory_context"
_JOINT = " "
"""Between what stood before and after an injection; no line break, which would make an opening of a mention."""


class _Part(NamedTuple):
    """A range of characters between two tags, with the tags."""

    start: int
    end: int


def without_private(text: str) -> str:
    """Replace everything between `<private>` and its end by `[private]`.

    A part that is not closed reaches to the end of the text; one inside another does not end it.
    """
    return PRIVATE.join(_outside(text, _private_parts(text)))


def without_injections(text: str) -> str:
    """Remove what Engram, or a client for it, added to a text: raw, escaped, or cut off.

    A `<memory_context>` with text behind it on its line is someone's mention of it, and stays.
    """
    kept = _outside(text, _injected_parts(text))
    if len(kept) == 1:
        return text
    return _JOINT.join(filter(None, (piece.strip() for piece in kept)))


def _private_parts(text: str) -> Iterator[_Part]:
    depth, start = 0, 0
    for tag in _PRIVATE_TAG.finditer(text):
        if not tag["end"]:
            start = start if depth else tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if not depth:
                yield _Part(start, tag.end())
    if depth:
        yield _Part(start, len(text))


def _injected_parts(text: str) -> Iterator[_Part]:
    opening: re.Match[str] | None = None
    depth = 0
    for tag in _INJECTION_TAG.finditer(text):
        if opening is None:
            if _opens(tag):
                opening, depth = tag, 1
        # Tags that are escaped otherwise belong to the stored text inside, and do not end a block.
        elif _kind(tag) == _kind(opening) and (tag["end"] or _opens(tag)):
            depth += -1 if tag["end"] else 1
            if not depth:
                yield _Part(opening.start(), tag.end())
                opening = None
    if opening is not None:
        yield _Part(opening.start(), len(text))


def _opens(tag: re.Match[str]) -> bool:
    return not tag["end"] and (tag["name"].lower() != _OWN or bool(tag["line"]))


def _kind(tag: re.Match[str]) -> tuple[str, str]:
    return tag["mark"].lower(), tag["name"].lower()


def _outside(text: str, parts: Iterator[_Part]) -> list[str]:
    """Return the texts before, between and after the parts."""
    kept, end = list[str](), 0
    for part in parts:
        kept.append(text[end : part.start])
        end = part.end
    return [*kept, text[end:]]
