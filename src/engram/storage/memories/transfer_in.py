"""Store memories as they were elsewhere: ids, moments and histories included."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from engram.clock import to_microseconds
from engram.model.access import Quota
from engram.model.conversation import MessageDraft
from engram.model.ids import MemoryId
from engram.model.memory import Episode, Memory, Relation
from engram.model.transfer import MemoryRecord, RecordsStored
from engram.model.vectors import Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.numbering import take_numbers
from engram.storage.bookkeeping.state import State
from engram.storage.bookkeeping.stored_size import measure_memory, row_bytes
from engram.storage.codec import StoredContent
from engram.storage.content import training
from engram.storage.content.dictionaries import learn_awaited
from engram.storage.content.preparation import PreparedMessage, prepare_messages
from engram.storage.conversations.records import NewRecord, add_records
from engram.storage.memories.relations import find_ends, refuse_circle
from engram.storage.memories.rows import microseconds
from engram.storage.memories.storing import check_episodes, indexing_of
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rebuild import clear_state

_SQL = load_queries("memories/transfer.sql")


class _Prepared(NamedTuple):
    """A record whose texts are ready to be stored."""

    place: int
    record: MemoryRecord
    message: PreparedMessage
    texts: Sequence[StoredContent | None]
    """Of each version; None for one that has the text of the next."""

    @property
    def content_bytes(self) -> int:
        own = self.message.content_bytes if self.record.memory.is_searched else 0
        return own + sum(text.content_bytes for text in self.texts if text is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Import:
    prepared: Sequence[_Prepared]
    actor: str
    quota: Quota
    indexing: Indexing


class _Outcome(NamedTuple):
    stored: RecordsStored
    dictionary: int | None


async def store_records(
    tenant: Tenant, records: Sequence[MemoryRecord], *, actor: str, quota: Quota, indexing: Indexing
) -> RecordsStored:
    """Store memories as they were, or none of them."""
    await learn_awaited(tenant)
    drafts = [_as_message(record.memory) for record in records]
    messages = (await prepare_messages(drafts, tenant.codec)).messages
    texts = await asyncio.to_thread(lambda: [_texts(tenant, record) for record in records])
    prepared = list(map(_Prepared, range(len(records)), records, messages, texts))
    work = _Import(prepared=prepared, actor=actor, quota=quota, indexing=indexing)
    outcome = await tenant.write(partial(_transact, work=work))
    if outcome.dictionary is not None:
        tenant.codec.announce_dictionary(outcome.dictionary)
    return outcome.stored


def store_episode(tx: Transaction, episode: Episode, *, actor: str, quota: Quota) -> bool:
    """Store an episode as it was; False when it is here already."""
    row = tx.execute(
        _SQL["import_episode"],
        id=episode.id,
        project=episode.project,
        description=episode.description,
        started_at=to_microseconds(episode.started_at),
        ended_at=microseconds(episode.ended_at),
        summary=episode.summary,
    ).fetchone()
    if row is not None:
        stored_bytes = row_bytes(episode.project, episode.description, episode.summary)
        grow_counters(tx, quota=quota, stored_bytes=stored_bytes)
        _record(tx, actor=actor, subject=episode.id)
    return row is not None


def store_relations(
    tx: Transaction, relations: Sequence[Relation], *, actor: str, quota: Quota
) -> int:
    """Store relations between memories that are here; return how many are new."""
    numbers = find_ends(tx, relations)
    stored = 0
    for relation in relations:
        source, target = numbers.get(relation.source_id), numbers.get(relation.target_id)
        if source is None or target is None:
            continue
        if relation.relation_type == "supersedes":
            refuse_circle(tx, source=source, target=target)
        row = tx.execute(
            _SQL["import_relation"],
            source=source,
            target=target,
            relation_type=relation.relation_type,
            strength=relation.strength,
            created_at=to_microseconds(relation.created_at),
        ).fetchone()
        stored += row is not None
    if stored:
        grow_counters(tx, quota=quota, stored_bytes=stored * row_bytes())
        _record(tx, actor=actor, details={"relations": stored})
    return stored


def _as_message(memory: Memory) -> MessageDraft:
    return MessageDraft(role="document", content=memory.content, occurred_at=memory.valid_from)


def _texts(tenant: Tenant, record: MemoryRecord) -> list[StoredContent | None]:
    """Return the texts that the versions keep: each once, where the next has another."""
    versions = [version.memory for version in record.versions]
    following = [*versions[1:], record.memory] if versions else []
    kept = [
        before.content_hash != after.content_hash
        for before, after in zip(versions, following, strict=True)
    ]
    if kept and not record.memory.is_searched:
        kept[-1] = True  # A memory that is not searched has no record to keep its text.
    return [
        tenant.codec.encode(memory.content) if is_kept else None
        for memory, is_kept in zip(versions, kept, strict=True)
    ]


def _transact(tx: Transaction, *, work: _Import) -> _Outcome:
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    new, stored = _tell_apart(tx, work)
    check_episodes(tx, [each.record.memory.episode_id for each in new])
    size = {
        "messages": sum(each.record.memory.is_searched for each in new),
        "content_bytes": sum(each.content_bytes for each in new),
    }
    state.check_quota(work.quota, messages=size["messages"], stored_bytes=size["content_bytes"])
    stored_bytes = sum([_add(tx, work, each, state=state) for each in new])
    if new:
        searched = size["messages"]
        grow_counters(
            tx,
            quota=work.quota,
            chunks=searched,
            memories=searched,
            stored_bytes=stored_bytes,
            **size,
        )
        training.enqueue_when_due(tx, state, **size, now=now)
        ids = [each.record.memory.id for each in new]
        _record(tx, actor=work.actor, details={"memories": ids})
    return _Outcome(stored, state.dictionary)


def _tell_apart(tx: Transaction, work: _Import) -> tuple[list[_Prepared], RecordsStored]:
    """Return the records that are to be stored, and what becomes of all."""
    ids = [each.record.memory.id for each in work.prepared]
    rows = tx.execute(_SQL["known_ids"], ids=json.dumps(ids))
    known: dict[MemoryId, int] = dict(rows.fetchall())
    unknown = dict[MemoryId, _Prepared]()
    for each in work.prepared:
        if each.record.memory.id not in known:
            unknown.setdefault(each.record.memory.id, each)
    documents = [key for key, each in unknown.items() if each.record.memory.document_id]
    new = {key: each for key, each in unknown.items() if key not in documents}
    purged = sum(known.values())
    return list(new.values()), RecordsStored(
        stored=tuple(new),
        present=len(ids) - len(unknown) - purged,
        purged=purged,
        documents=tuple(documents),
    )


def _add(tx: Transaction, work: _Import, each: _Prepared, *, state: State) -> int:
    """Store a memory with its versions; return the bytes that it counts."""
    memory = each.record.memory
    lineage = [*(version.memory for version in each.record.versions), memory]
    stored_at = _stored_moments(lineage)
    record: int | None = None
    if memory.is_searched:
        record = take_numbers(tx, "memory", 1).start
        new = NewRecord(
            number=record,
            id=memory.id,
            project=memory.project,
            tags=memory.tags,
            message=each.message,
        )
        indexing = indexing_of(work.indexing, [each.place])
        add_records(tx, [new], indexing=indexing, state=state, now=stored_at[-1])
    (number,) = tx.execute(_SQL["import_memory"], **_memory_values(memory, record)).fetchone()
    rows = [
        _version_values(each, place, number, moment) for place, moment in enumerate(stored_at[:-1])
    ]
    tx.execute_many(_SQL["import_version"], rows)
    return measure_memory(tx, number, since=0)


def _stored_moments(lineage: Sequence[Memory]) -> list[int]:
    """Return when the text of each version was stored: with the first that had it."""
    moments = list[int]()
    before: Memory | None = None
    for memory in lineage:
        is_same = before is not None and before.content_hash == memory.content_hash
        moments.append(moments[-1] if is_same else to_microseconds(memory.updated_at))
        before = memory
    return moments


def _memory_values(memory: Memory, record: int | None) -> dict[str, Any]:
    return {
        **_fields(memory),
        "id": memory.id,
        "record": record,
        "tags": json.dumps(memory.tags, ensure_ascii=False),
        "sha256": bytes.fromhex(memory.content_hash),
        "version": memory.version,
        "created_at": to_microseconds(memory.created_at),
        "updated_at": to_microseconds(memory.updated_at),
    }


def _version_values(each: _Prepared, place: int, number: int, stored_at: int) -> dict[str, Any]:
    version, text = each.record.versions[place], each.texts[place]
    memory = version.memory
    fields = {
        **_fields(memory),
        "stored_at": stored_at if memory.is_searched else None,
        "is_searched": memory.is_searched,
    }
    return {
        "number": number,
        "version": memory.version,
        "change": version.change,
        "actor": version.actor,
        "recorded_at": to_microseconds(memory.updated_at),
        "ended_at": to_microseconds(version.ended_at),
        "fields": json.dumps(fields, ensure_ascii=False, separators=(",", ":")),
        "sha256": bytes.fromhex(memory.content_hash),
        "content_bytes": 0 if text is None else text.content_bytes,
        "content_encoding": None if text is None else text.encoding,
        "content": None if text is None else text.content,
    }


def _fields(memory: Memory) -> dict[str, Any]:
    """Return what a row and a version both keep, under the names of their columns."""
    return {
        "project": memory.project,
        "memory_type": memory.memory_type,
        "category": memory.category,
        "source": memory.source,
        "importance": memory.importance,
        "tags": list(memory.tags),
        "immutable": memory.immutable,
        "episode_id": memory.episode_id,
        "pattern_confidence": memory.pattern_confidence,
        "valid_from": microseconds(memory.valid_from),
        "valid_to": microseconds(memory.valid_to),
        "expires_at": microseconds(memory.expires_at),
        "storage_mode": memory.storage_mode,
        "document_id": memory.document_id,
        "reason": memory.reason,
        "summary": memory.summary,
    }


def _record(
    tx: Transaction,
    *,
    actor: str,
    subject: str | None = None,
    details: dict[str, Any] | None = None,
) -> None:
    audit.record(
        tx,
        now=tx.tenant.now(),
        actor=actor,
        action="memory_import",
        subject=subject,
        details=details,
    )
