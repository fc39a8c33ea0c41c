"""Short ways to store memories in a test, and drafts of every kind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from engram.model.access import Quota
from engram.model.ids import MemoryId
from engram.model.memory import (
    CATEGORIES,
    MEMORY_TYPES,
    Memory,
    MemoryChange,
    MemoryDraft,
    RelationDraft,
    StoredMemory,
)
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.storage.drafts import ACTOR, UNBOUNDED

NOWHERE = MemoryId("mem_nowhere")

_texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=400)
_labels = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=40
)
_early = st.datetimes(datetime(1, 1, 2), datetime(2026, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 hypothesis adds the zone
_late = st.datetimes(datetime(2027, 1, 1), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 as above

memory_drafts = st.builds(
    MemoryDraft,
    content=_texts,
    memory_type=st.sampled_from(MEMORY_TYPES),
    category=st.sampled_from(CATEGORIES),
    source=_labels,
    importance=st.integers(0, 4),
    tags=st.lists(_labels, max_size=5, unique=True).map(tuple),
    project=_labels,
    immutable=st.booleans(),
    pattern_confidence=st.none() | st.floats(0, 1),
    valid_from=st.none() | _early,
    valid_to=st.none() | _late,
    expires_at=st.none() | _late,
)
"""Drafts with every field, but for an episode: that has to exist."""


async def store(
    organization: OrganizationStore,
    *drafts: MemoryDraft,
    quota: Quota = UNBOUNDED,
    once: bool = False,
) -> tuple[StoredMemory, ...]:
    """Store drafts."""
    return await organization.memories.store(drafts, actor=ACTOR, quota=quota, once=once)


async def note(
    organization: OrganizationStore, content: str, *, project: str = "default"
) -> MemoryId:
    """Store one memory and return its id."""
    (stored,) = await store(organization, MemoryDraft(content=content, project=project))
    return stored.id


async def get(organization: OrganizationStore, memory_id: MemoryId) -> Memory:
    """Return one memory."""
    return (await organization.memories.get([memory_id]))[memory_id]


async def remember(
    organization: OrganizationStore, *contents: str, **fields: Any
) -> list[MemoryId]:
    """Store memories that differ in their contents alone, and return their ids."""
    drafts = [MemoryDraft(content=content, **fields) for content in contents]
    return [stored.id for stored in await store(organization, *drafts)]


async def correct(
    organization: OrganizationStore,
    memory_id: MemoryId,
    *,
    quota: Quota = UNBOUNDED,
    indexing: Indexing = WORDS_ALONE,
    **change: Any,
) -> Memory:
    """Change some fields of a memory."""
    return await organization.memories.correct(
        memory_id,
        MemoryChange(**change),
        actor=ACTOR,
        quota=quota,
        indexing=indexing,
    )


async def forget(
    organization: OrganizationStore, memory_id: MemoryId, clock: FakeClock, reason: str = "stale"
) -> Memory:
    """End a memory's validity now."""
    return await organization.memories.forget(
        memory_id, reason=reason, actor=ACTOR, now=clock.now()
    )


def relation(
    source_id: MemoryId, target_id: MemoryId, relation_type: Any = "relates_to", **fields: Any
) -> RelationDraft:
    """Return the draft of a relation."""
    return RelationDraft(
        source_id=source_id, target_id=target_id, relation_type=relation_type, **fields
    )
