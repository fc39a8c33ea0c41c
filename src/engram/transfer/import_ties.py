"""Store the small rows of an export: episodes, relations, feedback, and what was removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from engram import limits
from engram.clock import to_microseconds
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.export import ItemKind
from engram.model.fields import check_label, check_text
from engram.model.ids import ConversationId, MemoryId, RelationId
from engram.model.memory import Episode, Relation, RelationDraft, check_project
from engram.storage.bookkeeping.counters import grow_counters, row_bytes
from engram.storage.bookkeeping.row_hashes import FEEDBACK, FORGOTTEN_SESSION, TOMBSTONE
from engram.storage.memories.relations import read_episode
from engram.storage.memories.rows import find_memories
from engram.storage.tenant import Transaction
from engram.transfer import memories
from engram.transfer.export_format import (
    EpisodeLine,
    FeedbackLine,
    ForgottenLine,
    RelationLine,
    TombstoneLine,
)
from engram.transfer.export_lines import check_id, episode_line, episode_of, parse_time
from engram.transfer.import_target import SQL, Target, is_erased, record_import

TieLine = EpisodeLine | RelationLine | FeedbackLine | TombstoneLine | ForgottenLine
Standing = Literal["new", "same", "other", "erased"]
"""Whether a row was stored, was here, is here with other content, or belongs to something erased."""

_HASH_BYTES = 32
_ACTOR_CHARACTERS_MAX = 256


class TieImport:
    """Collects rows of one type at a time and stores them in batches."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lines = list[TieLine]()

    async def add(self, line: TieLine) -> None:
        """Take the next row."""
        if self._lines and type(line) is not type(self._lines[0]):
            await self.flush()
        self._lines.append(line)
        if len(self._lines) >= limits.IMPORT_BATCH_ITEMS:
            await self.flush()

    async def flush(self) -> None:
        """Store what was collected."""
        lines, self._lines = self._lines, []
        if lines:
            await self._target.each(lines, self._store, named=_named)

    async def _store(self, lines: Sequence[TieLine]) -> None:
        target = self._target
        standings = await target.store.tenant.write(partial(_store_all, lines=lines, target=target))
        for line, standing in zip(lines, standings, strict=True):
            self._report(line, standing)

    def _report(self, line: TieLine, standing: Standing) -> None:
        outcome = self._target.outcome
        kind, id_ = _named(line)
        match standing:
            case "new":
                outcome.stored[kind] += 1
            case "same":
                outcome.present[kind] += 1
            case "other":
                outcome.conflict(kind, id_, _DIFFERENCES.get(kind, "is here with other content"))
            case "erased":
                pass  # Counted with its memory.


_DIFFERENCES: Mapping[ItemKind, str] = {
    "tombstone": "was removed where it was exported, and is still here",
    "forgotten": "was deleted where it was exported, and is still here",
}


def _named(line: TieLine) -> tuple[ItemKind, str]:
    match line:
        case EpisodeLine():
            return "episode", line.id
        case RelationLine():
            return "relation", f"{line.source_id} {line.relation_type} {line.target_id}"
        case FeedbackLine():
            return "feedback", f"{line.memory_id}#{line.number}"
        case TombstoneLine():
            return "tombstone", line.id
        case ForgottenLine():
            return "forgotten", line.id


def _store_all(tx: Transaction, *, lines: Sequence[TieLine], target: Target) -> list[Standing]:
    outcomes = [_store(tx, line) for line in lines]
    added = sum(size for _, size in outcomes)
    standings: list[Standing] = [standing for standing, _ in outcomes]
    if "new" in standings:
        grow_counters(tx, quota=target.quota, stored_bytes=added)
        kind, _ = _named(lines[0])
        record_import(tx, target.actor, **{kind: standings.count("new")})
    return standings


def _store(tx: Transaction, line: TieLine) -> tuple[Standing, int]:
    """Store a row; return how it was found, and the bytes that it adds."""
    match line:
        case EpisodeLine():
            return _store_episode(tx, line)
        case RelationLine():
            return _store_relation(tx, line)
        case FeedbackLine():
            return _store_feedback(tx, line)
        case TombstoneLine():
            return _store_tombstone(tx, line), 0
        case ForgottenLine():
            return _store_forgotten(tx, line), 0


def _store_episode(tx: Transaction, line: EpisodeLine) -> tuple[Standing, int]:
    episode = episode_of(line)
    _check_episode(episode)
    if memories.add_episode(tx, episode):
        return "new", row_bytes(episode.project, episode.description, episode.summary)
    return ("same" if episode_line(read_episode(tx, episode.id)) == line else "other"), 0


def _check_episode(episode: Episode) -> None:
    check_project(episode.project)
    check_text("description", episode.description, bytes_max=limits.EPISODE_BYTES_MAX)
    check_text("summary", episode.summary or "", bytes_max=limits.EPISODE_BYTES_MAX)


def _store_relation(tx: Transaction, line: RelationLine) -> tuple[Standing, int]:
    draft = RelationDraft(
        source_id=MemoryId(line.source_id),
        target_id=MemoryId(line.target_id),
        relation_type=line.relation_type,
        strength=line.strength,
    )
    ends = (draft.source_id, draft.target_id)
    numbers = find_memories(tx, ends)
    for end in ends:
        if end not in numbers:
            return _without_memory(tx, end), 0
    relation = Relation(
        id=RelationId(""),  # Derived from its ends wherever it is read.
        source_id=draft.source_id,
        target_id=draft.target_id,
        relation_type=draft.relation_type,
        strength=draft.strength,
        created_at=parse_time(line.created_at, field="created_at"),
    )
    if memories.add_relation(tx, relation, numbers):
        return "new", row_bytes()
    values = {"source": numbers[ends[0]], "target": numbers[ends[1]]}
    here = tx.execute(SQL["find_relation"], **values, relation_type=line.relation_type).fetchone()
    given = (relation.strength, to_microseconds(relation.created_at))
    return ("same" if tuple(here) == given else "other"), 0


def _without_memory(tx: Transaction, memory_id: MemoryId) -> Standing:
    """Return how a row is found whose memory is missing.

    Raises:
        NotFoundError: it was never here.
    """
    if is_erased(tx, memory_id):
        return "erased"
    raise NotFoundError("memory", memory_id)


def _store_feedback(tx: Transaction, line: FeedbackLine) -> tuple[Standing, int]:
    memory_id = MemoryId(line.memory_id)
    memory = find_memories(tx, [memory_id]).get(memory_id)
    if memory is None:
        return _without_memory(tx, memory_id), 0
    for name in ("event_id", "failure_class", "actor"):
        check_label(name, getattr(line, name), characters_max=_ACTOR_CHARACTERS_MAX)
    if line.number < 1:
        raise InvalidRequestError("must be at least 1", field="number")
    values = {
        "helpful": int(line.helpful),
        "event_id": line.event_id,
        "failure_class": line.failure_class,
        "actor": line.actor,
        "created_at": to_microseconds(parse_time(line.created_at, field="created_at")),
    }
    key = {"memory": memory, "number": line.number}
    row_hash = FEEDBACK.hash(tx.tenant.id, {**key, **values})
    if tx.execute(SQL["import_feedback"], **key, **values, row_hash=row_hash).fetchone():
        return "new", row_bytes(line.event_id, line.failure_class)
    here = tx.execute(SQL["find_feedback"], **key).fetchone()
    return ("same" if tuple(here) == tuple(values.values()) else "other"), 0


def _store_tombstone(tx: Transaction, line: TombstoneLine) -> Standing:
    memory_id = MemoryId(check_id(line.id, prefix="mem_"))
    if find_memories(tx, [memory_id]):
        return "other"
    values = {
        "id": memory_id,
        "sha256": _hash_of(line.sha256),
        "removed_at": to_microseconds(parse_time(line.removed_at, field="removed_at")),
        "actor": _actor_of(line.actor),
    }
    row_hash = TOMBSTONE.hash(tx.tenant.id, values)
    return _new_or_same(tx.execute(SQL["import_tombstone"], **values, row_hash=row_hash).fetchone())


def _store_forgotten(tx: Transaction, line: ForgottenLine) -> Standing:
    conversation_id = ConversationId(check_id(line.id, prefix="conv_"))
    if tx.execute(SQL["find_conversations"], id=conversation_id).fetchone():
        return "other"
    values = {
        "id": conversation_id,
        "forgotten_at": to_microseconds(parse_time(line.forgotten_at, field="forgotten_at")),
        "actor": _actor_of(line.actor),
    }
    row_hash = FORGOTTEN_SESSION.hash(tx.tenant.id, values)
    return _new_or_same(tx.execute(SQL["import_forgotten"], **values, row_hash=row_hash).fetchone())


def _new_or_same(row: object) -> Standing:
    return "same" if row is None else "new"


def _actor_of(actor: str) -> str:
    check_label("actor", actor, characters_max=_ACTOR_CHARACTERS_MAX)
    return actor


def _hash_of(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError as exc:
        raise InvalidRequestError("is not a hash", field="sha256") from exc
    if len(digest) != _HASH_BYTES:
        raise InvalidRequestError("is not a SHA-256", field="sha256")
    return digest
