"""HTML becomes text with the headings, lists, tables and code of Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.convert.html import HtmlWriter, convert_html
from engram.convert.worker import BoundedTextWriter


def text_of(*pieces: str) -> str:
    """Return the text of HTML that is fed in pieces."""
    found: list[str] = []
    writer = HtmlWriter(found.append)
    for piece in pieces:
        writer.feed(piece)
    writer.close()
    return "".join(found)


def convert(tmp_path: Path, data: bytes, *, charset: str | None = None) -> str:
    """Return the text of an HTML file."""
    source, target = tmp_path / "page.html", tmp_path / "page.txt"
    source.write_bytes(data)
    with target.open("wb") as file:
        convert_html(source, BoundedTextWriter(file, bytes_max=1_000_000).write, charset=charset)
    return target.read_bytes().decode()


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("words", "words"),
        ("<p>One</p>\n<p>Two  \n words</p>", "One\n\nTwo words"),
        ("<b>bold</b>er <i> and </i>more", "bolder and more"),
        ("<title>Page</title><h1>Big</h1><p>text<h2>Small", "Page\n\n# Big\n\ntext\n\n## Small"),
        ("<ul><li>one<li>two</ul>after", "- one\n- two\n\nafter"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("<table><tr><td>a<td>b<tr><td>c<td>d</table>", "a | b\nc | d"),
        ("<pre># no\n  heading</pre>x", "```\n# no\n  heading\n```\n\nx"),
        ("<pre>one\n</pre>", "```\none\n```"),
        ("a<script>if (a < b) '<p>'</script><style>p {}</style>b", "ab"),
        ("a<svg><title>icon</title><svg></svg>x</svg>b", "ab"),
        ("AT&amp;T &eacute; &#x1f9e0; &unknown;", "AT&T é 🧠 &unknown;"),
        ('<img src=x alt="a brain"> text', "a brain text"),
        ("<!-- comment --><![CDATA[x]]>1 < 2 and <3", "1 < 2 and <3"),
        ("one &#" + "9" * 5_000 + "; two", "one \ufffd two"),
        ("one<![unknown[ x ]]> two<![ % y> three", "one two three"),
    ],
)
def test_html_becomes_text(html: str, text: str) -> None:
    assert text == text_of(html)


@given(
    st.lists(
        st.sampled_from(["<p>", "</p>", "<pre>", "</pre>", "<", "&amp;", "<svg>", "<td>", "x "])
    )
)
def test_any_html_becomes_some_text_in_any_pieces(pieces: list[str]) -> None:
    assert text_of("".join(pieces)) == text_of(*pieces)


def test_nesting_costs_nothing() -> None:
    assert text_of("<div>" * 200_000 + "deep" + "</div>" * 200_000).strip() == "deep"


@pytest.mark.parametrize(
    ("data", "charset"),
    [
        ("<p>café</p>".encode(), None),
        ("<p>café</p>".encode("latin-1"), None),
        ("<p>café</p>".encode("latin-1"), "iso-8859-1"),
        ("<p>café</p>".encode("utf-16"), None),
        ("\ufeff<p>café</p>".encode(), "latin-1"),
        ('<meta charset="windows-1252"><p>café</p>'.encode("windows-1252"), None),
        ("<p>café</p>".encode(), "no-such-charset"),
        ("<p>café</p>".encode(), "hex"),
    ],
)
def test_html_is_read_in_its_character_set(
    tmp_path: Path, data: bytes, charset: str | None
) -> None:
    assert convert(tmp_path, data, charset=charset) == "café"


def test_a_character_between_two_reads_is_whole(tmp_path: Path) -> None:
    assert convert(tmp_path, b"x" + "é".encode() * 100_000) == "x" + "é" * 100_000
