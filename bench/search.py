"""Processor time of a word search beside the bare FTS5 queries and the reading of what is found."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

from bench.figures import Figure
from bench.filling import fill_organization
from bench.texts import sentences
from engram.embedding.choice import NoEmbedder
from engram.limits import LEG_CANDIDATES
from engram.model.access import Principal
from engram.model.row_keys import message_key
from engram.model.search import SearchAnswer, SearchRequest
from engram.service import Service
from engram.settings import Settings
from engram.storage.sqlite.word_index import key_of_word_row
from engram.text.analyse import query_terms
from engram.text.windows import windows_of
from engram.wiring import open_service

QUERIES = 20
QUERY_WORDS = 8
ROUNDS = 5
TURNS = 25
"""Of the two organisations, each of which counts with its quickest: others only ever add to a time."""

FLOOR_BOUND = 2.0
FLOOR_CHUNKS = 100_000
"""The bound is for this many; a small store is dominated by what a search costs in any case."""

NEIGHBOURS_BOUND = 1.15
"""The cost must not grow; the rest is the noise of the machine."""


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of the search."""
    chunks, neighbours, neighbour_chunks = (5_000, 10, 100) if quick else (FLOOR_CHUNKS, 100, 1_000)
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        beside_fts5 = asyncio.run(_beside_fts5(Path(directory), chunks=chunks))
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        beside_others = asyncio.run(
            _beside_others(Path(directory), neighbours=neighbours, chunks=neighbour_chunks)
        )
    return [beside_fts5, beside_others]


@cache
def queries() -> tuple[str, ...]:
    """Return runs of words as they stand in the texts, stop words included."""
    choice = random.Random(3)  # noqa: S311 fixed queries, not a secret
    chosen = [text.split() for text in sentences() if len(text.split()) > 2 * QUERY_WORDS]
    return tuple(
        " ".join(words[start : start + QUERY_WORDS])
        for words in choice.sample(chosen, QUERIES)
        for start in [choice.randrange(len(words) - QUERY_WORDS)]
    )


async def _beside_fts5(home: Path, *, chunks: int) -> Figure:
    async with open_service(Settings(home=home, embedder=NoEmbedder())) as service:
        principal = await fill_organization(service, chunks=chunks)
        path = home / "orgs" / f"{principal.organization_id}.db"
        with closing(sqlite3.connect(path)) as connection:
            answers = [await _search(service, principal, query) for query in queries()]
            found = [found_keys(connection, answer) for answer in answers]
            index_windows(connection)
            ask_fts5(connection, found)
            pairs = [
                (await _search_seconds(service, principal), ask_fts5(connection, found))
                for _ in range(ROUNDS)
            ]
    return Figure(
        name=f"word search over {chunks:,} chunks",
        value=1000 * statistics.median(own for own, _ in pairs),
        unit="CPU ms",
        floor=1000 * statistics.median(floor for _, floor in pairs),
        floor_name="bare FTS5 queries for messages and windows, and reading the messages found",
        direction="at most",
        bound=None if chunks < FLOOR_CHUNKS else FLOOR_BOUND,
    )


async def _beside_others(home: Path, *, neighbours: int, chunks: int) -> Figure:
    """Compare two equal organisations, one alone in its store, in turns: machines change their pace."""
    async with (
        open_service(Settings(home=home / "alone", embedder=NoEmbedder())) as alone,
        open_service(Settings(home=home / "among", embedder=NoEmbedder())) as among,
    ):
        one = await fill_organization(alone, chunks=chunks)
        other = await fill_organization(among, chunks=chunks)
        for _ in range(neighbours):
            await _search_seconds(among, await fill_organization(among, chunks=chunks))
        await _search_seconds(alone, one)
        await _search_seconds(among, other)
        pairs = [
            (await _search_seconds(among, other), await _search_seconds(alone, one))
            for _ in range(TURNS)
        ]
    return Figure(
        name=f"word search while {neighbours} other organisations hold {chunks:,} chunks each",
        value=1000 * min(own for own, _ in pairs),
        unit="CPU ms",
        floor=1000 * min(floor for _, floor in pairs),
        floor_name="alone",
        direction="at most",
        bound=NEIGHBOURS_BOUND,
    )


async def _search(service: Service, principal: Principal, query: str) -> SearchAnswer:
    return await service.search.search(principal, SearchRequest(query=query, profile="words"))


async def _search_seconds(service: Service, principal: Principal) -> float:
    """Return the processor seconds of one search, of all threads together."""
    started = time.process_time()
    for query in queries():
        await _search(service, principal, query)
    return (time.process_time() - started) / QUERIES


def index_windows(connection: sqlite3.Connection) -> None:
    """Give a file's connection what FTS5 by itself needs to rank windows: a table of their words."""
    connection.execute(
        "CREATE VIRTUAL TABLE temp.window_words USING fts5("
        "words, content = '', tokenize = \"ascii tokenchars '_+#'\")"
    )
    words: dict[int, str] = {
        key_of_word_row(row): text
        for row, text in connection.execute(
            "SELECT doc, group_concat(term, ' ') FROM message_word_places "
            "WHERE col = 'words' GROUP BY doc"
        )
    }
    lengths = connection.execute("SELECT number, message_count FROM conversation").fetchall()
    connection.executemany(
        "INSERT INTO temp.window_words (words) VALUES (?)",
        (
            (" ".join(words.get(message_key(number, seq), "") for seq in range(start, end + 1)),)
            for number, length in lengths
            for start, end in ((each.start, each.end) for each in windows_of(length))
        ),
    )


def ask_fts5(connection: sqlite3.Connection, found: list[list[int]]) -> float:
    """Return the processor seconds of ranking messages and windows by FTS5 and reading `found`."""
    started = time.process_time()
    for query, keys in zip(queries(), found, strict=True):
        match = " OR ".join(f'"{term}"' for term in query_terms(query))
        for table in ("message_words", "window_words"):
            connection.execute(
                f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY bm25({table}) LIMIT ?",  # noqa: S608 two fixed names
                (match, LEG_CANDIDATES),
            ).fetchall()
        marks = ",".join("?" * len(keys))
        connection.execute(f"SELECT * FROM message WHERE key IN ({marks})", keys).fetchall()  # noqa: S608 marks only
    return (time.process_time() - started) / QUERIES


def found_keys(connection: sqlite3.Connection, answer: SearchAnswer) -> list[int]:
    """Return the row ids of the messages in an answer."""
    numbers: dict[str, int] = dict(connection.execute("SELECT id, number FROM conversation"))
    return [
        message_key(numbers[result.owner.id], found.message.sequence)
        for result in answer.results
        for found in result.messages
    ]
