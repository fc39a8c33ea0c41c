"""The synopsis of a large document has its beginning and its headings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.limits import OUTLINE_BYTES, SYNOPSIS_BYTES
from engram.text.summary import OUTLINE_MARK, SynopsisWriter, synopsis
from tests.promises import promise
from tests.text.markdown import documents, pieces

pytestmark = promise("tiers")

LONG = "Some words of a paragraph.\n\n" * 400


@given(st.data())
def test_a_synopsis_does_not_depend_on_the_pieces(data: st.DataObject) -> None:
    text = data.draw(documents) + data.draw(st.sampled_from(["", LONG]))
    writer = SynopsisWriter()
    for piece in data.draw(pieces(text)):
        writer.feed(piece)

    assert synopsis(text) == writer.finish()


@given(documents)
def test_a_synopsis_is_bounded_and_begins_as_the_document(text: str) -> None:
    beginning, mark, outline = synopsis(text + LONG).partition(OUTLINE_MARK)

    assert (text + LONG).startswith(beginning)
    assert SYNOPSIS_BYTES - 4 < len(beginning.encode()) <= SYNOPSIS_BYTES
    assert len(outline.encode()) <= OUTLINE_BYTES
    assert bool(mark) == bool(outline)


@given(documents)
def test_a_short_document_is_its_own_synopsis(text: str) -> None:
    short = text.encode()[:SYNOPSIS_BYTES].decode(errors="ignore")

    assert short == synopsis(short)


@pytest.mark.parametrize("shift", range(4))
def test_the_beginning_is_cut_before_a_character_that_does_not_fit(shift: int) -> None:
    text = "x" * shift + "🧠" * 3_000

    assert synopsis(text) == "x" * shift + "🧠" * ((SYNOPSIS_BYTES - shift) // 4)


def test_the_outline_lists_the_headings_of_the_whole_document() -> None:
    text = "# Book\n\n" + LONG + "Part\n----\n\n### Deep\n\n" + LONG + "## Last ##"

    assert synopsis(text).endswith(f"{OUTLINE_MARK}# Book\n## Part\n## Last\n")


def test_the_outline_says_how_many_headings_it_leaves_out() -> None:
    text = "".join(f"## Heading number {number:04}\n\ntext\n\n" for number in range(1_000))

    outline = synopsis(text).partition(OUTLINE_MARK)[2]

    assert outline.startswith("## Heading number 0000\n## Heading number 0001\n")
    assert outline.endswith("\n… and 912 more\n")
    assert OUTLINE_BYTES - 25 < len(outline.encode()) <= OUTLINE_BYTES
