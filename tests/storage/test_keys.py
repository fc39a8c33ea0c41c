"""Keys and row ids: arithmetic that gives every message and window a place of its own."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.limits import CONVERSATION_MESSAGES_MAX
from engram.storage.tables.keys import (
    KINDS,
    RecordKind,
    conversation_of,
    key_of_word_row,
    kind_of,
    message_key,
    position_of,
    record_number,
    word_row,
)
from engram.storage.tables.queries import load_queries

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


@pytest.mark.parametrize("table", ["message_words", "window_words"])
@given(conversation=conversations, position=positions)
def test_the_statements_use_the_same_rows(table: str, conversation: int, position: int) -> None:
    sql = load_queries("words.sql")
    key = message_key(conversation, position)
    values = {"match": "word", "limit": 1, "keys": f"[{key}]"}
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5(words, content = '')")
        kind = table.removesuffix("_words")

        connection.execute(sql[f"index_{kind}"], (key, "word"))

        assert connection.execute(f"SELECT rowid FROM {table}").fetchone() == (word_row(key),)  # noqa: S608 - two fixed names
        for name in ("all_matches", "best_matches", "matches_among"):
            statement = sql[name].replace("message_words", table)
            assert connection.execute(statement, values).fetchone()[0] == key
        connection.execute(sql[f"unindex_{kind}"], (key, "word"))
        assert connection.execute(f"SELECT rowid FROM {table}").fetchall() == []  # noqa: S608 - two fixed names
