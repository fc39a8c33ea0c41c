"""Enclose stored texts in an XML block that none of them can break out of, within a token budget.

Every line of a stored text begins with `| `, and no other line does. Invisible characters and lookalikes of
XML markup become character references (`&#x202E;`), which a parser turns back; those that XML cannot
represent, such as NUL, become placeholders (`[U+0000]`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engram.text.excerpts import cut, longest
from engram.text.quoting import CONTINUED, FIRST_LINE, Escaping
from engram.text.tokens import beginning, count_tokens

CUT_TOKENS_MIN = 20
"""A text is omitted if less than this of it would fit."""

_BEGIN, _END = "<memory_context>", "</memory_context>"
_MARKS = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_QUOTES = {'"': "&quot;", "'": "&#x27;"}
"""Mean something in attributes alone; in texts, references would cost bytes and blur what was said."""

_LIKE_MARKS = "\uff06\ufe60\uff1c\ufe64\u226e\uff1e\ufe65\u226f"
"""Characters that some readers normalize to XML markup."""


class FencedText(NamedTuple):
    """A stored text and its attributes; their names are trusted, their values are not."""

    attributes: Mapping[str, str]
    content: str
    characters_left_out: int = 0
    """How much longer the stored text is, if `content` is only its beginning."""


class Fenced(NamedTuple):
    """A block, and how much of the texts it contains."""

    text: str
    shown: tuple[int, ...]
    """The number of characters shown of each text in the block."""
    omitted: int
    """The number of texts that are not in the block."""

    @property
    def used_tokens(self) -> int:
        """Return the cost of the block."""
        return count_tokens(self.text)


def fence(texts: Sequence[FencedText], *, token_budget: int, head: Sequence[str] = ()) -> Fenced:
    """Return one block with as many of the first texts as fit the budget.

    The first text that does not fit is cut, with a note, if at least `CUT_TOKENS_MIN` fit; those
    after it are omitted, and a last line states how many.

    Args:
        head: trusted lines before the texts; they are left out if they take more than half the room.
    """
    room = token_budget - count_tokens(_block([_omission(len(texts))]))
    head_tokens = sum(map(_cost, head))
    if head_tokens > room // 2:
        head, head_tokens = (), 0
    room -= head_tokens
    items: list[str] = []
    shown: list[int] = []
    for text in texts:
        characters = _fitting(text, room)
        if characters is None:
            break
        items.append(_item(text, characters))
        shown.append(characters)
        room -= _cost(items[-1])
        if characters < len(text.content):
            break
    omitted = len(texts) - len(shown)
    lines = [*head, *items, *([_omission(omitted)] if omitted else [])]
    return Fenced(text=_block(lines), shown=tuple(shown), omitted=omitted)


def empty_element(name: str, attributes: Mapping[str, str]) -> str:
    """Return an XML element without content; its name and those of its attributes are trusted."""
    return f"<{name}{_named(attributes)}/>"


def escape(text: str) -> str:
    """Escape a text for an XML element, including invisible characters."""
    return _IN_ELEMENT.text(text)


def _block(lines: Sequence[str]) -> str:
    return "\n".join((_BEGIN, FIRST_LINE, *lines, _END))


def _omission(count: int) -> str:
    return f"Omitted for want of room: {count}."


def _item(text: FencedText, characters: int) -> str:
    """Return a text as an element that shows its first `characters`."""
    attributes = dict(text.attributes)
    stored = len(text.content) + text.characters_left_out
    if characters < stored:
        attributes["shown"] = f"{characters} of {stored} characters"
    return f"<item{_named(attributes)}>{_quoted(text.content[:characters])}\n</item>"


def _named(attributes: Mapping[str, str]) -> str:
    return "".join(f' {name}="{_IN_ATTRIBUTE.label(value)}"' for name, value in attributes.items())


def _fitting(text: FencedText, room: int) -> int | None:
    """Return how many characters of a text fit; None if it is to be omitted."""
    fitting = longest(
        # Escaping makes nothing cheaper, so what is too long already need not be escaped.
        beginning(text.content, room),
        cost=lambda characters: _cost(_item(text, characters)),
        tokens_max=room,
    )
    if fitting < len(text.content):
        shown = cut(text.content, fitting).text
        return len(shown) if count_tokens(shown) >= CUT_TOKENS_MIN else None
    return fitting if _cost(_item(text, fitting)) <= room else None


def _cost(item: str) -> int:
    """Return the tokens of an item and of the line break before it."""
    return count_tokens(item) + 1


def _quoted(content: str) -> str:
    return CONTINUED + escape(content).replace("\n", CONTINUED)


def _reference(code: int) -> str:
    return f"&#x{code:X};" if _is_in_xml(code) else f"[U+{code:04X}]"


def _is_in_xml(code: int) -> bool:
    """Return True if XML allows a character."""
    if code < 0x20:
        return code in {0x9, 0xA, 0xD}
    return not (0xD800 <= code <= 0xDFFF or code in {0xFFFE, 0xFFFF})


_IN_ELEMENT_MARKS = _MARKS | {mark: _reference(ord(mark)) for mark in _LIKE_MARKS}
_IN_ELEMENT = Escaping(_reference, marks=_IN_ELEMENT_MARKS)
_IN_ATTRIBUTE = Escaping(_reference, marks=_IN_ELEMENT_MARKS | _QUOTES)
