"""Keys and row ids: arithmetic that gives every message and window a place of its own."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.limits import CONVERSATION_MESSAGES_MAX
from engram.model.row_keys import (
    KINDS,
    RecordKind,
    conversation_of,
    kind_of,
    message_key,
    position_of,
    record_number,
)
from engram.storage.postings.index import MessageWords, WordLengths
from engram.storage.sqlite.word_index import Fts5WordIndex, key_of_word_row, word_row
from tests.storage.word_store import open_file

conversations = st.integers(1, 2**34 - 1)
positions = st.integers(0, CONVERSATION_MESSAGES_MAX)


@given(conversation=conversations, position=positions)
def test_a_key_says_its_conversation_and_position(conversation: int, position: int) -> None:
    key = message_key(conversation, position)

    assert (conversation_of(key), position_of(key)) == (conversation, position)
    assert key < 2**63


@given(conversation=conversations, position=positions)
def test_a_row_of_a_word_index_says_its_key(conversation: int, position: int) -> None:
    key = message_key(conversation, position)

    assert key_of_word_row(word_row(key)) == key
    assert 0 < word_row(key) < 2**63


@given(kind=st.sampled_from(KINDS), place=st.integers(1, 2**32 - 1))
def test_a_number_says_its_kind(kind: RecordKind, place: int) -> None:
    number = record_number(kind, place)

    assert kind_of(number) == kind
    assert conversation_of(message_key(number, CONVERSATION_MESSAGES_MAX)) == number
    assert number.bit_length() <= 34


@pytest.mark.parametrize("place", [0, 2**32])
def test_no_kind_has_numbers_of_another(place: int) -> None:
    with pytest.raises(ValueError, match="no memory"):
        record_number("memory", place)


@given(conversation=conversations, position=positions)
def test_the_statements_use_the_same_rows(conversation: int, position: int) -> None:
    index, key = Fts5WordIndex(), message_key(conversation, position)
    row = MessageWords(key, "word other", "the")
    with closing(open_file(":memory:")) as connection:
        index.add(connection, [row], organization_id=1)

        rows = connection.execute("SELECT rowid FROM message_words").fetchall()
        assert rows == [(word_row(key),)]
        assert index.postings(connection, ["word"], organization_id=1).keys.tolist() == [key]
        lengths = index.lengths(connection, [key], organization_id=1)
        assert list(lengths) == [WordLengths(key, 2, 1)]
        index.remove(connection, [row], organization_id=1)
        assert index.count(connection, organization_id=1) == 0
