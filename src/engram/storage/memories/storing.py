"""Store memories, with all that is derived from them, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from engram.errors import NotFoundError
from engram.model.access import Quota
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import MemoryDraft, StoredMemory
from engram.model.vectors import Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.numbering import take_numbers
from engram.storage.bookkeeping.state import State
from engram.storage.bookkeeping.stored_size import memory_bytes
from engram.storage.content import training
from engram.storage.content.dictionaries import learn_awaited
from engram.storage.content.preparation import PreparedMessage, prepare_messages
from engram.storage.conversations.records import NewRecord, add_records
from engram.storage.memories.rows import microseconds
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rebuild import clear_state

_SQL = load_queries("memories/memories.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """One call, ready for its transaction."""

    drafts: Sequence[MemoryDraft]
    messages: Sequence[PreparedMessage]
    actor: str
    quota: Quota
    indexing: Indexing
    once: bool


class _New(NamedTuple):
    """A draft that is stored, and where it stands in its call."""

    place: int
    draft: MemoryDraft
    message: PreparedMessage
    id: MemoryId


class _Outcome(NamedTuple):
    stored: tuple[StoredMemory, ...]
    dictionary: int | None


async def store(
    tenant: Tenant,
    drafts: Sequence[MemoryDraft],
    *,
    actor: str,
    quota: Quota,
    indexing: Indexing,
    once: bool,
) -> tuple[StoredMemory, ...]:
    """Store the memories and all that is derived from them, or nothing."""
    if not drafts:
        return ()
    await learn_awaited(tenant)
    prepared = await prepare_messages([draft.as_message() for draft in drafts], tenant.codec)
    storing = Storing(
        drafts=drafts,
        messages=prepared.messages,
        actor=actor,
        quota=quota,
        indexing=indexing,
        once=once,
    )
    outcome = await tenant.write(partial(_transact, storing=storing))
    if outcome.dictionary is not None:
        tenant.codec.announce_dictionary(outcome.dictionary)
    return outcome.stored


def _transact(tx: Transaction, *, storing: Storing) -> _Outcome:
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    check_episodes(tx, [draft.episode_id for draft in storing.drafts])
    new, stored = _tell_apart(tx, storing, now)
    if new:
        _add(tx, storing, new, state=state, now=now)
    return _Outcome(stored, state.dictionary)


def check_episodes(tx: Transaction, episode_ids: Iterable[EpisodeId | None]) -> None:
    """Refuse episodes that are not here; None is none.

    Raises:
        NotFoundError: one of them is not here.
    """
    named = [episode_id for episode_id in episode_ids if episode_id is not None]
    missing = tx.execute(_SQL["missing_episodes"], ids=json.dumps(named)).fetchone()
    if missing is not None:
        raise NotFoundError("episode", missing[0])


def _tell_apart(
    tx: Transaction, storing: Storing, now: int
) -> tuple[list[_New], tuple[StoredMemory, ...]]:
    """Return the drafts that are to be stored, and where each draft of the call goes."""
    known: dict[tuple[bytes, str, str], MemoryId] = {}
    new: list[_New] = []
    stored: list[StoredMemory] = []
    for place, (draft, message) in enumerate(zip(storing.drafts, storing.messages, strict=True)):
        same = (message.values["sha256"], draft.project, draft.category)
        found = None
        if storing.once:
            found = known.get(same) or _find_duplicate(tx, *same, now=now)
        memory_id = found or MemoryId(tx.tenant.ids.new("mem_"))
        known[same] = memory_id
        stored.append(StoredMemory(id=memory_id, is_duplicate=found is not None))
        if found is None:
            new.append(_New(place, draft, message, memory_id))
    return new, tuple(stored)


def _find_duplicate(
    tx: Transaction, sha256: bytes, project: str, category: str, *, now: int
) -> MemoryId | None:
    row = tx.execute(
        _SQL["find_duplicate"], sha256=sha256, project=project, category=category, now=now
    ).fetchone()
    return None if row is None else row[0]


def _add(tx: Transaction, storing: Storing, new: Sequence[_New], *, state: State, now: int) -> None:
    size = {"messages": len(new), "content_bytes": sum(each.message.content_bytes for each in new)}
    stored_bytes = sum(map(_stored_bytes, new))
    state.check_quota(storing.quota, messages=len(new), stored_bytes=stored_bytes)
    numbers = take_numbers(tx, "memory", len(new))
    records = [
        NewRecord(
            number=number,
            id=each.id,
            project=each.draft.project,
            tags=each.draft.tags,
            message=each.message,
        )
        for number, each in zip(numbers, new, strict=True)
    ]
    indexing = indexing_of(storing.indexing, [each.place for each in new])
    add_records(tx, records, indexing=indexing, state=state, now=now)
    tx.execute_many(
        _SQL["add_memory"],
        [_values(each, record, now) for each, record in zip(new, numbers, strict=True)],
    )
    grow_counters(
        tx,
        quota=storing.quota,
        chunks=len(new),
        memories=len(new),
        stored_bytes=stored_bytes,
        **size,
    )
    training.enqueue_when_due(tx, state, **size, now=now)
    _record(tx, storing, [each.id for each in new], now)


def indexing_of(indexing: Indexing, places: Sequence[int]) -> Indexing:
    """Return what is said of the drafts at `places`."""
    vectors = indexing.vectors
    if vectors is None or len(places) == len(vectors.messages):
        return indexing
    kept = tuple(vectors.messages[place] for place in places)
    return replace(indexing, vectors=replace(vectors, messages=kept))


def _stored_bytes(new: _New) -> int:
    draft = new.draft
    return new.message.content_bytes + memory_bytes(_texts(draft), tags=draft.tags)


def _texts(draft: MemoryDraft) -> dict[str, str]:
    """Return the columns of a memory that count towards the quota."""
    return {
        "project": draft.project,
        "source": draft.source,
        "tags": json.dumps(draft.tags, ensure_ascii=False),
    }


def _values(new: _New, record: int, now: int) -> dict[str, object]:
    draft = new.draft
    return {
        **_texts(draft),
        "id": new.id,
        "record": record,
        "memory_type": draft.memory_type,
        "category": draft.category,
        "importance": draft.importance,
        "immutable": draft.immutable,
        "episode_id": draft.episode_id,
        "pattern_confidence": draft.pattern_confidence,
        "valid_from": microseconds(draft.valid_from),
        "valid_to": microseconds(draft.valid_to),
        "expires_at": microseconds(draft.expires_at),
        "sha256": new.message.values["sha256"],
        "now": now,
    }


def _record(tx: Transaction, storing: Storing, ids: Sequence[MemoryId], now: int) -> None:
    """Write the audit row; one memory is its subject, several are listed."""
    is_one = len(ids) == 1
    audit.record(
        tx,
        now=now,
        actor=storing.actor,
        action="memory_store",
        subject=ids[0] if is_one else None,
        details=None if is_one else {"memories": ids},
    )
