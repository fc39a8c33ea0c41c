"""Who holds a word is read once while nothing changes, and what is remembered is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.storage.postings import caches
from engram.storage.postings.caches import PostingCache, WordsAtRevision
from engram.storage.postings.index import Postings
from engram.storage.sqlite.word_index import Fts5WordIndex
from tests.storage.word_store import ORGANIZATION, VOCABULARY, WordStore, fill, open_file

queries = st.lists(st.sampled_from([*VOCABULARY, "unheard"]), unique=True, max_size=5)


@pytest.fixture(scope="module")
def filled() -> Iterator[WordStore]:
    """Yield a file with messages of the vocabulary."""
    connection = open_file(":memory:")
    store = WordStore(connection)
    fill(store, conversations=4, messages=12)
    yield store
    connection.close()


@pytest.fixture
def statements(filled: WordStore) -> Iterator[list[str]]:
    """Yield the words that the file is asked for from now on."""
    asked: list[str] = []

    def note(statement: str) -> None:
        if "message_word_places" in statement:
            asked.append(statement)

    filled.connection.set_trace_callback(note)
    yield asked
    filled.connection.set_trace_callback(None)


def at(known: PostingCache, store: WordStore, revision: int) -> WordsAtRevision:
    return known.at(revision, store.connection, store.index, organization_id=ORGANIZATION)


def entries(found: Postings) -> list[tuple[int, int, int]]:
    return list(zip(*(column.tolist() for column in found), strict=True))


def read(store: WordStore, terms: Sequence[str]) -> list[tuple[int, int, int]]:
    found = Fts5WordIndex().postings(store.connection, terms, organization_id=ORGANIZATION)
    return entries(found)


@given(asked=st.lists(queries, max_size=6), kept=st.integers(0, 60))
def test_what_is_remembered_is_what_the_index_says(
    filled: WordStore, asked: list[list[str]], kept: int
) -> None:
    known = PostingCache()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caches, "POSTINGS_KEPT", kept)

        for terms in asked:
            assert entries(at(known, filled, 1).postings(terms)) == read(filled, terms)


def test_a_word_is_read_once_at_a_revision(filled: WordStore, statements: list[str]) -> None:
    known = PostingCache()
    at(known, filled, 1).postings(["anna", "boat"])
    statements.clear()

    at(known, filled, 1).postings(["boat", "anna"])
    assert statements == []

    at(known, filled, 1).postings(["boat", "jade"])
    assert len(statements) == 1

    at(known, filled, 2).postings(["boat", "jade"])
    assert len(statements) == 3


def test_words_that_do_not_fit_are_read_again(
    filled: WordStore, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "POSTINGS_KEPT", 0)
    known = PostingCache()

    at(known, filled, 1).postings(["anna"])
    at(known, filled, 1).postings(["anna"])

    assert len(statements) == 2
