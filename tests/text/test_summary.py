"""Summaries in the text's own sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.text.summary import extract_summary

REPORT = """The importer fails on empty files since the release. It rained on Tuesday.
The importer reads the header of a file before it looks at the size of the file. Somebody left a cup
on the desk. So the importer raises an error for empty files, and the whole import of files stops.
Lunch was good. We decided to skip empty files in the importer and to log a warning for each file."""


@given(st.text(max_size=2_000), st.integers(20, 500))
def test_a_summary_is_bounded_repeatable_and_invents_nothing(text: str, most: int) -> None:
    summary = extract_summary(text, characters_max=most)

    assert len(summary) <= most
    assert summary == extract_summary(text, characters_max=most)
    assert set(summary) <= set(text) | set(" \u2026")


def test_a_short_text_is_its_own_summary() -> None:
    assert extract_summary("  We use\nPython.  ", characters_max=50) == "We use Python."


def test_central_sentences_stay_and_remarks_go() -> None:
    summary = extract_summary(REPORT, characters_max=220)

    assert "importer" in summary
    assert "rained" not in summary
    assert "cup" not in summary


def test_sentences_keep_their_order_and_gaps_show() -> None:
    summary = extract_summary(REPORT, characters_max=220)

    places = [REPORT.replace("\n", " ").find(part) for part in summary.split(" \u2026 ")]
    assert -1 not in places
    assert places == sorted(places)
    assert len(places) > 1


def test_languages_without_spaces_have_sentences_too() -> None:
    text = (
        "数据库每天凌晨两点备份。" * 3 + "今天天气很好。" + "备份保存三十天存放在另一个数据中心。"
    )

    summary = extract_summary(text, characters_max=40)

    assert "备份" in summary
    assert len(summary) <= 40


def test_one_endless_sentence_is_cut_after_a_word_and_says_so() -> None:
    summary = extract_summary("word " * 200, characters_max=52)

    assert summary.endswith("word\u2026")
    assert len(summary) <= 52
