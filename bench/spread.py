"""What a message takes in PostgreSQL, table by table, what a second home costs, and how long a move takes."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg

from bench.figures import Figure, allowed
from bench.filling import CHAT_MESSAGES, drafts_of, in_batches
from bench.planting import planted_vectors
from bench.search import queries
from bench.texts import chat
from engram.clock import RandomIds, SystemClock
from engram.embedding.registry import ARCTIC
from engram.limits import LEG_CANDIDATES
from engram.model.access import OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, ConversationDraft
from engram.model.search import Candidates, SearchFilters
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import hnsw
from engram.storage.postgres.home_list import add_home
from engram.storage.postgres.relocation import HomeAccess, Mover
from engram.storage.postgres.store import PostgresStore
from engram.text.analyse import query_terms
from engram.vectors.quantise import pack_blobs, quantise
from tests.postgres.servers import Server, running_servers

ACTOR = "bench"
MESSAGES_PER_CALL = 10
ROUNDS = 5
LEASE = timedelta(minutes=5)
FULL = 5_000
"""Messages from which on the bound holds: a small database is dominated by its empty pages."""
MESSAGE_BYTES_MAX = 1_200
SMALL = 5.0
"""Bytes a message below which a table is not worth a line."""

_SIZES = """
SELECT relname::text, pg_total_relation_size(oid) FROM pg_class
WHERE relnamespace = 'engram'::regnamespace AND relkind = 'r'
"""
_MESSAGES = "SELECT organization_id, key, characters FROM engram.message ORDER BY key"
_ADD_EMBEDDER = """
INSERT INTO engram.embedder (organization_id, role, identity) VALUES (%s, 'deep', %s)
RETURNING number
"""
_ADD_VECTORS = """
COPY engram.vector
    (organization_id, seq, embedder, key, start_character, end_character, content) FROM STDIN
"""
_COUNT_VECTORS = """
WITH state AS (UPDATE engram.vector_state SET seq = %(count)s)
UPDATE engram.counters SET vectors = %(count)s
"""


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of one server, and of a second one that is a home."""
    count = 1_000 if quick else FULL
    with running_servers() as servers:
        one, other = (servers.primary() for _ in range(2))
        for server in (one, other):
            server.execute("CREATE DATABASE engram")
        url = one.socket_url("engram")
        add_home(url, "other", other.socket_url("engram"), clock=SystemClock())
        texts = list(chat(count))
        empty = _table_bytes(other)
        alone = asyncio.run(_fill_and_search(url, texts, home=None))
        plant_deep_vectors(url)
        sizes = _sizes(one, texts, empty=empty)
        asyncio.run(_move_vectors(url))
        partition = _partition_size(one, count=count)
        at_home = asyncio.run(_fill_and_search(url, texts, home="other"))
        return [*sizes, partition, *_costs(alone, at_home, count=count), *_moves(url, count=count)]


async def _fill_and_search(
    url: str, texts: Sequence[str], *, home: str | None
) -> tuple[float, float]:
    """Return how long it took to append the texts, and to search for each question."""
    store = PostgresStore(url, clock=SystemClock(), ids=RandomIds())
    await store.open()
    try:
        made = await store.control.create_organization(
            OrganizationDraft(name="bench", home=home), actor=ACTOR
        )
        organization = await store.organization(made.id)
        batches = list(in_batches(iter(texts), CHAT_MESSAGES))
        # What a process does once is not what an append or a search costs.
        await _append(organization, batches[0])
        await _search_all(organization)
        await organization.train_dictionary()
        started = time.perf_counter()
        for some in batches[1:]:
            await _append(organization, some)
        appending_s = time.perf_counter() - started
        rounds = [await _search_all(organization) for _ in range(ROUNDS)]
        return appending_s, statistics.median(rounds)
    finally:
        await store.close()


async def _append(organization: OrganizationStore, texts: Sequence[str]) -> None:
    """Append one conversation."""
    begun = await organization.create_conversation(ConversationDraft(title="Chat"), actor=ACTOR)
    for messages in in_batches(drafts_of(texts), MESSAGES_PER_CALL):
        request = AppendRequest(messages=messages, conversation_id=begun)
        await organization.append_messages(request, actor=ACTOR, quota=Quota())
    # A server does so in the background.
    jobs = await organization.claim_jobs(["merge_words"], owner=ACTOR, lease=LEASE, limit=1)
    for job in jobs:
        await organization.merge_words()
        await organization.finish_job(job, owner=ACTOR)


async def _search_all(organization: OrganizationStore) -> float:
    """Return how long it took to ask all questions."""
    started = time.perf_counter()
    for query in queries():
        await organization.search(
            query_terms(query),
            vectors=(),
            filters=SearchFilters(),
            now=0,
            limit=LEG_CANDIDATES,
            choose=_Kept,
        )
    return time.perf_counter() - started


class _Kept:
    """Keeps the candidates and reads nothing."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.messages: Sequence[Any] = ()
        self.conversations: Sequence[Any] = ()
        self.whole_tokens_max: int | None = None


def _sizes(server: Server, texts: Sequence[str], *, empty: Mapping[str, int]) -> list[Figure]:
    """Return by how many bytes each table has grown for a message, with a deep vector for each."""
    raw = sum(len(text.encode()) for text in texts) / len(texts)
    each = {name: (size - empty[name]) / len(texts) for name, size in _table_bytes(server).items()}
    lines = {name: size for name, size in each.items() if size >= SMALL}
    return [
        *_each_size(lines, raw=raw, count=len(texts)),
        allowed(
            f"bytes a message in PostgreSQL: all tables, {len(texts):,} chat messages",
            sum(each.values()),
            unit="bytes",
            at_most=MESSAGE_BYTES_MAX,
            is_bound=len(texts) >= FULL,
        ),
    ]


def _each_size(lines: Mapping[str, float], *, raw: float, count: int) -> list[Figure]:
    return [
        Figure(
            name=f"bytes a message in PostgreSQL: {name}, {count:,} chat messages",
            value=size,
            unit="bytes",
            floor=raw,
            floor_name="raw text",
            direction="at most",
            bound=None,
        )
        for name, size in sorted(lines.items(), key=lambda line: line[1])
    ]


def plant_deep_vectors(url: str) -> None:
    """Give every message a deep vector."""
    dimensions = ARCTIC.identity.dimensions
    with psycopg.connect(url) as driver:
        messages = driver.execute(_MESSAGES).fetchall()
        vectors = planted_vectors(np.random.default_rng(11), len(messages))
        blobs = pack_blobs(quantise(vectors, dimensions=dimensions))
        organization, _, _ = messages[0]
        embedder = driver.execute(
            _ADD_EMBEDDER, (organization, ARCTIC.identity.as_text())
        ).fetchone()
        assert embedder is not None
        with driver.cursor() as cursor, cursor.copy(_ADD_VECTORS) as copy:
            for seq, ((_, key, characters), blob) in enumerate(
                zip(messages, blobs, strict=True), 1
            ):
                copy.write_row((organization, seq, embedder[0], key, 0, characters, blob))
        driver.execute(_COUNT_VECTORS, {"count": len(messages)})


async def _move_vectors(url: str) -> None:
    """Give the vectors a partition, as those of a big organisation have."""
    hnsw.VECTORS_MIN = hnsw.BEHIND_MAX = 1
    store = PostgresStore(url, clock=SystemClock(), ids=RandomIds())
    await store.open()
    try:
        (made,) = await store.control.list_organizations()
        await (await store.organization(made.id)).tend_vectors()
    finally:
        await store.close()


def _partition_size(server: Server, *, count: int) -> Figure:
    return Figure(
        name=f"bytes a vector in the partition of a big organisation, {count:,} vectors",
        value=_table_bytes(server)["near_vector_1"] / count,
        unit="bytes",
        floor=2.0 * ARCTIC.identity.dimensions,
        floor_name="two bytes for each dimension",
        direction="at most",
        bound=None,
    )


def _table_bytes(server: Server) -> dict[str, int]:
    """Return the bytes of every table with its indexes and what is stored out of line."""
    return dict(server.execute(_SIZES, database="engram"))


def _costs(
    alone: tuple[float, float], at_home: tuple[float, float], *, count: int
) -> Sequence[Figure]:
    return [
        Figure(
            name="durable appends at a second home, one client",
            value=(count - CHAT_MESSAGES) / at_home[0],
            unit="messages/s",
            floor=(count - CHAT_MESSAGES) / alone[0],
            floor_name="in the control database",
            direction="at least",
            bound=None,
        ),
        Figure(
            name=f"word search over {count:,} messages at a second home",
            value=1000 * at_home[1] / len(queries()),
            unit="ms",
            floor=1000 * alone[1] / len(queries()),
            floor_name="in the control database",
            direction="at most",
            bound=None,
        ),
    ]


def _moves(url: str, *, count: int) -> Sequence[Figure]:
    """Return how long a move of the first organisation takes, and how long its writers wait."""
    at = dict[str, float]()
    with closing(HomeAccess(url)) as control:
        with control.reading() as connection:
            statement = "SELECT organization_id FROM organization WHERE home IS NULL"
            (organization_id,), *_ = connection.execute(statement).fetchall()
        mover = Mover(
            control=control,
            clock=SystemClock(),
            ids=RandomIds(),
            tell=lambda step: at.update({step: time.perf_counter()}),
        )
        mover.move(organization_id, "other")
    return [
        _seconds(f"move of {count:,} messages to another home", at["removed"] - at["begun"]),
        _seconds(f"writers wait at a move of {count:,} messages", at["sealed"] - at["copied"]),
    ]


def _seconds(name: str, value: float) -> Figure:
    return Figure(
        name=name,
        value=value,
        unit="s",
        floor=30.0,
        floor_name="a writer gives up after",
        direction="at most",
        bound=None,
    )
