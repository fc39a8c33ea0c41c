"""Chunks of documents join back to the text, in any pieces and after any interruption."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.limits import DOCUMENT_CHUNK_CHARACTERS
from engram.text.documents import ChunkerState, DocumentChunk, DocumentChunker, chunk_document
from tests.promises import promise
from tests.text.markdown import documents, pieces


def texts_of(text: str) -> list[str]:
    """Return the texts of a document's chunks."""
    return [chunk.text for chunk in chunk_document(text)]


def finish(chunker: DocumentChunker, *texts: str) -> list[DocumentChunk]:
    """Feed the rest of a document in pieces and return its chunks."""
    return [chunk for text in texts for chunk in chunker.feed(text)] + chunker.finish()


@promise("chunks")
@given(documents)
def test_chunks_join_to_the_document(text: str) -> None:
    chunks = chunk_document(text)

    assert "".join(chunk.text for chunk in chunks) == text
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert 0 < len(chunk.text) <= DOCUMENT_CHUNK_CHARACTERS
        assert chunk.text.encode() == text.encode()[chunk.start_byte : chunk.end_byte]
        assert not (chunk.text.endswith("\r") and text.startswith("\n", chunk.end))


@promise("chunks")
@given(st.data())
def test_chunks_do_not_depend_on_the_pieces(data: st.DataObject) -> None:
    text = data.draw(documents)

    assert chunk_document(text) == finish(DocumentChunker(), *data.draw(pieces(text)))


@promise("chunks")
@given(st.data())
def test_another_process_goes_on_after_any_chunk(data: st.DataObject) -> None:
    text = data.draw(documents)
    chunks = chunk_document(text)
    for stop, chunk in enumerate(chunks, start=1):
        state = ChunkerState.from_json(chunk.after.to_json())

        rest = text.encode()[state.read_from_bytes :].decode()

        assert state == chunk.after
        assert rest == text[state.read_from :]
        assert chunks[stop:] == finish(DocumentChunker(state), *data.draw(pieces(rest)))


@given(documents)
def test_a_section_begins_a_chunk_or_follows_its_parent_there(text: str) -> None:
    for chunk in chunk_document(text):
        above = chunk.start
        for heading in chunk.opened:
            assert chunk.start <= heading.start < heading.end <= chunk.end or heading.level > 2
            if heading.level <= 2:
                assert not text[above : heading.start].strip()
                assert heading.title in {*chunk.headings, ""}
            above = heading.end


def test_an_empty_document_has_no_chunks() -> None:
    assert [] == chunk_document("")


def test_sections_are_chunks_with_their_path() -> None:
    text = "Before.\n\n# One\n\ntext\n\n## Two\n\n### Deep\n\nmore\n\n# Three\n\nend"

    chunks = chunk_document(text)

    assert [(chunk.text, chunk.headings) for chunk in chunks] == [
        ("Before.\n\n", ()),
        ("# One\n\ntext\n\n", ("One",)),
        ("## Two\n\n### Deep\n\nmore\n\n", ("One", "Two", "Deep")),
        ("# Three\n\nend", ("Three",)),
    ]


def test_a_heading_with_nothing_under_it_begins_the_chunk_of_the_next_deeper_one() -> None:
    chunks = chunk_document("# Book\n\n## Chapter\n\ntext\n\n## Empty\n\n## Next\n\ntext")

    assert [chunk.headings for chunk in chunks] == [
        ("Book", "Chapter"),
        ("Book", "Empty"),
        ("Book", "Next"),
    ]


def test_paragraphs_are_packed_as_long_as_they_fit() -> None:
    paragraph = "x" * 598 + "\n\n"

    assert [3 * 600, 3 * 600, 600] == [len(text) for text in texts_of(paragraph * 7)]


def test_a_long_paragraph_is_cut_after_sentences() -> None:
    sentence = "Dr. Who met e.g. Mr. Spock (in 1966 A. D.) and stayed for tea. "

    chunks = texts_of(sentence * 100)

    assert all(text.endswith("tea. ") for text in chunks)
    assert all(len(text) > 1_900 for text in chunks[:-1])


def test_a_long_text_without_spaces_is_cut_after_its_sentences() -> None:
    chunks = texts_of("吾輩は猫である。" * 2_000)

    assert all(text.endswith("。") for text in chunks)
    assert len(chunks) == 8


def test_a_long_sentence_is_cut_after_words() -> None:
    chunks = texts_of("word " * 2_000)

    assert all(text.endswith(" ") for text in chunks)
    assert len(chunks) == 5


def test_a_long_word_is_cut_between_characters() -> None:
    assert [2_000] * 500 == [len(text) for text in texts_of("x" * 1_000_000)]


@pytest.mark.parametrize(
    "character", ["e\u0301", "👩\u200d👩\u200d👧", "🇩🇪", "👍🏽", "한", "a\r\n"]
)
def test_no_character_is_parted(character: str) -> None:
    for shift in range(9):
        chunks = texts_of("x" * shift + character * 2_000)

        assert all(text.lstrip("x").startswith(character[0]) for text in chunks)
        assert all(text.removesuffix(character) != text for text in chunks)


def test_a_heap_of_marks_on_one_letter_is_parted() -> None:
    text = "e" + "\u0301" * 5_000

    assert [2_000, 2_000, 1_001] == [len(each) for each in texts_of(text)]


def test_code_is_kept_whole_where_it_fits() -> None:
    code = "```py\n" + "x = 1\n\n" * 200 + "```\n\n"

    chunks = texts_of("Before.\n\n" + "y" * 900 + "\n\n" + code + "After.\n")

    assert code in chunks[1]


def test_code_that_is_too_long_is_cut_after_lines() -> None:
    chunks = texts_of("```\n" + "call(a. b)  # so. what\n" * 1_000 + "```\n")

    assert all(text.endswith("\n") for text in chunks)


def test_a_heading_stays_with_what_stands_under_it() -> None:
    chunks = texts_of("z" * 1_900 + "\n\n### Deep\n\n" + "y" * 500)

    assert chunks[1].startswith("### Deep")


def test_lines_of_hashes_do_not_make_a_chunk_each() -> None:
    text = "# a\n" * 100_000

    chunks = chunk_document(text)

    assert len(chunks) <= 2_000 + len(text) / 200 + 1
    assert "".join(chunk.text for chunk in chunks) == text


def test_memory_does_not_grow_with_the_document() -> None:
    chunker = DocumentChunker()
    piece = ("# Title\n\n" + "Some words of a paragraph. " * 60 + "\n\n") * 40
    chunker.feed(piece)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(100):
        chunker.feed(piece)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert after - before < 200_000
    assert peak - before < 2_000_000
