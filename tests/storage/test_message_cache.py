"""What is remembered of messages is theirs, and bounded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from engram.model.conversation import Message
from engram.model.ids import MessageId
from engram.storage.rows import caches
from engram.storage.rows.caches import CachedMessage, MessageCache


def a_message(content: str) -> CachedMessage:
    message = Message(
        id=MessageId("msg_1"),
        sequence=1,
        role="user",
        content=content,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return CachedMessage(message, sha256=b"1" * 32, revision=3)


def test_a_message_is_remembered_with_the_proof_it_had():
    cache = MessageCache()
    cache.put(7, a_message("here"))

    assert cache.get(7) == a_message("here")
    assert cache.get(8) is None


def test_what_is_asked_for_stays_and_the_rest_goes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(caches, "MESSAGE_CHARACTERS_KEPT", 100)
    cache = MessageCache()
    cache.put(0, a_message("wanted"))

    for key in range(1, 50):
        cache.put(key, a_message("x" * 10))
        assert cache.get(0) is not None

    kept = [key for key in range(1, 50) if cache.get(key) is not None]
    assert len(kept) <= 10
