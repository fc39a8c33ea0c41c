"""Strategies for Markdown texts, for properties of the parsers."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

_LINE_ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r", ""])
_LINES = st.one_of(
    st.sampled_from(
        [
            "", "", "", "# One", "## Two ##", "### Three", "#", "#none", "    # code", "   # three",
            "\t# tab", "```", "````", "``` py", "~~~", "~~~~ x`y", "===", "---", "-", "--", "=",
            "- item", "* item", "1. first", "2. second", "> quoted", "  indented", "    four",
            "***", "- - -", "<!-- note", "-->", "<div>", "</div>", "<pre>", "</pre>", "+++",
            "Title", "a: b", "One. Two! Three?", "Dr. No said e.g. so.", "漢字。文。", "...",
        ]
    ),
    st.text(max_size=30),
    st.integers(1, 2_500).map(lambda length: "x" * length),
    st.integers(1, 400).map(lambda count: "word " * count),
    st.integers(1, 200).map(lambda count: "A sentence ends. " * count),
    st.integers(1, 900).map(lambda count: "長文" * count + "。"),
    st.integers(1, 700).map(lambda count: "e\u0301👩\u200d👩\u200d👧🇩🇪" * count),
)  # fmt: skip

lines = st.builds("".join, st.tuples(_LINES, _LINE_ENDS))
documents = st.lists(lines, max_size=40).map("".join)
"""Lines of every kind in any order."""


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """Draw a partition of a text into pieces."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    ends = [0, *cuts, len(text)]
    return [text[start:end] for start, end in pairwise(ends)]
