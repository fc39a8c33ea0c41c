"""Read and store memories and episodes unchanged: ids, times, versions and relations included."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from engram.clock import to_microseconds
from engram.model.access import UNBOUNDED, Quota
from engram.model.conversation import MessageDraft
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import Episode, Memory, MemoryVersion, Relation
from engram.model.value import replace
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bookkeeping import audit, counters
from engram.storage.bookkeeping.row_hashes import EPISODE, MEMORY_VERSION, RELATION
from engram.storage.bookkeeping.state import State, take_numbers
from engram.storage.codec import StoredContent
from engram.storage.content import compression
from engram.storage.content.messages import PreparedMessage, prepare_messages
from engram.storage.conversations.records import NewRecord, add_records
from engram.storage.memories import reading, relations, rows, storing
from engram.storage.organization import OrganizationStore
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.words.rebuild import clear_state

_SQL = load_queries("memories.sql", package="engram.transfer")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRecord:
    """A memory with its history and the relations that begin at it."""

    memory: Memory
    versions: tuple[MemoryVersion, ...] = ()
    """Those before the present one, oldest first."""
    relations: tuple[Relation, ...] = ()

    @property
    def content_bytes(self) -> int:
        """Return the bytes of its texts."""
        texts = (self.memory, *(version.memory for version in self.versions))
        return sum(len(memory.content.encode()) for memory in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsStored:
    """The outcome of storing records."""

    stored: tuple[MemoryId, ...]
    present: int
    """Memories that were here already; they stay as they are."""
    purged: int
    """Memories that were removed here for good; they stay removed."""
    documents: tuple[MemoryId, ...] = ()
    """Memories that own a document; they stay out, for its body does not come with them."""


async def read_records(
    store: OrganizationStore, project: str | None, *, after: MemoryId | None, limit: int
) -> tuple[MemoryRecord, ...]:
    """Return memories with their versions and relations, in the order they were first stored.

    Forgotten ones are included. Begins after the memory `after`; None begins with the first.

    Raises:
        StoreCorruptError: the bytes of one do not match its hash.
    """

    def read(tx: Transaction) -> tuple[MemoryRecord, ...]:
        numbers = reading.scan_numbers(tx, project, after=after, limit=limit)
        outgoing = _outgoing_relations(tx, numbers)
        return tuple(
            replace(record, relations=tuple(outgoing[record.memory.id]))
            for record in load_records(tx, numbers)
        )

    return await store.tenant.read(read)


def load_records(tx: Transaction, numbers: Sequence[int]) -> list[MemoryRecord]:
    """Return the memories that exist among `numbers`, with their versions, in the order requested.

    Raises:
        StoreCorruptError: the bytes of one do not match its hash.
    """
    return [
        MemoryRecord(
            memory=memory,
            versions=rows.read_versions(tx, number) if memory.version > 1 else (),
        )
        for number, memory in rows.read_memories(tx, numbers).items()
    ]


async def read_episodes(
    store: OrganizationStore, project: str | None, *, after: EpisodeId | None, limit: int
) -> tuple[Episode, ...]:
    """Return episodes by id: those of a project and those that its memories name, or all."""
    condition = "" if project is None else _SQL["is_episode_of_project"]
    statement = _SQL["scan_episodes"].replace("/*conditions*/", condition)
    values = {"after": after or "", "limit": limit}
    values |= {} if project is None else {"project": project}

    def read(tx: Transaction) -> tuple[Episode, ...]:
        return tuple(map(relations.episode_of, tx.execute(statement, **values)))

    return await store.tenant.read(read)


async def store_records(
    store: OrganizationStore,
    records: Sequence[MemoryRecord],
    *,
    actor: str,
    quota: Quota,
    indexing: Indexing = WORDS_ALONE,
) -> RecordsStored:
    """Store memories unchanged, all or none; their relations are stored separately.

    A memory whose id is here already stays as it is, and one that was purged stays purged. One
    that owns a document is not stored: a body is uploaded, not carried with its memory.
    `indexing` is of the records in their order.

    Raises:
        NotFoundError: one names an episode that is not here.
        QuotaExceededError: they do not fit the quota any more.
    """
    tenant = store.tenant
    await compression.learn_awaited(tenant)
    drafts = [_as_message(record.memory) for record in records]
    messages = (await prepare_messages(drafts, tenant.codec)).messages
    texts = await asyncio.to_thread(lambda: [_version_texts(tenant, each) for each in records])
    prepared = list(map(_Prepared, range(len(records)), records, messages, texts))
    work = _Import(prepared=prepared, actor=actor, quota=quota, indexing=indexing)
    return await tenant.write(partial(_store_all, work=work))


async def store_episode(
    store: OrganizationStore, episode: Episode, *, actor: str, quota: Quota = UNBOUNDED
) -> bool:
    """Store an episode unchanged; return False if it exists already.

    Raises:
        QuotaExceededError: it does not fit the quota any more.
    """

    def write(tx: Transaction) -> bool:
        if not add_episode(tx, episode):
            return False
        added = counters.row_bytes(episode.project, episode.description, episode.summary)
        counters.grow_counters(tx, quota=quota, stored_bytes=added)
        _audit(tx, actor, subject=episode.id)
        return True

    return await store.tenant.write(write)


def add_episode(tx: Transaction, episode: Episode) -> bool:
    """Store an episode unchanged; return False if it exists already."""
    values = {
        "id": episode.id,
        "project": episode.project,
        "description": episode.description,
        "started_at": to_microseconds(episode.started_at),
        "ended_at": rows.microseconds(episode.ended_at),
        "summary": episode.summary,
    }
    row_hash = EPISODE.hash(tx.tenant.id, values)
    return tx.execute(_SQL["import_episode"], **values, row_hash=row_hash).fetchone() is not None


async def store_relations(
    store: OrganizationStore, found: Sequence[Relation], *, actor: str, quota: Quota = UNBOUNDED
) -> int:
    """Store relations unchanged; return how many are new.

    Relations that exist already, or whose memories do not both exist, are skipped.

    Raises:
        InvalidRequestError: `supersedes` would close a circle; none is stored then.
        QuotaExceededError: they do not fit the quota any more; none is stored then.
    """

    def write(tx: Transaction) -> int:
        ends = {end for each in found for end in (each.source_id, each.target_id)}
        numbers = rows.find_memories(tx, ends)
        here = [each for each in found if {each.source_id, each.target_id} <= numbers.keys()]
        stored = sum([add_relation(tx, each, numbers) for each in here])
        if stored:
            added = stored * counters.row_bytes()
            counters.grow_counters(tx, quota=quota, stored_bytes=added)
            _audit(tx, actor, details={"relations": stored})
        return stored

    return await store.tenant.write(write)


def add_relation(tx: Transaction, relation: Relation, numbers: Mapping[MemoryId, int]) -> bool:
    """Store a relation unchanged; return False if there is one of the same ends and type.

    Raises:
        InvalidRequestError: `supersedes` would close a circle.
    """
    source, target = numbers[relation.source_id], numbers[relation.target_id]
    if relation.relation_type == "supersedes":
        relations.refuse_circle(tx, source=source, target=target)
    values = {
        "source": source,
        "target": target,
        "relation_type": relation.relation_type,
        "strength": relation.strength,
        "created_at": to_microseconds(relation.created_at),
    }
    row_hash = RELATION.hash(tx.tenant.id, values)
    return tx.execute(_SQL["import_relation"], **values, row_hash=row_hash).fetchone() is not None


def _outgoing_relations(tx: Transaction, numbers: list[int]) -> dict[MemoryId, list[Relation]]:
    cursor = tx.execute(_SQL["outgoing_relations"], numbers=json.dumps(numbers))
    found = [relations.RelationRow._make(row) for row in cursor]
    outgoing = defaultdict[MemoryId, list[Relation]](list)
    for relation in relations.relations_of(tx, found):
        outgoing[relation.source_id].append(relation)
    return outgoing


class _Prepared(NamedTuple):
    """A record with its texts encoded."""

    position: int
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


def _as_message(memory: Memory) -> MessageDraft:
    return MessageDraft(role="document", content=memory.content, occurred_at=memory.valid_from)


def _version_texts(tenant: Tenant, record: MemoryRecord) -> list[StoredContent | None]:
    """Return the encoded text of each version; None if the next one has the same text."""
    versions = [version.memory for version in record.versions]
    following = [*versions[1:], record.memory] if versions else []
    kept = [
        before.content_hash != after.content_hash
        for before, after in zip(versions, following, strict=True)
    ]
    if kept and not record.memory.is_searched:
        kept[-1] = True  # A memory that is not searched has no record to keep its text.
    return [
        tenant.codec.encode_alone(memory.content) if is_kept else None
        for memory, is_kept in zip(versions, kept, strict=True)
    ]


def _store_all(tx: Transaction, *, work: _Import) -> RecordsStored:
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    new, outcome = _choose_new(tx, work)
    storing.check_episodes(tx, [each.record.memory.episode_id for each in new])
    searched = sum(each.record.memory.is_searched for each in new)
    size = {"messages": searched, "content_bytes": sum(each.content_bytes for each in new)}
    state.check_quota(work.quota, messages=searched, stored_bytes=size["content_bytes"])
    stored_bytes = sum([_store(tx, work, each, state=state) for each in new])
    if new:
        counters.grow_counters(
            tx,
            quota=work.quota,
            chunks=searched,
            memories=searched,
            stored_bytes=stored_bytes,
            **size,
        )
        compression.enqueue_when_due(tx, state, **size, now=now)
        _audit(tx, work.actor, details={"memories": list(outcome.stored)})
    return outcome


def _choose_new(tx: Transaction, work: _Import) -> tuple[list[_Prepared], RecordsStored]:
    """Return the records that are to be stored, and the outcome."""
    ids = [each.record.memory.id for each in work.prepared]
    existing: dict[MemoryId, int] = dict(
        tx.execute(_SQL["existing_ids"], ids=json.dumps(ids)).fetchall()
    )
    candidates = dict[MemoryId, _Prepared]()
    for each in work.prepared:
        if each.record.memory.id not in existing:
            candidates.setdefault(each.record.memory.id, each)
    documents = [key for key, each in candidates.items() if each.record.memory.document_id]
    new = {key: each for key, each in candidates.items() if key not in documents}
    purged = sum(existing.values())
    return list(new.values()), RecordsStored(
        stored=tuple(new),
        present=len(ids) - len(candidates) - purged,
        purged=purged,
        documents=tuple(documents),
    )


def _store(tx: Transaction, work: _Import, each: _Prepared, *, state: State) -> int:
    """Store a memory with its versions; return the bytes that it counts."""
    memory = each.record.memory
    record: int | None = None
    if memory.is_searched:
        record = take_numbers(tx, "memory", 1).start
        new = NewRecord(record, memory.id, memory.project, memory.tags, each.message)
        indexing = storing.indexing_of(work.indexing, [each.position])
        add_records(tx, [new], indexing=indexing, state=state, now=stored_at(each.record)[-1])
    number = add_rows(tx, each.record, record=record, texts=each.texts)
    return counters.measure_memory(tx, number, since=0)


def add_rows(
    tx: Transaction,
    found: MemoryRecord,
    *,
    record: int | None,
    texts: Sequence[StoredContent | None],
) -> int:
    """Store the rows of a memory and its versions, without its record; return its number."""
    number = rows.add_memory(tx, **_memory_values(found.memory, record))
    versions = [
        {"memory": number, **values}
        for values in map(_version_values, found.versions, texts, stored_at(found))
    ]
    owner = tx.tenant.id
    hashed = [{**values, "row_hash": MEMORY_VERSION.hash(owner, values)} for values in versions]
    tx.execute_many(_SQL["import_version"], hashed)
    return number


def stored_at(found: MemoryRecord) -> list[int]:
    """Return when the text of each version and the present one was stored: with the first that had it."""
    lineage = [*(version.memory for version in found.versions), found.memory]
    times = list[int]()
    before: Memory | None = None
    for memory in lineage:
        is_same = before is not None and before.content_hash == memory.content_hash
        times.append(times[-1] if is_same else to_microseconds(memory.updated_at))
        before = memory
    return times


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


def _version_values(
    version: MemoryVersion, text: StoredContent | None, since: int
) -> dict[str, Any]:
    memory = version.memory
    fields = {
        **_fields(memory),
        "stored_at": since if memory.is_searched else None,
        "is_searched": memory.is_searched,
    }
    return {
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
    """Return the columns that a row and a version have in common."""
    values = {name: getattr(memory, name) for name in rows.FIELD_NAMES if name != "stored_at"}
    return {
        name: to_microseconds(value) if isinstance(value, datetime) else value
        for name, value in values.items()
    }


def _audit(tx: Transaction, actor: str, *, subject: str | None = None, details: Any = None) -> None:
    now = tx.tenant.now()
    audit.record(tx, now=now, actor=actor, action="memory_import", subject=subject, details=details)
