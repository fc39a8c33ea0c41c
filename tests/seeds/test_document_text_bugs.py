"""What engram-go's chunker and synopsis lose of a document is kept here."""

from __future__ import annotations

from engram.limits import DOCUMENT_CHUNK_CHARACTERS
from engram.text.documents import chunk_document
from engram.text.summary import OUTLINE_MARK, synopsis

PADDING = "Some words of a paragraph.\n\n" * 400


def test_text_before_the_first_heading_is_not_dropped() -> None:
    first, second = chunk_document("An introduction.\n\n# One\n\ntext")

    assert (first.text, first.headings) == ("An introduction.\n\n", ())
    assert second.headings == ("One",)


def test_a_heading_is_part_of_its_chunk() -> None:
    (chunk,) = chunk_document("# The answer\n\nis 42.")

    assert chunk.text.startswith("# The answer")


def test_a_sentence_longer_than_a_chunk_is_no_oversize_chunk() -> None:
    for text in ("吾輩は猫である" * 1_000, "a=1;" * 5_000, "word " * 5_000):
        assert all(len(each.text) <= DOCUMENT_CHUNK_CHARACTERS for each in chunk_document(text))


def test_a_comment_in_code_begins_no_section() -> None:
    (chunk,) = chunk_document("# Setup\n\n```sh\n# install it\nmake\n```\n\nDone.\n")

    assert chunk.headings == ("Setup",)


def test_underlined_headings_begin_sections() -> None:
    chunks = chunk_document("One\n===\n\ntext\n\nTwo\n---\n\ntext\n")

    assert [chunk.headings for chunk in chunks] == [("One",), ("One", "Two")]


def test_equal_chunks_are_all_kept() -> None:
    text = "# Same\n\nSame text.\n\n" * 3

    assert [chunk.text for chunk in chunk_document(text)] == ["# Same\n\nSame text.\n\n"] * 3


def test_chunks_repeat_nothing_of_their_neighbours() -> None:
    text = "# One\n\nThe last sentence.\n\n# Two\n\n" + "Sentence after sentence. " * 500

    assert "".join(chunk.text for chunk in chunk_document(text)) == text


def test_an_abbreviation_ends_no_sentence() -> None:
    text = "x" * 1_900 + ". Mr. and Mrs. Smith of Acme Inc. and Sons Ltd. went " + "y" * 500

    assert chunk_document(text)[0].text == "x" * 1_900 + ". "


def test_the_outline_has_no_lines_of_code() -> None:
    text = PADDING + "```sh\n# install it\n```\n\n# Usage\n"

    assert synopsis(text).partition(OUTLINE_MARK)[2] == "# Usage\n"


def test_the_outline_has_the_first_two_levels_only() -> None:
    text = PADDING + "# One\n\n## Two\n\n### Three\n\n###### Six\n"

    assert synopsis(text).partition(OUTLINE_MARK)[2] == "# One\n## Two\n"


def test_a_synopsis_parts_no_character() -> None:
    assert "\ufffd" not in synopsis("é" * 10_000)
    assert synopsis("x" + "é" * 10_000) == "x" + "é" * 4_095
