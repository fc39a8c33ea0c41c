"""A memory as it is stored, for tests that have no store."""

from __future__ import annotations

from typing import Any

from engram.model.ids import MemoryId
from engram.model.memory import Memory
from engram.model.value import replace
from tests.fakes import SOME_DAY

_PLAIN = Memory(
    id=MemoryId("mem_x"),
    content="",
    memory_type="context",
    category="general",
    source="manual",
    importance=2,
    tags=(),
    project="default",
    immutable=False,
    episode_id=None,
    pattern_confidence=None,
    valid_from=None,
    valid_to=None,
    expires_at=None,
    storage_mode="focused",
    document_id=None,
    content_hash="",
    summary=None,
    version=1,
    created_at=SOME_DAY,
    updated_at=SOME_DAY,
    is_searched=True,
)


def a_memory(content: str, **fields: Any) -> Memory:
    """Return a memory with this content, plain but for `fields`."""
    return replace(_PLAIN, content=content, **fields)
