"""Make texts that a pattern may take long over: what it repeats, without what it waits for.

They come from the pattern's own parse tree, and from a fixed list of shapes that trouble parsers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, pairwise
from typing import Any

_parser: Any = import_module("re._parser")
_codes: Any = import_module("re._constants")

SHAPES = (
    *(
        ".",
        "!",
        " ",
        "\t",
        "\n",
        "\r",
        "\r\n",
        "\\",
        '"',
        "'",
        "(",
        "[",
        "]",
        "{}",
        "<",
        ">",
        "<!---->",
    ),
    *(
        "<!--",
        "-->",
        "</",
        "<a ",
        "-",
        "#",
        "`",
        "~",
        "=",
        "*",
        "* ",
        "_",
        "- ",
        "+",
        "a",
        "A",
        "aA",
        "0",
    ),
    *(
        "0,",
        "1,000",
        "a.",
        "a-",
        "a b",
        " \n",
        "\n ",
        "\n\n",
        ". ",
        ".'",
        "\u3002",
        "\u4e2d",
        "\u00e9",
    ),
    *("\u0301", "\x00", "\x1b[", "\x1b[0", "&", ",", ":", "/*", "*/", "@", "a@", "://", "?", "%"),
)
"""Units that are repeated, whatever the pattern."""

_TAILS = ("", "\x00")
_SAMPLES = 3
_CANDIDATES = "a0A \n\t.-_\"'<>\u00e9\u4e2d\x00,:;/"
_CATEGORIES = {
    "CATEGORY_DIGIT": "0",
    "CATEGORY_SPACE": " \n",
    "CATEGORY_WORD": "a0",
    "CATEGORY_NOT_DIGIT": "a",
    "CATEGORY_NOT_SPACE": "a.",
    "CATEGORY_NOT_WORD": ". ",
}


@dataclass(frozen=True, slots=True)
class Hostile:
    """A text of any length: a unit repeated between a head and a tail."""

    head: str
    unit: str
    tail: str

    def text(self, size: int) -> str:
        """Return the text with about `size` characters."""
        return self.head + self.unit * (size // len(self.unit) + 1) + self.tail


def hostile_texts(pattern: re.Pattern[Any]) -> list[Hostile]:
    """Return texts to try on a pattern, each once."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    tree = _parser.parse(text, pattern.flags & ~re.UNICODE & ~re.DEBUG)
    pumps = list(dict.fromkeys(_pumps(tree, "")))
    wholes = [sample for sample in (_sample(tree, turn) for turn in range(_SAMPLES)) if sample]
    units = dict.fromkeys(
        [("", shape) for shape in SHAPES]
        + [(head, pump) for head, pump in pumps]
        + [("", head + pump) for head, pump in pumps if head]
        + [("", first + second) for (_, first), (_, second) in pairwise(pumps)]
        + [("", whole) for whole in wholes]
        + [("", whole[:-1]) for whole in wholes if len(whole) > 1]
    )
    return [Hostile(head, unit, tail) for head, unit in units for tail in _TAILS]


def _pumps(tree: Sequence[Any], head: str) -> Iterator[tuple[str, str]]:
    """Yield what is repeated anywhere in a pattern, after what has to stand before it."""
    for code, argument in tree:
        parts = _parts(code, argument)
        if _is_repeat(code):
            for turn in range(_SAMPLES):
                unit = _sample(parts[0], turn)
                if unit:
                    yield head, unit
        yield from chain.from_iterable(_pumps(part, head) for part in parts)
        head += _sample([(code, argument)], 0)


def _sample(tree: Sequence[Any], turn: int) -> str:
    """Return a text that a pattern matches, about; turns choose other characters and branches."""
    return "".join(_sample_one(code, argument, turn) for code, argument in tree)


def _sample_one(code: Any, argument: Any, turn: int) -> str:
    if code is _codes.LITERAL:
        return chr(argument)
    if code in {_codes.IN, _codes.NOT_LITERAL, _codes.ANY}:
        members = _members(code, argument)
        return members[turn % len(members)]
    if code in {_codes.ASSERT, _codes.ASSERT_NOT}:
        return ""
    parts = _parts(code, argument)
    if not parts:
        return ""
    sample = _sample(parts[turn % len(parts)], turn)
    return sample * max(argument[0], 1) if _is_repeat(code) else sample


def _parts(code: Any, argument: Any) -> list[Sequence[Any]]:
    """Return the patterns that a part of a pattern is made of."""
    if _is_repeat(code):
        return [argument[2]]
    if code is _codes.BRANCH:
        return list(argument[1])
    if code is _codes.SUBPATTERN:
        return [argument[3]]
    if code in {_codes.ASSERT, _codes.ASSERT_NOT}:
        return [argument[1]]
    return [argument] if code is _codes.ATOMIC_GROUP else []


def _is_repeat(code: Any) -> bool:
    return code in {_codes.MAX_REPEAT, _codes.MIN_REPEAT, _codes.POSSESSIVE_REPEAT}


def _members(code: Any, argument: Any) -> str:
    """Return some characters that a set holds."""
    if code is _codes.ANY:
        return "a\n "
    named = [(_codes.LITERAL, argument)] if code is _codes.NOT_LITERAL else argument
    is_negated = code is _codes.NOT_LITERAL or argument[0][0] is _codes.NEGATE
    members = "".join(_named(*each) for each in named)
    if not is_negated:
        return members
    return "".join(each for each in _CANDIDATES if not _holds(named, each)) or "\u2603"


def _named(code: Any, argument: Any) -> str:
    if code is _codes.LITERAL:
        return chr(argument)
    if code is _codes.RANGE:
        return chr(argument[0]) + chr(argument[1])
    return _CATEGORIES.get(str(argument), "") if code is _codes.CATEGORY else ""


def _holds(named: Sequence[Any], character: str) -> bool:
    """Return True if a set names a character."""
    place = ord(character)
    return any(
        (code is _codes.LITERAL and argument == place)
        or (code is _codes.RANGE and argument[0] <= place <= argument[1])
        or (code is _codes.CATEGORY and character in _CATEGORIES.get(str(argument), ""))
        for code, argument in named
    )
