"""Bytes on disk of a chat, all tables and indexes included, beside its raw text."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from bench.figures import Figure
from bench.texts import chat
from tools.server import Server, running_server

MESSAGES_PER_CALL = 10
CONVERSATION_CALLS = 10
BOUND = 3.0


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figure of the size."""
    count = 1_000 if quick else 10_000
    texts = list(chat(count))
    with running_server(LOG="error") as server:
        token = server.create_organization("bench")
        _append(server, texts, token=token)
        stored = sum(_stored_bytes(path) for path in server.home.glob("orgs/*.db"))
    raw = sum(len(text.encode()) for text in texts)
    return [
        Figure(
            name=f"bytes on disk a message, {count:,} chat messages",
            value=stored / count,
            unit="bytes",
            floor=raw / count,
            floor_name="raw text",
            direction="at most",
            bound=None if quick else BOUND,
        )
    ]


def _append(server: Server, texts: list[str], *, token: str) -> None:
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


def _stored_bytes(path: Path) -> int:
    """Return the size of a database, what is still in its write-ahead log included."""
    with closing(sqlite3.connect(path)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return pages * page_bytes
