"""A temporary organisation file filled row by row, and what its word search should find in it."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np

from engram.clock import RandomIds, to_microseconds
from engram.model.conversation import MessageDraft
from engram.model.ids import ConversationId, OrganizationId
from engram.model.row_keys import message_key, window_key
from engram.model.search import SearchFilters
from engram.storage.postings.index import MessageWords
from engram.storage.rows.database import Database
from engram.storage.search.filters import allowed_keys
from engram.storage.search.found import read_search_state
from engram.storage.search.word_search import WordMatches, search_words
from engram.storage.sqlite.migrate import load_migrations, migrate
from engram.storage.sqlite.word_index import Fts5WordIndex
from engram.storage.tenant import Tenant, Transaction
from engram.text import bm25
from engram.text.analyse import message_words, part_words, query_terms
from engram.text.windows import window, window_count
from tests.fakes import FakeClock

ORGANIZATION = 7
MORNING = datetime(2026, 5, 8, 9, 0, tzinfo=UTC)
NO_FILTERS = SearchFilters()
NO_DATABASE = cast("Database", None)
"""Nothing here begins a transaction."""
VOCABULARY = [
    "anna",
    "boat",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "harbor",
    "inlet",
    "jade",
]


def open_file(path: Path | str) -> sqlite3.Connection:
    """Return a connection to a new organisation file."""
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, load_migrations("organization"))
    connection.execute("INSERT INTO counters (organization_id) VALUES (?)", (ORGANIZATION,))
    connection.execute(
        "INSERT INTO upkeep (organization_id, analyser_version, dictionary_due_bytes) VALUES (?, 0, 0)",
        (ORGANIZATION,),
    )
    return connection


@dataclass
class WordStore:
    """A temporary organisation file, filled row by row."""

    connection: sqlite3.Connection
    texts: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    windows: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    rows: list[MessageWords] = field(default_factory=list[MessageWords])
    index: Fts5WordIndex = field(default_factory=Fts5WordIndex)
    tenant: Tenant = field(init=False)

    def __post_init__(self) -> None:
        self.tenant = Tenant(
            number=ORGANIZATION,
            id=OrganizationId("org_words"),
            database=NO_DATABASE,
            words=self.index,
            clock=FakeClock(),
            ids=RandomIds(),
        )

    def add(self, messages: Sequence[MessageDraft], **fields: Any) -> int:
        self.connection.execute("BEGIN")
        number = self._add_conversation(**fields)
        parts = [message_words(message) for message in messages]
        for sequence, message in enumerate(messages, start=1):
            self._add_message(message_key(number, sequence), message)
        keys = [message_key(number, at) for at in range(1, len(parts) + 1)]
        rows = [MessageWords(key, *part_words(part)) for key, part in zip(keys, parts, strict=True)]
        self.index.add(self.connection, rows, organization_id=ORGANIZATION)
        self.rows += rows
        self.texts |= {key: part.split() for key, part in zip(keys, parts, strict=True)}
        self.windows |= {
            window_key(number, at): text for at, text in enumerate(texts_of_windows(parts))
        }
        self._count_windows()
        self.connection.execute("COMMIT")
        return number

    def search(
        self, query: str, filters: SearchFilters = NO_FILTERS, limit: int = 200
    ) -> WordMatches:
        tx = Transaction(self.connection, self.tenant)
        return search_words(
            tx,
            query_terms(query),
            state=read_search_state(tx),
            allowed=allowed_keys(tx, filters),
            limit=limit,
            also=np.empty(0, dtype=np.int64),
        )

    def found(self, query: str, filters: SearchFilters = NO_FILTERS) -> set[int]:
        """Return the keys of the messages that hold a word of the query."""
        matches = self.search(query, filters)
        return set(matches.keys[matches.messages > 0].tolist())

    def _add_conversation(
        self, *, agent_id: str | None = None, project: str = "default", tags: Sequence[str] = ()
    ) -> int:
        row = self.connection.execute(
            "INSERT INTO conversation (organization_id, id, agent_id, project, metadata,"
            " created_at, updated_at) VALUES (?, 'conv_' || hex(randomblob(8)), ?, ?, '{}', 0, 0)"
            " RETURNING number",
            (ORGANIZATION, agent_id, project),
        ).fetchone()
        self.connection.executemany(
            "INSERT INTO conversation_tag VALUES (?, ?, ?, ?)",
            [(ORGANIZATION, row[0], at, tag) for at, tag in enumerate(tags)],
        )
        return row[0]

    def _count_windows(self) -> None:
        words = sum(map(len, self.windows.values()))
        self.connection.execute("UPDATE counters SET chunks = ?", (len(self.windows),))
        self.connection.execute(
            "UPDATE upkeep SET window_words = ?, word_revision = word_revision + 1", (words,)
        )

    def _add_message(self, key: int, message: MessageDraft) -> None:
        said = message.occurred_at and to_microseconds(message.occurred_at)
        self.connection.execute(
            "INSERT INTO message (key, organization_id, role, characters, occurred_at, created_at,"
            " sha256, content) VALUES (?, ?, ?, ?, ?, ?, zeroblob(32), ?)",
            (
                key,
                ORGANIZATION,
                message.role,
                len(message.content),
                said,
                to_microseconds(MORNING),
                message.content,
            ),
        )

    def conversation_id(self, number: int) -> ConversationId:
        row = self.connection.execute("SELECT id FROM conversation WHERE number = ?", (number,))
        return ConversationId(row.fetchone()[0])


def texts_of_windows(parts: Sequence[str]) -> list[list[str]]:
    """Return the words of each window of messages that have these words."""
    spans = [window(at, last_sequence=len(parts)) for at in range(window_count(len(parts)))]
    telling = [part_words(part)[0] for part in parts]
    return [" ".join(telling[span.start - 1 : span.end]).split() for span in spans]


def said(content: str, **fields: Any) -> MessageDraft:
    return MessageDraft(role=fields.pop("role", "user"), content=content, **fields)


def some_text(chance: random.Random) -> str:
    """Return a few words, as unevenly spread as those of a language."""
    weights = [1 / (rank + 1) for rank in range(len(VOCABULARY))]
    return " ".join(chance.choices(VOCABULARY, weights, k=chance.randint(1, 12)))


def fill(store: WordStore, *, conversations: int, messages: int, seed: int = 1) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same texts every time
    for _ in range(conversations):
        count = chance.randint(1, messages)
        store.add([said(some_text(chance)) for _ in range(count)])


def weights_of(texts: Mapping[int, list[str]], terms: Sequence[str]) -> dict[str, float]:
    """Return the weight of each term."""
    holding = {term: sum(term in text for text in texts.values()) for term in terms}
    return {term: bm25.weight(texts=len(texts), holding=count) for term, count in holding.items()}


def expected_coverages(texts: Mapping[int, list[str]], terms: Sequence[str]) -> dict[int, float]:
    """Return the part of the query's weight that each text has, straight from its definition."""
    weights = weights_of(texts, terms)
    total = sum(weights[term] for term in terms)
    return {
        key: sum(weights[term] for term in terms if term in text) / total
        for key, text in texts.items()
    }


def expected_shares(texts: Mapping[int, list[str]], terms: Sequence[str]) -> dict[int, float]:
    """Return the BM25 shares straight from their definition, of texts up to a passage."""
    average = sum(map(len, texts.values())) / len(texts)
    weights = weights_of(texts, terms)
    repeats = Counter(terms)
    bound = bm25.bound((repeats[term], weights[term]) for term in repeats)
    shares = {
        key: sum(
            repeats[term]
            * weights[term]
            * bm25.worth(occurrences=text.count(term), length=len(text), length_average=average)
            for term in repeats
            if term in text
        )
        / bound
        for key, text in texts.items()
    }
    return {key: share for key, share in shares.items() if share > 0}


def expected_candidates(
    store: WordStore, query: str, *, limit: int = 200
) -> dict[int, tuple[float, ...]]:
    """Return the united candidates of both legs straight from their definition."""
    terms = query_terms(query)
    messages = expected_shares(store.texts, terms)
    windows = expected_shares(store.windows, terms)
    around: dict[int, float] = {}
    for key in store.texts:
        conversation, sequence = key >> 24, key & 0xFFFFFF
        held = [
            share
            for window, share in windows.items()
            if window >> 24 == conversation and 0 <= sequence - (window & 0xFFFFFF) * 3 - 1 < 5
        ]
        if held:
            around[key] = max(held)
    best = {*ranked(messages)[:limit], *ranked(around)[:limit]}
    return {key: rounded(messages.get(key, 0.0), around.get(key, 0.0)) for key in best}


def ranked(shares: Mapping[int, float]) -> list[int]:
    return sorted(shares, key=lambda key: (-round(shares[key], 12), key))


def shares_of(matches: WordMatches) -> dict[int, tuple[float, ...]]:
    """Return both legs' values of each message, without the noise of adding in another order."""
    columns = matches.keys.tolist(), matches.messages.tolist(), matches.windows.tolist()
    return {key: rounded(*shares) for key, *shares in zip(*columns, strict=True)}


def rounded(*shares: float) -> tuple[float, ...]:
    return tuple(round(share, 9) for share in shares)
