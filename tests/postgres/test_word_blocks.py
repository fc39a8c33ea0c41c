"""The word index in blocks agrees with a plain dictionary, whatever was added, merged and removed."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram import limits
from engram.errors import StoreCorruptError
from engram.storage.postgres.connection import PostgresConnection, set_up
from engram.storage.postings import block_index, blocks
from engram.storage.postings.block_cache import nothing_known
from engram.storage.postings.block_index import BlockWordIndex
from engram.storage.rows.database import RemoteConnection
from engram.storage.rows.queries import load_queries
from tests.postgres.servers import Server
from tests.postgres.stores import new_organization, opened
from tests.storage.drafts import ACTOR, append, begin, count_holders, findings
from tests.storage.indexed_words import ORGANIZATION, IndexedWords

_WORDS = ["a", "anna", "annaa", "boat", "cedar", "harbor", "ü", "日", "日本", "本日"]
_ROWS = ("word_tail", "word_page", "word_block", "word_length")

_MANY_PAGES = """
INSERT INTO word_page (organization_id, generation, first_term, content)
SELECT :organization_id, 0, 'word' || number, 'x' FROM generate_series(1, 3000) AS number
"""

words = st.lists(st.sampled_from(_WORDS), max_size=6).map(" ".join)
messages = st.tuples(st.integers(1, 3), st.integers(1, 200), words, words)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(messages, min_size=1, max_size=8)),
        st.tuples(st.just("remove"), st.sets(st.integers(0, 500), max_size=12)),
        st.tuples(st.just("merge"), st.none()),
    ),
    max_size=12,
)


class Connection(PostgresConnection, RemoteConnection):
    """A connection that answers at once."""


class Indexed(IndexedWords):
    """An index in blocks."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, BlockWordIndex())

    def stored(self) -> list[tuple[Any, ...]]:
        return [row for name in _ROWS for row in self.connection.execute(f"SELECT * FROM {name}")]  # noqa: S608 fixed names


@pytest.fixture
def driver(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as driver:
        set_up(driver)
        yield driver


@pytest.fixture
def indexed(driver: psycopg.Connection[Any]) -> Iterator[Indexed]:
    with emptied(driver) as indexed:
        yield indexed


@contextmanager
def emptied(driver: psycopg.Connection[Any]) -> Generator[Indexed]:
    """Yield an empty index that is gone afterwards."""
    with driver.transaction(force_rollback=True):
        driver.execute(f"SET LOCAL engram.organization_id = {ORGANIZATION}".encode())
        driver.execute("INSERT INTO word_index (organization_id) VALUES (%s)", (ORGANIZATION,))
        yield Indexed(Connection(driver))


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages and blocks overflow with a few messages."""
    monkeypatch.setattr(block_index, "_PAGE_POSTINGS_MAX", 8)
    monkeypatch.setattr(block_index, "_PAGE_TERMS_MAX", 3)
    monkeypatch.setattr(block_index, "_BLOCK_POSTINGS", 4)


@pytest.mark.usefixtures("small_pages")
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=steps)
def test_what_is_held_is_found_and_nothing_else(
    driver: psycopg.Connection[Any], steps: list[tuple[str, Any]]
) -> None:
    with emptied(driver) as indexed:
        for name, argument in steps:
            getattr(indexed, name)(argument)

        for term in _WORDS:
            if len(term) > 1 or term.isascii():
                assert indexed.counts(term) == indexed.expected(term)
        assert indexed.faults() == []
        total = indexed.index.statistics(indexed.connection, organization_id=ORGANIZATION)
        assert total.texts == len(indexed.rows)
        indexed.remove(set(range(10_000)))
        assert [row for row in indexed.stored() if any(row[3:])] == []


@pytest.mark.usefixtures("small_pages")
def test_a_beginning_finds_all_words_that_have_it(indexed: Indexed) -> None:
    indexed.add([(1, at, "日本 日本 日曜 boat", "") for at in range(1, 8)])
    indexed.merge()
    indexed.add([(1, 9, "日本", "本日")])

    assert indexed.counts("日") == {
        **dict.fromkeys([(1 << 24) + at for at in range(1, 8)], 3),
        (1 << 24) + 9: 1,
    }
    assert indexed.counts("本") == {(1 << 24) + 9: 1}


@pytest.mark.usefixtures("small_pages")
def test_no_bound_of_a_page_tells_of_a_word_that_was_removed(indexed: Indexed) -> None:
    indexed.add([(1, at, f"word{at:03} zebra", "") for at in range(1, 40)])
    indexed.merge()

    for at in range(0, 38, 2):
        indexed.remove({at // 2})

    held = {word for row in indexed.rows.values() for word in row.telling.split()}
    bounds = {bound for _, _, bound, _ in indexed.connection.execute("SELECT * FROM word_page")}
    assert bounds <= held | {""}
    assert indexed.faults() == []


def test_a_damaged_block_is_reported_and_not_taken_for_an_empty_one(indexed: Indexed) -> None:
    indexed.add([(1, at, "anna boat", "") for at in range(1, 9)])
    indexed.merge()
    indexed.connection.execute("UPDATE word_page SET content = 'damaged'")

    assert indexed.faults() == ["the word index holds other words than the messages"]
    with pytest.raises(StoreCorruptError):
        indexed.postings("anna")


@pytest.mark.usefixtures("database_url")
@pytest.mark.parametrize("name", ["postings", "pages_of_terms"])
def test_the_pages_of_words_are_found_by_their_index(postgres_server: Server, name: str) -> None:
    terms = [f"word{number}" for number in range(10)]
    values = {
        "organization_id": ORGANIZATION,
        "terms": terms,
        "generation_step": 0,
        **nothing_known(terms),
    }
    # Only the owner of a table may have it analysed.
    with psycopg.connect(postgres_server.url("engram_test"), autocommit=True) as driver:
        run = PostgresConnection(driver).execute
        with driver.transaction(force_rollback=True):
            run("SET LOCAL search_path = engram")
            run(_MANY_PAGES, values)
            run("ANALYZE word_page")
            run("SET LOCAL ROLE engram_app")
            run(f"SET LOCAL engram.organization_id = {ORGANIZATION}")

            plan = run(f"EXPLAIN {load_queries('postings/blocks.sql')[name]}", values).fetchall()

    assert [line for (line,) in plan if "Seq Scan on word_page" in line] == []


def test_any_block_comes_back_as_it_was() -> None:
    tail = blocks.Tail.of({2**58 + at: ["日本", "a", "a"] * (at % 3 + 1) for at in range(300)})
    block = blocks.block_of(tail)

    again = blocks.unpack(blocks.pack(block))

    assert again.terms == block.terms == ["a", "日本"]
    assert again.sizes.tolist() == [300, 300]
    assert again.keys.tolist() == block.keys.tolist()
    assert again.counts.tolist() == [2, 4, 6] * 100 + [1, 2, 3] * 100


async def test_a_long_tail_is_merged_by_a_job_and_finds_the_same(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TAIL_WORDS_MIN", 40)
    async with opened(database_url) as store:
        organization = await new_organization(store)
        conversation = await begin(organization)
        for number in range(20):
            await append(organization, f"tanuki number{number} by the river", to=conversation)
        before = await count_holders(organization, "number7")

        jobs = [job.kind for job in await organization.list_jobs(limit=10)]
        await organization.merge_words()

        assert jobs == ["merge_words"]
        assert before == await count_holders(organization, "number7") == 1
        assert await findings(organization) == []
        await organization.delete_conversation(conversation, actor=ACTOR)
        assert await findings(organization) == []
