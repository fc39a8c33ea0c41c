"""Escaped text has no invisible characters, and its visible ones are unchanged."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.text.quoting import (
    BLOCK_CHARACTERS,
    IN_JSON,
    PLAIN,
    is_invisible,
)
from tests.text.hostile import STORED, UNSEEN

JOINED = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u2764\ufe0f\u200d\U0001f525",
    "1\ufe0f\u20e3",
    "\U0001f9d1\U0001f3fd\u200d\U0001f680",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "\u0915\u094d\u200d\u0937",
]
"""Emoji and words that are spelled with joiners and variation selectors."""


@pytest.mark.parametrize("character", UNSEEN)
def test_an_unseen_character_is_written_out(character: str) -> None:
    shown = PLAIN.text(f"a{character}b")

    assert character not in shown
    assert shown.encode().decode("unicode_escape") == f"a{character}b"


@pytest.mark.parametrize("text", JOINED)
def test_joiners_stay_where_they_spell_something(text: str) -> None:
    assert PLAIN.text(f"so: {text}!") == f"so: {text}!"
    assert json.loads(IN_JSON.text(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("text", ["a\u200db", "\u2764\ufe0f\ufe0f", "\u2764\u200d\u200d\u2764"])
def test_joiners_that_spell_nothing_are_written_out(text: str) -> None:
    assert "\\u" in PLAIN.text(text)


@given(text=STORED)
def test_a_label_is_one_line_of_what_can_be_seen(text: str) -> None:
    shown = PLAIN.label(text)

    assert not any(map(is_invisible, shown))
    assert len(shown.splitlines()) <= 1


@given(text=STORED)
def test_encoded_json_keeps_its_value(text: str) -> None:
    encoded = json.dumps({text: [text]}, ensure_ascii=False)

    shown = IN_JSON.text(encoded)

    assert json.loads(shown) == {text: [text]}
    assert len(shown.splitlines()) == 1
    assert not set("\u202e\u2066\ufeff\u200b\x7f\x9b\U000e0069") & set(shown)
    assert "</memory_context" not in shown


@given(text=STORED, other=STORED)
def test_more_of_a_text_is_never_shown_shorter(text: str, other: str) -> None:
    lengths = [len(PLAIN.text((text + other)[:end])) for end in range(len(text + other) + 1)]

    assert lengths == sorted(lengths)


@given(before=st.integers(BLOCK_CHARACTERS - 2, BLOCK_CHARACTERS + 2), text=STORED)
def test_a_long_text_is_escaped_like_a_short_one(before: int, text: str) -> None:
    assert PLAIN.text("\xe9" * before + text).endswith(PLAIN.text("\xe9" + text)[1:])


def test_in_a_very_long_text_every_joiner_is_written_out() -> None:
    text = JOINED[0] * (limits.ESCAPED_JOINERS_CHARACTERS_MAX // 5 + 1)

    shown = IN_JSON.text(json.dumps(text, ensure_ascii=False))

    assert "\u200d" not in shown
    assert json.loads(shown) == text


def test_a_text_of_every_character_does_not_fill_the_cache() -> None:
    codes = (code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)
    text = "".join(map(chr, codes))

    shown = PLAIN.text(text)

    assert not any(map(is_invisible, set(shown) - set("\n\t\ufe0e\ufe0f\u200c\u200d")))
    held: dict[str, object] = vars(PLAIN)
    tables = [cast("dict[int, str]", value) for value in held.values() if isinstance(value, dict)]
    assert all(len(table) <= limits.ESCAPES_CACHED_MAX for table in tables)
