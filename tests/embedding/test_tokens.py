"""Cached tokens equal those of the tokenizer for any text."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from engram import limits
from engram.embedding.files import ModelFiles
from engram.embedding.registry import POTION
from engram.embedding.static_model import UNKNOWN
from engram.embedding.tokens import WordPieces, load_tokenizer

# Where words begin and end, and what a tokenizer takes out, takes apart or knows as a whole.
BLANKS = (" ", "\n", "\t", "\r\n", "\x00", "\x1f", "\x85", "\u00a0", "\u200b", "\u3000", "\u0301")
PLAIN = (
    "[CLS]",
    "[",
    "[UNK]",
    "cls]",
    "it's",
    "Don't",
    "x_1",
    "3.14",
    "?!",
    "\x7f",
    "##ing",
    "a" * 101,
)
WIDE = ("café", "cafe\u0301", "İ", "ß", "ΟΔΟΣ", "東京", "ก็", "👍🏽", "\ufffd", "\ufb01")
TEXTS = st.lists(st.sampled_from(BLANKS + PLAIN + WIDE) | st.text(max_size=8)).map("".join)


@pytest.fixture(scope="module")
def tokenizer(files: ModelFiles) -> Tokenizer:
    return load_tokenizer(files.require(POTION) / "tokenizer.json")


@pytest.fixture
def pieces(tokenizer: Tokenizer) -> WordPieces:
    return WordPieces(tokenizer, unknown=tokenizer.token_to_id(UNKNOWN))


def tokenized(tokenizer: Tokenizer, text: str) -> list[int]:
    unknown = tokenizer.token_to_id(UNKNOWN)
    return [
        token for token in tokenizer.encode(text, add_special_tokens=False).ids if token != unknown
    ]


# The cache persists from one example to the next, which is part of the property.
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS, max_size=5))
def test_cached_tokens_of_any_texts_are_those_of_the_tokenizer(
    tokenizer: Tokenizer, pieces: WordPieces, texts: list[str]
) -> None:
    found = [pieces.known_tokens(text) for text in texts]

    assert found == [tokenized(tokenizer, text) for text in texts]


def test_tokens_stay_the_same_when_the_cache_overflows(
    tokenizer: Tokenizer, pieces: WordPieces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CACHED_WORDS_MAX", 3)
    text = "The ferry to Lisbon leaves on Friday, the other one on Sunday."

    found = [pieces.known_tokens(text) for _ in range(3)]

    assert found == [tokenized(tokenizer, text)] * 3
    assert pieces.cached_words <= 3


def test_a_long_word_is_not_cached(pieces: WordPieces) -> None:
    pieces.known_tokens("a" * (limits.CACHED_WORD_CHARACTERS_MAX + 1))

    assert pieces.cached_words == 0
