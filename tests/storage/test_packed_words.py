"""Packed posting lists of an SQLite file: the same postings as FTS5's, whatever was added, removed and packed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.errors import StoreCorruptError
from engram.model.erasure import ErasureRequest
from engram.storage.organization import OrganizationStore
from engram.storage.postings.caches import PostingCache
from engram.storage.postings.index import PostingList
from engram.storage.postings.packed_list import pack_list, unpack_list
from engram.storage.sqlite import packed_words
from engram.storage.sqlite.word_index import Fts5WordIndex
from tests.promises import promise
from tests.storage.drafts import (
    ACTOR,
    append,
    begin,
    count_holders,
    damage,
    find,
    findings,
    on_sqlite,
    opened,
)
from tests.storage.erasures import erase, places_of, unique_word
from tests.storage.indexed_words import ORGANIZATION, IndexedWords
from tests.storage.word_store import WordStore, fill, open_file, shares_of

TABLES = ("packed_word", "packed_block", "packed_log", "packed_state")
WORDS = ["anna", "boat", "cedar", "the", "ü", "日本"]

words = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
messages = st.tuples(st.integers(1, 3), st.integers(1, 60), words, words)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(messages, min_size=1, max_size=9)),
        st.tuples(st.just("remove"), st.sets(st.integers(0, 60), max_size=8)),
        st.tuples(st.just("merge"), st.none()),
        st.tuples(st.just("merge_some"), st.none()),
        st.tuples(st.just("pack"), st.none()),
        st.tuples(st.just("rebuild"), st.none()),
        st.tuples(st.just("roll_back"), st.lists(messages, min_size=1, max_size=4)),
    ),
    max_size=14,
)


@pytest.fixture(autouse=True)
def small_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few messages be enough for lists of several blocks, and for several steps."""
    monkeypatch.setattr(limits, "PACKED_POSTINGS_MIN", 2)
    monkeypatch.setattr(limits, "PACKED_BLOCK_POSTINGS", 4)
    monkeypatch.setattr(limits, "PACKED_LOG_MIN", 8)
    monkeypatch.setattr(limits, "PACKED_LOG_ROW", 3)
    monkeypatch.setattr(limits, "PACKED_STEP_POSTINGS", 6)
    monkeypatch.setattr(limits, "PACKED_STEP_WORDS", 2)
    monkeypatch.setattr(packed_words, "_ROWS_READ", 2)


class Indexed(IndexedWords):
    """The index of a file that two processes write."""

    def __init__(self, connection: Any = None) -> None:
        super().__init__(connection or open_file(":memory:"), Fts5WordIndex(), Fts5WordIndex())

    def pack(self, _: None = None) -> None:
        self.merge()
        index = self.index
        left = index.unpacked(self.connection, organization_id=ORGANIZATION) or ()
        while left := index.pack(self.connection, left, organization_id=ORGANIZATION):
            pass

    def rebuild(self, _: None = None) -> None:
        index = self.index
        index.begin_next(self.connection, organization_id=ORGANIZATION)
        index.add(self.connection, self.rows.values(), organization_id=ORGANIZATION, is_next=True)
        index.take_over(self.connection, organization_id=ORGANIZATION)

    def roll_back(self, given: Sequence[tuple[int, int, str, str]]) -> None:
        """Pack and add in a transaction that fails."""
        before = dict(self.rows)
        self.connection.execute("BEGIN")
        self.pack()
        self.add(given)
        self.add([(4, each[1], *each[2:]) for each in given])
        self.connection.execute("ROLLBACK")
        self.rows = before

    def packed(self) -> set[str]:
        return {term for (term,) in self.connection.execute("SELECT term FROM packed_word")}

    def blocks(self) -> int:
        return self.connection.execute("SELECT count(*) FROM packed_block").fetchone()[0]


@pytest.fixture
def indexed() -> Iterator[Indexed]:
    indexed = Indexed()
    yield indexed
    indexed.connection.close()


@promise("one-truth")
@given(steps=steps)
def test_packed_lists_say_what_the_messages_say(steps: list[tuple[str, Any]]) -> None:
    indexed = Indexed()
    for name, argument in steps:
        getattr(indexed, name)(argument)

        for term in WORDS:
            assert indexed.counts(term) == indexed.expected(term)
    assert indexed.faults() == []
    indexed.remove(set(range(1_000)))
    assert (indexed.packed(), indexed.blocks()) == (set(), 0)
    indexed.connection.close()


def test_words_of_many_messages_are_packed_and_rare_ones_are_not(indexed: Indexed) -> None:
    indexed.add([(1, at, "anna boat", "") for at in range(1, 12)] + [(2, 1, "cedar", "the")])
    indexed.pack()

    assert indexed.packed() == {"anna", "boat"}
    assert indexed.blocks() == 2 * 3
    assert indexed.counts("cedar") == indexed.expected("cedar")


def test_a_file_without_lists_has_no_log(indexed: Indexed) -> None:
    indexed.add([(1, at, "anna boat", "") for at in range(1, 12)])
    indexed.remove({0})

    assert [stored(indexed.connection, table) for table in TABLES] == [[]] * len(TABLES)


def test_only_the_last_block_of_a_list_is_written_again(indexed: Indexed) -> None:
    indexed.add([(1, at, "anna", "") for at in range(1, 7)])
    indexed.pack()
    before = stored(indexed.connection, "packed_block")
    indexed.add([(2, at, "anna", "") for at in range(1, 4)])
    indexed.merge()

    after = stored(indexed.connection, "packed_block")

    assert [row[3] for row in before] == [4, 2]
    assert [row[3] for row in after] == [4, 4, 1]
    assert before[0] == after[0]


def test_words_are_looked_for_again_when_a_file_has_grown(indexed: Indexed) -> None:
    def unpacked() -> Sequence[str] | None:
        return indexed.index.unpacked(indexed.connection, organization_id=ORGANIZATION)

    assert unpacked() is None
    indexed.add([(1, at, "anna", "") for at in range(1, 5)])
    indexed.pack()
    assert unpacked() is None
    indexed.add([(2, at, "boat", "") for at in range(1, 4)])
    assert unpacked() is None
    indexed.add([(2, 4, "boat", "")])
    assert unpacked() == ["boat"]


def test_a_log_of_many_words_is_merged_in_steps(indexed: Indexed) -> None:
    indexed.add([(1, at, "anna boat cedar the", "") for at in range(1, 3)])
    indexed.pack()
    indexed.add([(2, at, "anna boat cedar the the", "") for at in range(1, 9)])

    assert [indexed.merge_some(), indexed.merge_some(), indexed.merge_some()] == [
        True,
        False,
        False,
    ]

    assert stored(indexed.connection, "packed_log") == []
    assert indexed.faults() == []


def test_a_search_finds_nothing_that_was_added_after_its_snapshot(tmp_path: Path) -> None:
    indexed = Indexed(open_file(str(tmp_path / "words.db")))
    indexed.connection.execute("PRAGMA journal_mode = WAL")
    indexed.add([(1, at, "anna", "") for at in range(1, 12)])
    indexed.pack()
    indexed.add([(2, 1, "anna", "")])
    earlier, index = sqlite3.connect(tmp_path / "words.db"), Fts5WordIndex()
    earlier.execute("BEGIN")
    before = index.postings(earlier, ["anna"], organization_id=ORGANIZATION)

    for at in range(2, 30):
        indexed.add([(2, at, "anna", "")])
    # Read in the same process by searches that began later.
    later = index.postings(indexed.connection, ["anna"], organization_id=ORGANIZATION)

    again = index.postings(earlier, ["anna"], organization_id=ORGANIZATION)
    assert again.keys.tolist() == before.keys.tolist()
    assert len(later.keys) == len(before.keys) + 28
    earlier.close()
    indexed.connection.close()


def test_the_bigger_a_file_the_more_postings_a_list_has(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PACKED_POSTINGS_SHARE", 4)
    indexed.add(
        [(1, at, "anna" if at % 2 else "boat" if at > 12 else "", "") for at in range(1, 21)]
    )

    indexed.pack()

    assert indexed.packed() == {"anna"}


def test_a_beginning_is_looked_up_in_the_index_itself(indexed: Indexed) -> None:
    indexed.add([(1, at, "日本 日曜 日", "") for at in range(1, 8)])
    indexed.pack()

    assert indexed.packed() == {"日本", "日曜"}
    assert indexed.counts("日") == dict.fromkeys(indexed.rows, 3)
    assert indexed.faults() == []


def test_a_word_that_was_removed_meanwhile_is_not_packed(indexed: Indexed) -> None:
    indexed.add([(1, at, "anna", "") for at in range(1, 8)])
    indexed.merge()
    found = indexed.index.unpacked(indexed.connection, organization_id=ORGANIZATION) or ()
    indexed.remove(set(range(7)))

    left = indexed.index.pack(indexed.connection, found, organization_id=ORGANIZATION)

    assert (list(found), list(left), indexed.packed()) == (["anna"], [], set())


def test_nothing_is_packed_into_a_file_whose_lists_were_dropped_meanwhile(
    indexed: Indexed,
) -> None:
    indexed.add([(1, at, "anna", "") for at in range(1, 8)])
    indexed.merge()
    indexed.rebuild()

    left = indexed.index.pack(indexed.connection, ["anna"], organization_id=ORGANIZATION)

    assert (list(left), indexed.packed()) == ([], set())


def test_a_file_has_as_many_lists_as_the_log_has_numbers(
    indexed: Indexed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PACKED_WORDS_MAX", 1)
    indexed.add([(1, at, "anna boat", "") for at in range(1, 8)])

    indexed.pack()

    assert len(indexed.packed()) == 1
    assert indexed.faults() == []


DAMAGES = {
    "a block": "UPDATE packed_block SET packed = 'damaged'",
    "a short block": "UPDATE packed_block SET packed = x'0100'",
    "a block of other postings": "UPDATE packed_block SET packed = (SELECT max(packed) FROM packed_block)",
    "no block": "DELETE FROM packed_block WHERE key = (SELECT min(key) FROM packed_block)",
    "a block of no word": "UPDATE packed_block SET key = key + (1 << 30)",
    "the log": "UPDATE packed_log SET messages = x'00'",
    "words in the log": "UPDATE packed_log SET words = x''",
    "an emptied log": "DELETE FROM packed_log",
}


@promise("one-truth")
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_list_is_a_fault(indexed: Indexed, kind: str) -> None:
    indexed.add([(1, at, "anna boat", "") for at in range(1, 8)])
    indexed.pack()
    indexed.add([(2, at, "anna", "") for at in range(1, 8)])
    assert indexed.faults() == []

    indexed.connection.execute(DAMAGES[kind].replace("'damaged'", "CAST('damaged' AS BLOB)"))

    (fault,) = indexed.faults()
    assert "packed posting lists" in fault


@pytest.mark.parametrize("table", ["packed_block SET packed", "packed_log SET messages"])
def test_a_damaged_list_is_reported_by_searches_and_dropped_by_writers(
    indexed: Indexed, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    indexed.add([(1, at, "anna boat", "") for at in range(1, 8)])
    for change in (indexed.merge, lambda: indexed.remove({0})):
        indexed.pack()
        indexed.add([(len(indexed.rows), 50, "anna", "")])
        indexed.connection.execute(f"UPDATE {table} = x'01'")
        with pytest.raises(StoreCorruptError):
            indexed.counts("anna")

        change()

        assert indexed.counts("anna") == indexed.expected("anna")
        assert (indexed.packed(), indexed.blocks(), indexed.faults()) == (set(), 0, [])
    assert "damaged" in caplog.text


@promise("reproducible")
def test_a_search_ranks_the_same_before_and_after_packing(tmp_path: Path) -> None:
    connection = open_file(tmp_path / "words.db")
    store = WordStore(connection)
    fill(store, conversations=8, messages=20)
    queries = ["anna", "jade inlet anna", "boat boat cedar unheard", "grove"]
    before = [shares_of(store.search(query)) for query in queries]

    indexed = Indexed(connection)
    indexed.pack()
    store.tenant = replace(store.tenant, posting_cache=PostingCache())

    assert "anna" in indexed.packed()
    assert [shares_of(store.search(query)) for query in queries] == before
    connection.close()


@given(st.dictionaries(st.integers(0, 2**62), st.integers(1, 2**31), min_size=1))
def test_any_list_comes_back_as_it_was(postings: dict[int, int]) -> None:
    columns = ([*postings], [*postings.values()])
    packed = pack_list(PostingList(*(np.array(each, dtype=np.int64) for each in columns)))

    again = unpack_list(packed)

    assert (again.keys.tolist(), again.counts.tolist()) == columns


@on_sqlite
@promise("one-truth")
async def test_lists_are_kept_by_a_job_once_a_file_has_grown(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    conversation = await begin(organization, *["tanuki by the river"] * 7)
    await append(organization, "tanuki", to=conversation)
    assert await organization.list_jobs(limit=10) == ()
    await append(elsewhere, "tanuki", to=conversation)

    jobs = [job.kind for job in await organization.list_jobs(limit=10)]
    await organization.merge_words()
    await append(elsewhere, "tanuki at sea", to=conversation)

    assert jobs == ["merge_words"]
    assert {term for term, _ in lists_of(tmp_path, organization)} == {
        "tanuki",
        "river",
        "by",
        "the",
    }
    assert await count_holders(organization, "tanuki", limit=99) == 10
    assert await count_holders(elsewhere, "river", limit=99) == 7
    assert await findings(organization) == []


@on_sqlite
@promise("one-truth")
async def test_lists_follow_what_is_deleted_and_reindexed(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    kept = await begin(organization, *["apple pie"] * 9)
    deleted = await begin(organization, *["apple tart"] * 9)
    await organization.merge_words()
    await append(elsewhere, "apple", to=deleted)

    await elsewhere.delete_conversation(deleted, actor=ACTOR)
    assert {term for term, _ in lists_of(tmp_path, organization)} == {"appl", "pie"}
    assert await count_holders(organization, "appl", limit=99) == 9
    assert await findings(organization) == []

    await organization.reindex()
    assert lists_of(tmp_path, organization) == []
    await append(elsewhere, "apple", to=kept)
    await elsewhere.merge_words()
    assert len(lists_of(tmp_path, organization)) == 2
    assert await count_holders(organization, "appl", limit=99) == 10
    assert await findings(organization) == []


@on_sqlite
@promise("one-truth")
async def test_a_damaged_list_is_found_and_mended(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await begin(organization, *["apple pie"] * 9)
    await organization.merge_words()
    damage(tmp_path, organization, "UPDATE packed_block SET packed = x'01'")

    (finding,) = await findings(organization)
    with pytest.raises(StoreCorruptError):
        await find(organization, "appl")
    await organization.repair()

    assert (finding.check, finding.repairable) == ("words", True)
    assert await findings(organization) == []
    assert await count_holders(organization, "appl") == 9


@on_sqlite
async def test_nothing_of_an_erased_word_is_left(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    word = unique_word(7)
    await begin(organization, *["apple pie"] * 9)
    gone = await begin(organization, *[f"apple {word}"] * 9)
    await organization.merge_words()
    await append(organization, f"another {word}", to=gone)
    assert word in {term for term, _ in lists_of(tmp_path, organization)}

    await erase(organization, ErasureRequest(conversation_id=gone))

    assert places_of(tmp_path, word.encode()) == []
    assert {term for term, _ in lists_of(tmp_path, organization)} == {"appl", "pie"}
    assert await count_holders(organization, "appl") == 9
    assert await findings(organization) == []


def lists_of(folder: Path, organization: OrganizationStore) -> list[tuple[Any, ...]]:
    with opened(folder, organization) as connection:
        return stored(connection, "packed_word")


def stored(connection: Any, table: str) -> list[tuple[Any, ...]]:
    return connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 fixed names
