"""Sections of Markdown texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.text.markdown import split_sections

pieces = st.sampled_from(
    ["# One", "## Two ##", "text", "```", "~~~", "===", "---", "    # code", "> # said", "- # item",
     "\n", "\r", "\r\n", "\0", "\x0b", "\u2028", "#", "#no", "<!--", "-->"]
)  # fmt: skip


def parts(text: str) -> list[tuple[int, str, str]]:
    return [(each.level, each.heading, text[each.body : each.end]) for each in split_sections(text)]


@given(st.lists(pieces, max_size=30).map("\n".join) | st.text())
def test_sections_join_back_to_the_text(text: str) -> None:
    sections = split_sections(text)

    assert "".join(text[each.start : each.end] for each in sections) == text
    assert all(each.start <= each.body <= each.end for each in sections)


def test_text_before_the_first_heading_is_a_section() -> None:
    assert parts("intro\n# A\nbody") == [(0, "", "intro\n"), (1, "A", "body")]


def test_lines_of_code_comments_and_quotes_are_no_headings() -> None:
    text = "# A\n```\n# b\n```\n\n    # c\n\n> # d\n\n- # e\n\n<!--\n# f\n-->\n"

    assert [heading for _, heading, _ in parts(text)] == ["A"]


def test_underlined_headings_count_and_hashes_without_a_space_do_not() -> None:
    assert parts("A b\n===\nx\n\nC\n---\n#y\n") == [(1, "A b", "x\n\n"), (2, "C", "#y\n")]


def test_lines_may_end_in_any_way() -> None:
    assert parts("# A\rone\r\n# B\r\ntwo") == [(1, "A", "one\r\n"), (1, "B", "two")]


def test_front_matter_is_text_before_the_first_heading() -> None:
    text = "---\ntitle: x\n# comment\n---\n# A\nbody"

    assert parts(text) == [(0, "", "---\ntitle: x\n# comment\n---\n"), (1, "A", "body")]
