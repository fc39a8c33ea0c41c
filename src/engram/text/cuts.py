"""Find where to cut a text: after paragraphs, sentences, lines or words, or between characters."""

from __future__ import annotations

import re
import unicodedata

_NEWLINE = r"(?:\r\n|\r(?!\n)|\n)"
_BLANK_LINES = re.compile(rf"{_NEWLINE}(?:[ \t]*{_NEWLINE})+")
_SENTENCE = re.compile(
    # Possessive, with an optional space: a run of full stops is then scanned only once.
    "(?:(?P<stop>[.!?\u2026\u061f\u06d4\u0964]++)['\"\u201d\u2019\u00bb)\\]]*+"
    "|[\u3002\uff01\uff1f\uff61]++[\u300d\u300f\u201d\u2019\uff09)]*+)(?P<space>\\s*+)"
)
"""Possible sentence ends; after a `stop` there must be white space."""
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\"'])(?:[A-Za-z]|\d+|mr|mrs|ms|dr|prof|sr|jr|st|vs|etc|e\.g|i\.e|cf|al|fig|eq|no|vol|pp?"
    r"|u\.s|u\.k|inc|ltd|corp|co|ave|blvd|dept|est|approx)$",
    re.IGNORECASE,
)
_ABBREVIATION_CHARACTERS = 8
_NEAR_CHARACTERS = 400
_WORD = re.compile(r"(?s).*[\s\u3001\uff0c\uff1b\uff1a]")
_CLUSTER_CHARACTERS_MAX = 64
"""Longer grapheme clusters are not writing and may be cut."""

_JOINER = "\u200d"


def paragraph_ends(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of blank lines, each including the line end before it."""
    return [match.span() for match in _BLANK_LINES.finditer(text, start, end)]


def last_cut(text: str, start: int, end: int) -> int:
    """Return the last good offset to cut at within a range, after its start.

    That is after a sentence, else after a line, else after a word; a word that fills the range is
    cut between two characters.
    """
    # Most texts have one near the end, which avoids searching the whole range.
    near = max(start, end - _NEAR_CHARACTERS)
    cut = _sentence_end(text, near, end) or _sentence_end(text, start, near)
    cut = cut or last_line_end(text, start, end)
    cut = cut or _word_end(text, near, end) or _word_end(text, start, near) or end
    return whole_character(text, start, cut)


def last_line_end(text: str, start: int, end: int) -> int | None:
    """Return the end of the last complete line of a range."""
    cut = max(text.rfind("\n", start, end), text.rfind("\r", start, end)) + 1
    return cut if cut > start else None


def whole_character(text: str, start: int, cut: int) -> int:
    """Return an offset moved back to the start of a grapheme cluster."""
    for earlier in range(cut, max(start, cut - _CLUSTER_CHARACTERS_MAX), -1):
        if not _is_inside(text, start, earlier):
            return earlier
    return cut


def _sentence_end(text: str, start: int, end: int) -> int | None:
    # One character more, so that a space right after the range still ends a sentence.
    for match in reversed(list(_SENTENCE.finditer(text, start, end + 1))):
        if match.start() < end and _is_sentence_end(text, match):
            return min(match.end(), end)
    return None


def _is_sentence_end(text: str, match: re.Match[str]) -> bool:
    if match["stop"] is None:
        return True
    is_plain = match["stop"] != "." or not _is_abbreviated(text, match.start())
    return bool(match["space"]) and is_plain


def _word_end(text: str, start: int, end: int) -> int | None:
    word = _WORD.match(text, start, end)
    return word.end() if word else None


def _is_abbreviated(text: str, stop: int) -> bool:
    before = text[max(0, stop - _ABBREVIATION_CHARACTERS) : stop]
    return _ABBREVIATION.search(before) is not None


def _is_inside(text: str, start: int, cut: int) -> bool:
    """Return True if a cut would split CRLF, an accented letter, a flag or a joined emoji."""
    if cut >= len(text):
        return False
    before, after = text[cut - 1], text[cut]
    if before in "\r\n":
        return before == "\r" and after == "\n"
    if after.isascii():
        return False
    if _JOINER in {before, after} or _is_extending(after):
        return True
    return _is_flag(before) and _is_flag(after) and _flags_before(text, start, cut) % 2 == 1


def _is_extending(character: str) -> bool:
    return (
        unicodedata.category(character) in {"Mn", "Mc", "Me"}
        or "\U0001f3fb" <= character <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= character <= "\U000e007f"  # tags of regional flags
        or "\u1160" <= character <= "\u11ff"  # the later parts of a Hangul syllable
    )


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, start: int, cut: int) -> int:
    first = cut
    while first > start and _is_flag(text[first - 1]):
        first -= 1
    return cut - first
