"""Headings are those of CommonMark, independently of the pieces a text arrives in."""

from __future__ import annotations

import re
import tracemalloc
from itertools import pairwise, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from engram.text.markdown import Heading, HeadingScanner
from tests.text.markdown import documents, pieces


def headings_of(*texts: str) -> list[Heading]:
    """Return the headings of a text that is fed in pieces."""
    scanner = HeadingScanner()
    marks = [mark for text in texts for mark in scanner.feed(text)] + scanner.finish()
    return [mark for mark in marks if isinstance(mark, Heading)]


def titles_of(text: str) -> list[tuple[int, str]]:
    """Return the level and title of each heading."""
    return [(heading.level, heading.title) for heading in headings_of(text)]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("# One\n", [(1, "One")]),
        ("#  One  ##  ", [(1, "One")]),
        ("## C# and F#\n", [(2, "C# and F#")]),
        ("   ### Three", [(3, "Three")]),
        ("###### Six\n####### Seven\n", [(6, "Six")]),
        ("#", [(1, "")]),
        ("#hashtag\n", []),
        ("    # code\n", []),
        ("\t# code\n", []),
        ("text\r# After a lone return\rmore", [(1, "After a lone return")]),
        ("text\r\n# Windows\r\nmore", [(1, "Windows")]),
        ("\ufeff# With a mark of byte order\n", [(1, "With a mark of byte order")]),
        ("Title\n===\ntext", [(1, "Title")]),
        ("Two\n lines\n-\n", [(2, "Two lines")]),
        ("text\n\n---\n\ntext", []),
        ("- item\n---\n", []),
        ("- item\nlazy\n---\n", []),
        ("> quoted\n---\n", []),
        ("text\n- item\n---\n", []),
        ("text\n2. goes on\n---\n", [(2, "text 2. goes on")]),
        ("    code\n---\n", []),
        ("    code\nTitle\n---\n", [(2, "Title")]),
        ("***\nTitle\n---\n", [(2, "Title")]),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", []),
        ("```\n# code\n```\n# Text\n", [(1, "Text")]),
        ("~~~ py `x`\n# code\n```\n# code\n~~~~\n# Text\n", [(1, "Text")]),
        ("````\n```\n# code\n````\n# Text\n", [(1, "Text")]),
        ("``` a`b\n# Text\n", [(1, "Text")]),
        ("```\n# never closed\n", []),
        ("```\n# code\n    ```\n# code\n", []),
        ("<!-- out\n# comment\n-->\n# Text\n", [(1, "Text")]),
        ("<div>\n# HTML\n\n# Text\n", [(1, "Text")]),
        ("<PRE>\n\n# HTML\n</pre>\n# Text\n", [(1, "Text")]),
        ("---\ntitle: x\n# comment\n---\n# Text\n", [(1, "Text")]),
        ("---\ntitle: x\n...\nTitle\n---\n", [(2, "Title")]),
        ("+++\n# comment\n+++\n# Text\n", [(1, "Text")]),
        ("---\n\nTitle\n---\n", [(2, "Title")]),
        ("---\nnever closed\n# Text\n", [(1, "Text")]),
    ],
)
def test_headings_are_those_of_markdown(text: str, titles: list[tuple[int, str]]) -> None:
    assert titles == titles_of(text)


@given(documents)
def test_headings_are_those_of_another_parser(text: str) -> None:
    text = re.sub("[\0\ufeff]", "", text)
    if (
        "<" in text
        or text.startswith(("---", "+++"))
        or re.search(r"(?:^|[\r\n]) *(?:[-*+>]|\d)", text)
    ):
        return  # we treat inline HTML, front matter and lists differently

    tokens = MarkdownIt("commonmark").disable("inline").parse(text)
    theirs = [
        (opening.tag, " ".join(inline.content.split()))
        for opening, inline in pairwise(tokens)
        if opening.type == "heading_open"
    ]
    ours = [(f"h{level}", " ".join(title.split())) for level, title in titles_of(text)]

    # We truncate long titles and ignore long underlined paragraphs, after which the next lines may
    # be parsed differently.
    alike = list(takewhile(lambda each: len(each[1]) < 150, theirs))
    assert alike == ours[: len(alike)]
    assert len(alike) < len(theirs) or alike == ours


@given(st.data())
def test_headings_do_not_depend_on_the_pieces(data: st.DataObject) -> None:
    text = data.draw(documents)

    assert headings_of(text) == headings_of(*data.draw(pieces(text)))


@given(documents)
def test_headings_are_in_order_and_begin_lines(text: str) -> None:
    found = headings_of(text)

    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(each.start == 0 or text[each.start - 1] in "\r\n" for each in found)
    assert all(each.start < each.end <= len(text) for each in found)


def test_a_long_title_is_told_by_its_beginning() -> None:
    (heading,) = headings_of("# " + "long " * 10_000 + "\nx")

    assert heading.title == ("long " * 40).strip()


@pytest.mark.parametrize("line", ["-\n", "---\n", "#\n", "=\n", "~~~\n", "<!--\n", "a\n", " "])
def test_a_text_of_marks_only_is_read_without_being_kept(line: str) -> None:
    scanner = HeadingScanner()
    piece = line * (8_000 // len(line))
    scanner.feed(piece)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(4):
        scanner.feed(piece)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert after - before < 50_000
