"""Character folding: remove accents and invisible characters, and separate words by spaces."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_UNSPACED_RANGES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1100, 0x11FF),  # Hangul letters
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x1B00, 0x1B7F),  # Balinese
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # ideographic iteration mark and zero
    (0x3021, 0x3029),  # Hangzhou numerals
    (0x3031, 0x3035),  # kana repeat marks
    (0x3041, 0x3096),  # Hiragana
    (0x3099, 0x309A),  # voicing marks
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),  # Katakana
    (0x30FC, 0x318F),  # Katakana length mark, Bopomofo, Hangul letters
    (0x31A0, 0x31BF),  # Bopomofo
    (0x31F0, 0x31FF),  # Katakana for Ainu
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),  # Han
    (0xA000, 0xA4CF),  # Yi
    (0xA960, 0xA97F),  # Hangul letters
    (0xA980, 0xA9FF),  # Javanese, Myanmar
    (0xAA60, 0xAA7F),  # Myanmar
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),  # Han
    (0x1B000, 0x1B16F),  # historic kana
    (0x20000, 0x3FFFF),  # Han
)
"""Scripts written without spaces between words, or (Hangul) with suffixes attached to words."""

_ALONE_RANGES = ((0x2300, 0x23FF), (0x2600, 0x27BF), (0x2B00, 0x2BFF), (0x1F000, 0x1FBFF))
"""Pictographs, each a word of its own; other symbols (arrows, boxes, currency) separate words."""

_ACCENTS = (
    (0x0300, 0x036F),  # Latin, Greek, Cyrillic
    (0x0591, 0x05C7),  # Hebrew points
    (0x0640, 0x0640),  # Arabic tatweel
    (0x064B, 0x065F),  # Arabic vowels
    (0x0670, 0x0670),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0xFE00, 0xFE0F),  # variation selectors
    (0x1F3FB, 0x1F3FF),  # skin tones
    (0xE0100, 0xE01EF),  # variation selectors
)
"""Marks that people often omit; marks of other scripts are kept as letters."""

_SPECIAL = {
    0x2018: "'",
    0x2019: "'",
    0x02BC: "'",
    0x2010: "-",
    0x200B: " ",  # the zero width space separates words
}


def _is_within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= code <= last for first, last in ranges)


def _class_of(ranges: tuple[tuple[int, int], ...]) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _between(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return the ranges above ASCII that are not in `ranges`, which are sorted."""
    starts = [0x80, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), 0x10FFFF]
    return tuple((start, end) for start, end in zip(starts, ends, strict=True) if start <= end)


UNSPACED = _class_of(_UNSPACED_RANGES)
"""The inside of a regular expression class: characters of scripts without spaces."""

SPACED = "0-9A-Z_a-z" + _class_of(_between(_UNSPACED_RANGES))
"""The same for all other word characters of a folded text."""


class _FoldingTable(dict[int, str]):
    """Translation table for `str.translate`, filled on first use of each character."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _fold_character(code)
        return folded


def _fold_character(code: int) -> str:
    character = chr(code)
    if code < 0x80:
        return character
    if code in _SPECIAL:
        return _SPECIAL[code]
    category = unicodedata.category(character)
    if _is_within(code, _ACCENTS) or category == "Cf":
        return ""
    if category[0] in "ZPC":
        return " "
    if category[0] == "S":
        return f" {character} " if _is_within(code, _ALONE_RANGES) else " "
    return _without_accents(character)


def _without_accents(character: str) -> str:
    kept = [part for part in unicodedata.normalize("NFKD", character) if not _is_accent(part)]
    return unicodedata.normalize("NFKC", "".join(kept))


def _is_accent(character: str) -> bool:
    return _is_within(ord(character), _ACCENTS)


_FOLDING = _FoldingTable()


_ESCAPE = "\x1b"
_ESCAPE_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""ANSI escape sequences: their letters are not part of any word."""


_SLICE_CHARACTERS = 16_384
"""Folded in one call, about 3 ms: it holds the GIL meanwhile."""

_CUT_SEARCH_CHARACTERS = 1_024
"""Searched for a place to cut; longer runs of combining marks are not writing."""

_CUTTABLE = frozenset({"Lu", "Ll", "Lo", "Nd", "Zs"})


def fold(text: str, *, slice_characters: int = _SLICE_CHARACTERS) -> str:
    """Return a text without accents and invisible characters, with spaces in place of punctuation."""
    if text.isascii() and _ESCAPE not in text:
        return text
    return "".join(map(_fold_slice, _slices(text, slice_characters)))


def _slices(text: str, slice_characters: int) -> Iterator[str]:
    """Yield slices whose folded forms join to that of the whole text."""
    start = 0
    while len(text) - start > slice_characters:
        end = _cut(text, start, start + slice_characters)
        yield text[start:end]
        start = end
    yield text[start:]


def _cut(text: str, start: int, end: int) -> int:
    """Return the last offset up to `end` that splits no escape sequence and no composed character."""
    escape = text.rfind(_ESCAPE, start, end)
    if escape > start:
        return escape
    sequence = _ESCAPE_SEQUENCE.match(text, start, end)
    first = start if sequence is None else min(sequence.end(), end)
    tried = range(end, max(first, end - _CUT_SEARCH_CHARACTERS), -1)
    return next((place for place in tried if _begins_character(text[place])), end)


def _begins_character(character: str) -> bool:
    """Return True if a character cannot compose with one before it."""
    first = unicodedata.normalize("NFKD", character)[0]
    is_joined = "\u1160" <= first <= "\u11ff"  # the later parts of a Hangul syllable
    return first == "\n" or (unicodedata.category(first) in _CUTTABLE and not is_joined)


def _fold_slice(text: str) -> str:
    if _ESCAPE in text:
        text = _ESCAPE_SEQUENCE.sub(" ", text)
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text).translate(_FOLDING)


_FOLDED_CHARACTERS_MAX = 20_000
"""Split and joined in well under a millisecond."""


def fold_spaces(text: str) -> str:
    """Return a text with one space between its words: the same for texts that read the same.

    A long text is returned as it is: splitting it would stop every other request meanwhile.
    """
    return text if len(text) > _FOLDED_CHARACTERS_MAX else " ".join(text.split())
