"""Bytes on disk of a chat, all tables and indexes included, beside its raw text."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from bench.figures import Figure
from bench.texts import chat
from engram.embedding.registry import ARCTIC
from tools.server import Server, running_server

MESSAGES_PER_CALL = 10
CONVERSATION_CALLS = 10
BOUND = 3.0
INDEXING_TIMEOUT_S = 1_800


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of the size: without vectors, and when every message has a deep one."""
    count, embedded = (1_000, 200) if quick else (10_000, 2_000)
    raw = _raw_bytes(list(chat(count)))
    with running_server(LOG="error", EMBEDDER="none") as server:
        _fill(server, list(chat(count)))
        words = _stored_bytes(server) / count
    vectors = _vector_bytes(embedded)
    return [
        Figure(
            name=f"bytes on disk a message without vectors, {count:,} chat messages",
            value=words,
            unit="bytes",
            floor=raw,
            floor_name="raw text",
            direction="at most",
            bound=None if quick else BOUND,
        ),
        Figure(
            name=f"bytes on disk a message with deep vectors, {embedded:,} chat messages",
            value=vectors,
            unit="bytes",
            floor=_raw_bytes(list(chat(embedded))) + ARCTIC.identity.dimensions,
            floor_name="raw text and a byte for each dimension",
            direction="at most",
            bound=None,
        ),
    ]


def _vector_bytes(count: int) -> float:
    """Return the bytes of a message in a store that the server itself has indexed."""
    with running_server(LOG="error") as server:
        token = _fill(server, list(chat(count)))
        server.wait_until_indexed(token=token, timeout_s=INDEXING_TIMEOUT_S)
        return _stored_bytes(server) / count


def _raw_bytes(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / len(texts)


def _fill(server: Server, texts: Sequence[str]) -> str:
    """Return the key of a new organisation that holds the texts."""
    token = server.create_organization("bench")
    calls = [texts[at : at + MESSAGES_PER_CALL] for at in range(0, len(texts), MESSAGES_PER_CALL)]
    path = ""
    for number, call in enumerate(calls):
        if number % CONVERSATION_CALLS == 0:
            made = server.post("/api/v1/conversations", {"title": "Chat"}, token=token)
            path = f"/api/v1/conversations/{made['conversation_id']}/messages"
        messages = [
            {"role": "assistant" if place % 2 else "user", "content": text}
            for place, text in enumerate(call)
        ]
        server.post(path, {"messages": messages}, token=token)
    return token


def _stored_bytes(server: Server) -> int:
    return sum(file_bytes(path) for path in server.home.glob("orgs/*.db"))


def file_bytes(path: Path) -> int:
    """Return the size of a database, what is still in its write-ahead log included."""
    with closing(sqlite3.connect(path)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return pages * page_bytes
