"""The analyser: every word is found again, any text is safe, and one word has one form."""

from __future__ import annotations

import re
import time
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model.conversation import MessageDraft
from engram.text import analyse
from engram.text.analyse import (
    STOP_WORDS,
    is_prefix,
    iterate_tokens,
    message_words,
    part_words,
    query_terms,
)
from engram.text.folding import fold
from tests.promises import promise

TOKEN = re.compile(r"[0-9a-z_+#\x80-\U0010ffff]+")
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=100),
    st.text("aB9_-'.:/@\\,+# \u2019é語の한ไทย😀\u0301", max_size=60),
)


TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def words_of(content: str) -> list[str]:
    return message_words(MessageDraft(role="user", content=content)).split(" ")


def written_words(text: str) -> list[str]:
    """Return the runs of letters, marks and digits of a text."""
    text = TERMINAL_SEQUENCE.sub(" ", text)
    visible = "".join(c for c in text if unicodedata.category(c) != "Cf" or c == "\u200b")
    return "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in visible).split()


def is_found(term: str, indexed: list[str]) -> bool:
    if is_prefix(term):
        return any(word.startswith(term) for word in indexed)
    return term in indexed


@promise("findable")
@given(TEXTS.map(lambda text: text.replace("'", " ").replace("\u2019", " ")))
def test_every_word_of_a_text_is_found_by_itself(text: str) -> None:
    indexed = words_of(text)

    for word in written_words(text):
        terms = query_terms(word)
        assert any(is_found(term, indexed) for term in terms) or not terms
        assert terms or unicodedata.category(word[0])[0] not in "LN"


@promise("findable")
@given(TEXTS)
def test_a_text_is_found_by_each_of_its_own_terms(text: str) -> None:
    indexed = words_of(text)

    assert all(is_found(term, indexed) for term in query_terms(text))


@given(TEXTS)
def test_words_are_tokens_the_index_keeps_as_they_are(text: str) -> None:
    assert all(TOKEN.fullmatch(word) for word in words_of(text) if word)
    assert all(len(word) <= 64 for word in words_of(text))


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("running Runs RAN", ["run", "run", "run"]),
        ("Caroline's café, naïve", ["carolin", "cafe", "naiv"]),
        ("what did you do?", ["what", "did", "you", "do"]),
        ("what did Anna buy", ["anna", "buy"]),
        ("don't", ["do"]),
        ("snake_case camelCase", ["snake_case", "snake", "case", "camelcas", "camel", "case"]),
        ("eval/score_all.py", ["eval_score_all_py", "eval", "score_all", "score", "py"]),
        ("v1.2.3", ["v1_2_3", "v1", "2", "3"]),
        ("ann@example.com", ["ann_example_com", "ann", "exampl", "com"]),
        ("$1,000", ["1000", "1", "000"]),
        ("C++ and C#", ["c++", "c", "c#", "c"]),
        ("well-being", ["well"]),
        ("日本語", ["日本", "本語"]),
        ("語", ["語"]),
        ("한국어 ไทย", ["한국", "국어", "ไท", "ทย"]),
        ("👍🏽 ok", ["👍", "ok"]),
        ("Straße ﬁne", ["strass", "fine"]),
        ('"NEAR(* -:^', ["near"]),
        ("?!… —", []),
    ],
)
def test_a_query_becomes_its_terms(query: str, terms: list[str]) -> None:
    assert query_terms(query) == terms


def test_a_message_is_found_by_its_speaker_its_tool_and_its_day() -> None:
    message = MessageDraft(
        role="tool",
        content="done",
        name="Zoë",
        tool_name="web_search",
        occurred_at=datetime(2023, 5, 8, 23, 30, tzinfo=UTC),
    )

    assert message_words(message) == "zoe web_search web search done 8 may 2023"


def test_a_word_in_a_terminals_colours_is_found() -> None:
    assert words_of("build \x1b[1;31mfailed\x1b[0m: exit\x1b[K 1") == ["build", "fail", "exit", "1"]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("The key is under the green mat.", ("key green mat", "the is under the")),
        ("Where is it?", ("", "where is it")),
        ("", ("", "")),
    ],
)
def test_stop_words_are_parted_from_what_tells_something(
    content: str, parts: tuple[str, str]
) -> None:
    assert part_words(message_words(MessageDraft(role="user", content=content))) == parts


def test_a_long_token_is_bounded_and_still_its_own() -> None:
    key, other = "k" * 5000 + "1", "k" * 5000 + "2"

    assert words_of(key) == query_terms(key)
    assert words_of(key) != words_of(other)
    assert all(len(word) <= 64 for word in words_of(key))


def test_stop_words_are_their_own_normal_form() -> None:
    assert all(words_of(word) == [word] for word in STOP_WORDS)


@pytest.mark.parametrize("unit", ["a", "a.", "aB", "_", "1,000", "語", "é", "a'", "\u0301", "😀"])
def test_a_line_of_megabytes_is_analysed_in_linear_time(unit: str) -> None:
    def seconds(length: int) -> float:
        text = MessageDraft(role="user", content=unit * (length // len(unit.encode())))
        started = time.process_time()
        message_words(text)
        return time.process_time() - started

    assert seconds(2_000_000) < 40 * max(seconds(200_000), 0.005)


LATIN = ("a", "B", "e\u0301", "1", "000", "\ufb01", "_", "the ")
ELSEWHERE = ("\u4e2d", "\u304b\u3099", "\uff76", "\uff9e", "\u0995\u09c7\u09be", "\U0001f1e6")
HANGUL = ("\u1100", "\u1161", "\u11a8", "\uac00", "\u3131", "\u314f")
BETWEEN = (".", " ", "\n", ",", "#", "++", "-", "'", "@", "\u3002", "\u200d", "\x1b[0m", "\x1b[1 q")
SLICED = st.lists(st.sampled_from((*LATIN, *ELSEWHERE, *HANGUL, *BETWEEN)), max_size=120).map(
    "".join
)


@given(SLICED, st.integers(40, 80))
def test_a_text_folds_to_the_same_in_slices(text: str, slice_characters: int) -> None:
    assert fold(text) == fold(text, slice_characters=slice_characters)


@given(SLICED, st.integers(20, 80))
def test_a_text_has_the_same_tokens_in_slices(text: str, slice_characters: int) -> None:
    whole = list(iterate_tokens(text))

    sliced = list(iterate_tokens(text, slice_characters=slice_characters))

    assert [each for some in whole for each in some] == [each for some in sliced for each in some]


def test_words_are_parted_the_same_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    words = message_words(MessageDraft(role="user", content="the tanuki and the fox " * 30))
    whole = part_words(words)

    monkeypatch.setattr(analyse, "_SLICE_CHARACTERS", 10)

    assert whole == part_words(words)
