"""Appends and searches on PostgreSQL beside the same statements sent by bare psycopg."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg

from bench.figures import Figure
from bench.filling import drafts_of, in_batches
from bench.planting import planted_vectors
from bench.search import queries
from bench.texts import sized
from engram.clock import RandomIds, SystemClock
from engram.embedding.registry import ARCTIC
from engram.limits import LEG_CANDIDATES
from engram.model.access import OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, ConversationDraft
from engram.model.ids import ConversationId, OrganizationId
from engram.model.search import Candidates, SearchFilters
from engram.model.vectors import QueryVector
from engram.storage.organization import OrganizationStore
from engram.storage.postgres import hnsw
from engram.storage.postgres.connection import PostgresConnection, set_up, translate
from engram.storage.postgres.store import PostgresStore
from engram.storage.postgres.transactions import OrganizationScope
from engram.text.analyse import query_terms
from engram.vectors.arrays import Floats
from engram.vectors.matrix import VectorMatrix
from engram.vectors.quantise import pack_blobs, quantise
from tests.postgres.servers import Server, running_servers

ACTOR = "bench"
MESSAGES_PER_CALL = 6
MESSAGE_CHARACTERS = 300
APPENDS_BOUND = 0.5
SEARCHES_BOUND = 3.0
RECALL_BOUND = 0.98
NEAREST = 10
ROUNDS = 5


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of PostgreSQL, on a server of their own."""
    calls, vectors = (100, 55_000) if quick else (500, 100_000)
    with running_servers() as servers:
        server = servers.primary()
        return [
            *asyncio.run(_beside_statements(server, calls=calls)),
            asyncio.run(_recall(server, vectors=vectors)),
        ]


@dataclass(slots=True)
class _Recording:
    """The statements of pieces of work, with their values, as the driver got them."""

    works: list[list[tuple[bytes, list[Any], bool]]] = field(
        default_factory=list[list[tuple[bytes, list[Any], bool]]]
    )

    def begin(self) -> None:
        """Let the statements from here on belong to the next piece of work."""
        self.works.append([])

    def note(self, text: bytes, values: list[Any], *, is_many: bool) -> None:
        self.works[-1].append((text, values, is_many))


@contextmanager
def _recording() -> Generator[_Recording]:
    """Yield what notes every statement of the tables while this lasts."""
    recording = _Recording()
    execute, executemany = PostgresConnection.execute, PostgresConnection.executemany

    def execute_noted(self: PostgresConnection, statement: str, values: Any = (), /) -> Any:
        translated = translate(statement)
        recording.note(translated.text, [translated.bind(dict(values))], is_many=False)
        return execute(self, statement, values)

    def executemany_noted(self: PostgresConnection, statement: str, rows: Any, /) -> Any:
        given = list(rows)
        translated = translate(statement)
        recording.note(translated.text, [translated.bind(dict(row)) for row in given], is_many=True)
        return executemany(self, statement, given)

    PostgresConnection.execute = execute_noted
    PostgresConnection.executemany = executemany_noted
    try:
        yield recording
    finally:
        PostgresConnection.execute, PostgresConnection.executemany = execute, executemany


async def _beside_statements(server: Server, *, calls: int) -> list[Figure]:
    """Append and search through the store, and send the same statements again by themselves."""
    server.execute("CREATE DATABASE through")
    organization_id, conversation = await prepare(server.socket_url("through"))
    server.execute("CREATE DATABASE bare TEMPLATE through")
    store = PostgresStore(server.socket_url("through"), clock=SystemClock(), ids=RandomIds())
    await store.open()
    try:
        organization = await store.organization(organization_id)
        appends, appending_s = await _append_all(organization, conversation, calls=calls)
        searches, searching_s = await _search_all(organization)
    finally:
        await store.close()
    with psycopg.connect(server.socket_url("bare"), autocommit=True) as driver:
        set_up(driver)
        scope = OrganizationScope(_number_of(driver, organization_id), organization_id)
        bare_appending_s = _replay(driver, appends, scope.begin_write, end=b"COMMIT")
        rounds = [
            _replay(driver, searches, scope.begin_read, end=b"ROLLBACK") for _ in range(ROUNDS)
        ]
    return [
        Figure(
            name="durable appends on PostgreSQL, one client",
            value=calls * MESSAGES_PER_CALL / appending_s,
            unit="messages/s",
            floor=calls * MESSAGES_PER_CALL / bare_appending_s,
            floor_name="the same statements by bare psycopg",
            direction="at least",
            bound=APPENDS_BOUND,
        ),
        Figure(
            name=f"word search over {calls * MESSAGES_PER_CALL:,} messages on PostgreSQL",
            value=1000 * searching_s / len(queries()),
            unit="ms",
            floor=1000 * statistics.median(rounds) / len(queries()),
            floor_name="the same statements by bare psycopg",
            direction="at most",
            bound=SEARCHES_BOUND,
        ),
    ]


async def prepare(url: str) -> tuple[OrganizationId, ConversationId]:
    """Make an organisation with an empty conversation."""
    store = PostgresStore(url, clock=SystemClock(), ids=RandomIds())
    await store.open()
    try:
        made = await store.control.create_organization(OrganizationDraft(name="bench"), actor=ACTOR)
        organization = await store.organization(made.id)
        draft = ConversationDraft(title="Bench")
        return made.id, await organization.create_conversation(draft, actor=ACTOR)
    finally:
        await store.close()


async def _append_all(
    organization: OrganizationStore, conversation: ConversationId, *, calls: int
) -> tuple[_Recording, float]:
    texts = sized(calls * MESSAGES_PER_CALL, characters=MESSAGE_CHARACTERS)
    requests = [
        AppendRequest(conversation_id=conversation, messages=messages)
        for messages in in_batches(drafts_of(texts), MESSAGES_PER_CALL)
    ]
    with _recording() as recording:
        started = time.perf_counter()
        for request in requests:
            recording.begin()
            await organization.append_messages(request, actor=ACTOR, quota=Quota())
        return recording, time.perf_counter() - started


async def _search_all(organization: OrganizationStore) -> tuple[_Recording, float]:
    """Return the statements of all queries, and the median time of asking them.

    They are recorded when each was asked before, as they are timed: a search remembers words.
    """
    for query in queries():
        await _search(organization, query)
    with _recording() as recording:
        for query in queries():
            recording.begin()
            await _search(organization, query)
    rounds: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for query in queries():
            await _search(organization, query)
        rounds.append(time.perf_counter() - started)
    return recording, statistics.median(rounds)


async def _search(organization: OrganizationStore, query: str) -> None:
    await organization.search(
        query_terms(query),
        vectors=(),
        filters=SearchFilters(),
        now=0,
        limit=LEG_CANDIDATES,
        choose=_Best,
    )


class _Best:
    """Reads what a search delivers at most: the first messages."""

    def __init__(self, candidates: Candidates) -> None:
        self.messages = candidates.keys[:50].tolist()
        self.conversations = [*dict.fromkeys(candidates.conversations[:50].tolist())]
        self.whole_tokens_max: int | None = None


def _replay(
    driver: psycopg.Connection[Any],
    recording: _Recording,
    begin: Callable[[PostgresConnection], object],
    *,
    end: bytes,
) -> float:
    started = time.perf_counter()
    for work in recording.works:
        begin(PostgresConnection(driver))
        for text, values, is_many in work:
            if is_many:
                with driver.cursor() as cursor:
                    cursor.executemany(text, values)
            else:
                cursor = driver.execute(text, values[0], binary=True)
                if cursor.description is not None:
                    cursor.fetchall()
        driver.execute(end)
    return time.perf_counter() - started


def _number_of(driver: psycopg.Connection[Any], organization_id: OrganizationId) -> int:
    row = driver.execute(
        "SELECT number FROM organization WHERE organization_id = %s", (organization_id,)
    ).fetchone()
    assert row is not None
    return row[0]


async def _recall(server: Server, *, vectors: int) -> Figure:
    """Return how many of the ten nearest a search through the partition has among its candidates."""
    server.execute("CREATE DATABASE near")
    url = server.socket_url("near")
    organization_id, _ = await prepare(url)
    random = np.random.default_rng(11)
    rows = planted_vectors(random, vectors)
    asked = planted_vectors(random, 100)
    plant(url, organization_id, rows)
    store = PostgresStore(url, clock=SystemClock(), ids=RandomIds())
    await store.open()
    try:
        organization = await store.organization(organization_id)
        hnsw.VECTORS_MIN = 1
        moved = await organization.tend_vectors()
        assert moved == vectors, moved
        found = [await nearest(organization, query) for query in asked]
    finally:
        await store.close()
    exact = VectorMatrix(ARCTIC.identity.dimensions)
    exact.add(_keys(vectors), quantise(rows, dimensions=ARCTIC.identity.dimensions))
    hits = sum(
        len({*exact.search(query, NEAREST)[0].tolist()} & {*keys})
        for query, keys in zip(asked, found, strict=True)
    )
    return Figure(
        name=f"ten nearest of {vectors:,} vectors found through the partition's index",
        value=hits / len(asked),
        unit="of 10",
        floor=float(NEAREST),
        floor_name="exact search",
        direction="at least",
        bound=RECALL_BOUND,
    )


async def nearest(organization: OrganizationStore, query: Floats) -> list[int]:
    """Return the ten nearest of the candidates of a search by meaning alone."""
    vector = QueryVector(tier="deep", identity=ARCTIC.identity.as_text(), vector=query)
    kept, _ = await organization.search(
        (),
        vectors=[vector],
        filters=SearchFilters(),
        now=0,
        limit=LEG_CANDIDATES,
        choose=_Kept,
    )
    order = np.argsort(-kept.candidates.cosine, kind="stable")[:NEAREST]
    return kept.candidates.keys[order].tolist()


class _Kept:
    """Keeps the candidates and reads nothing."""

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates
        self.messages: Sequence[Any] = ()
        self.conversations: Sequence[Any] = ()
        self.whole_tokens_max: int | None = None


def _keys(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return (1 << 24) + np.arange(1, count + 1)


def plant(url: str, organization_id: OrganizationId, vectors: Floats) -> None:
    """Store messages of one conversation with these vectors."""
    blobs = pack_blobs(quantise(vectors, dimensions=ARCTIC.identity.dimensions))
    keys = _keys(len(vectors)).tolist()
    with psycopg.connect(url, autocommit=True) as driver:
        set_up(driver)
        # Rows are copied past row-level security, which the server's owner may.
        driver.execute("RESET ROLE")
        number = _number_of(driver, organization_id)
        with driver.transaction():
            embedder = driver.execute(
                "INSERT INTO embedder (organization_id, role, identity) "
                "VALUES (%s, 'deep', %s) RETURNING number",
                (number, ARCTIC.identity.as_text()),
            ).fetchone()
            assert embedder is not None
            with driver.cursor() as cursor:
                with cursor.copy(
                    "COPY message (organization_id, key, role, characters, created_at, "
                    "content_encoding, sha256, content) FROM STDIN"
                ) as copy:
                    for key in keys:
                        copy.write_row((number, key, "user", 1, 0, "raw", bytes(32), b"x"))
                with cursor.copy(
                    "COPY vector (organization_id, seq, embedder, key, start_character, "
                    "end_character, content) FROM STDIN"
                ) as copy:
                    for seq, (key, blob) in enumerate(zip(keys, blobs, strict=True), start=1):
                        copy.write_row((number, seq, embedder[0], key, 0, 1, blob))
            driver.execute(
                "UPDATE vector_state SET seq = %s WHERE organization_id = %s",
                (len(keys), number),
            )
            driver.execute(
                "UPDATE counters SET vectors = %s WHERE organization_id = %s",
                (len(keys), number),
            )
