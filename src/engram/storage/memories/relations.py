"""Relations between memories, feedback on them, and the episodes of work they belong to."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from engram import limits
from engram.clock import from_microseconds
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.access import UNBOUNDED, Quota
from engram.model.ids import EpisodeId, MemoryId, RelationId, derived_id
from engram.model.memory import (
    Episode,
    Feedback,
    FeedbackCounts,
    Relation,
    RelationDraft,
    RelationType,
)
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import (
    grow_counters,
    measure,
    row_bytes,
)
from engram.storage.bookkeeping.row_hashes import EPISODE, FEEDBACK, RELATION, changing, seal
from engram.storage.memories.rows import find_memories, find_memory
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, TenantStore, Transaction

_SQL = load_queries("memories/relations.sql")
_CIRCLE_NAMED_MAX = 10

_UNDECIDED = 4
"""Added to the number of votes on a memory, so that one or two weigh little."""


class RelationRow(NamedTuple):
    """The columns of `next_relations`."""

    source: int
    target: int
    relation_type: RelationType
    strength: float
    created_at: int


class RelationStore(TenantStore):
    """The relations between an organisation's memories, the feedback on them, and their episodes."""

    async def connect(
        self, draft: RelationDraft, *, actor: str, quota: Quota = UNBOUNDED
    ) -> Relation:
        """Relate two memories; the same pair and type again takes the new strength.

        Raises:
            NotFoundError: one of them is not here.
            InvalidRequestError: `supersedes` would close a circle.
            QuotaExceededError: a new relation exceeds the quota.
        """

        def write(tx: Transaction) -> Relation:
            source = find_memory(tx, draft.source_id)
            target = find_memory(tx, draft.target_id)
            if draft.relation_type == "supersedes":
                refuse_circle(tx, source=source, target=target)
            row = _put_relation(tx, draft, source=source, target=target, quota=quota)
            ends = (draft.source_id, draft.target_id)
            _audit(tx, *ends, draft.relation_type, "memory_connect", actor=actor)
            return _relation(tx.tenant, row, dict(zip((source, target), ends, strict=True)))

        return await self._tenant.write(write)

    async def disconnect(
        self, source_id: MemoryId, target_id: MemoryId, relation_type: RelationType, *, actor: str
    ) -> bool:
        """Remove a relation; False when there was none."""

        def write(tx: Transaction) -> bool:
            ends = {"source_id": source_id, "target_id": target_id}
            removed = tx.execute(_SQL["remove_relation"], relation_type=relation_type, **ends)
            if removed.fetchone() is None:
                return False
            grow_counters(tx, stored_bytes=-row_bytes())
            _audit(tx, source_id, target_id, relation_type, "memory_disconnect", actor=actor)
            return True

        return await self._tenant.write(write)

    async def relations(
        self, memory_ids: Sequence[MemoryId], *, hops: int = 1
    ) -> tuple[Relation, ...]:
        """Return the relations within `hops` steps of some memories, in either direction.

        Nearest first, then strongest, ties by id; at most `RELATED_MAX` for each step from each
        memory: first what supersedes it, then what contradicts it, then the strongest. Memories that
        are not here are skipped.
        """
        return await self._tenant.read(lambda tx: _walk(tx, memory_ids, hops=hops))

    async def record_feedback(
        self, feedback: Feedback, *, actor: str, quota: Quota = UNBOUNDED
    ) -> int:
        """Store which memories helped and which did not; return how many memories that is.

        Feedback for the same event and memory replaces the earlier. Of a memory the last
        `FEEDBACK_KEPT` count. Feedback without memories, on a recall that found nothing of use, is
        in the audit alone.

        Raises:
            NotFoundError: one of the memories is not here; nothing is stored then.
            QuotaExceededError: it exceeds the quota; nothing is stored then.
        """

        def write(tx: Transaction) -> int:
            numbers = [find_memory(tx, each) for each in dict.fromkeys(feedback.memory_ids)]
            now = tx.tenant.now()
            said = {
                "helpful": feedback.helpful,
                "event_id": feedback.event_id,
                "failure_class": feedback.failure_class,
            }
            added = sum([_put_feedback(tx, each, said, actor=actor, now=now) for each in numbers])
            grow_counters(tx, quota=quota, stored_bytes=added)
            details = {"memories": len(numbers), **said}
            audit.record(tx, now=now, actor=actor, action="memory_feedback", details=details)
            return len(numbers)

        return await self._tenant.write(write)

    async def count_feedback(self, memory_id: MemoryId) -> FeedbackCounts:
        """Return how often a memory helped, and how often it did not.

        Raises:
            NotFoundError: there is no such memory.
        """

        def read(tx: Transaction) -> FeedbackCounts:
            votes = _votes(tx, [find_memory(tx, memory_id)])
            _, helpful, unhelpful = votes[0] if votes else (0, 0, 0)
            return FeedbackCounts(memory_id=memory_id, helpful=helpful, unhelpful=unhelpful)

        return await self._tenant.read(read)

    async def start_episode(
        self, project: str, description: str, *, actor: str, quota: Quota = UNBOUNDED
    ) -> EpisodeId:
        """Begin an episode.

        Raises:
            QuotaExceededError: it exceeds the quota.
        """

        episode = {"project": project, "description": description, "ends_at": None}
        return await self._tenant.write(
            lambda tx: _start_episode(tx, episode, actor=actor, quota=quota)
        )

    async def continue_episode(
        self, project: str, *, actor: str, quota: Quota = UNBOUNDED
    ) -> EpisodeId:
        """Return the actor's automatic episode in a project; after a pause another one begins.

        It ends by itself `EPISODE_IDLE_S` after it was last continued.

        Raises:
            QuotaExceededError: a new one exceeds the quota.
        """

        def write(tx: Transaction) -> EpisodeId:
            now = tx.tenant.now()
            episode = {
                "project": project,
                "description": _automatic(actor),
                "ends_at": now + limits.EPISODE_IDLE_S * 1_000_000,
            }
            found = tx.execute(_SQL["open_episode"], **episode, now=now).fetchone()
            if found is None:
                return _start_episode(tx, episode, actor=actor, quota=quota)
            with changing(tx, EPISODE, id=found[0]):
                tx.execute(_SQL["extend_episode"], id=found[0], ends_at=episode["ends_at"])
            return EpisodeId(found[0])

        return await self._tenant.write(write)

    async def open_episodes(self, actor: str) -> tuple[EpisodeId, ...]:
        """Return the automatic episodes of an actor that have not ended, in all projects."""

        def read(tx: Transaction) -> tuple[EpisodeId, ...]:
            asked = {"description": _automatic(actor), "now": tx.tenant.now()}
            rows = tx.execute(_SQL["open_episodes"], **asked).fetchall()
            return tuple(EpisodeId(each) for (each,) in rows)

        return await self._tenant.read(read)

    async def end_episode(
        self, episode_id: EpisodeId, *, summary: str | None, actor: str, quota: Quota = UNBOUNDED
    ) -> Episode:
        """End an episode; one that has ended keeps its end, and takes a summary if one is given.

        Raises:
            NotFoundError: there is no such episode.
            QuotaExceededError: the summary exceeds the quota.
        """

        def write(tx: Transaction) -> Episode:
            now = tx.tenant.now()
            before = measure(tx, "episode", id=episode_id)
            with changing(tx, EPISODE, id=episode_id):
                tx.execute(_SQL["end_episode"], id=episode_id, summary=summary, now=now)
            episode = read_episode(tx, episode_id)
            added = measure(tx, "episode", id=episode_id) - before
            grow_counters(tx, quota=quota, stored_bytes=added)
            action = "memory_episode_end"
            audit.record(tx, now=now, actor=actor, action=action, subject=episode_id)
            return episode

        return await self._tenant.write(write)

    async def list_episodes(
        self, project: str, *, limit: int, offset: int = 0
    ) -> tuple[Episode, ...]:
        """Return the episodes of a project, the last begun first."""
        rows = await self._tenant.read(
            lambda tx: tx.execute(
                _SQL["list_episodes"], project=project, limit=limit, offset=offset
            ).fetchall()
        )
        return tuple(map(episode_of, rows))

    async def get_episode(self, episode_id: EpisodeId) -> Episode:
        """Return an episode.

        Raises:
            NotFoundError: there is no such episode.
        """
        return await self._tenant.read(lambda tx: read_episode(tx, episode_id))


def _put_relation(
    tx: Transaction, draft: RelationDraft, *, source: int, target: int, quota: Quota
) -> RelationRow:
    values = {
        "source": source,
        "target": target,
        "relation_type": draft.relation_type,
        "strength": draft.strength,
    }
    ends = {"source": source, "target": target, "relation_type": draft.relation_type}
    with changing(tx, RELATION, **ends):
        made = tx.execute(_SQL["change_relation"], **values).fetchone()
        if made is None:
            now = tx.tenant.now()
            made = tx.execute(_SQL["add_relation"], **values, now=now).fetchone()
            grow_counters(tx, quota=quota, stored_bytes=row_bytes())
    return RelationRow(source, target, draft.relation_type, draft.strength, made[0])


def _walk(tx: Transaction, memory_ids: Sequence[MemoryId], *, hops: int) -> tuple[Relation, ...]:
    nearest: dict[RelationRow, int] = {}
    for number in find_memories(tx, memory_ids).values():
        for row, hop in _walk_from(tx, number, hops=hops):
            nearest[row] = min(hop, nearest.get(row, hop))
    related = relations_of(tx, list(nearest))
    found = list(zip(nearest.values(), related, strict=True))
    found.sort(key=lambda each: (each[0], -each[1].strength, each[1].id))
    return tuple(relation for _, relation in found)


def relations_of(tx: Transaction, rows: Sequence[RelationRow]) -> list[Relation]:
    """Return the relations of rows, in their order."""
    ids = _read_ids(tx, {end for row in rows for end in row[:2]})
    return [_relation(tx.tenant, row, ids) for row in rows]


def _walk_from(tx: Transaction, start: int, *, hops: int) -> Iterable[tuple[RelationRow, int]]:
    """Yield the relations reached from one memory and at which step, breadth first."""
    reached, nearer = {start}, set[int]()
    for hop in range(1, hops + 1):
        cursor = tx.execute(
            _SQL["next_relations"],
            reached=json.dumps(sorted(reached)),
            nearer=json.dumps(sorted(nearer)),
            limit=limits.RELATED_MAX,
        )
        rows = [RelationRow._make(row) for row in cursor]
        yield from ((row, hop) for row in rows)
        nearer |= reached
        reached = {end for row in rows for end in row[:2]} - nearer
        if not reached:
            return


def refuse_circle(tx: Transaction, *, source: int, target: int) -> None:
    """Raise `InvalidRequestError` if `target` supersedes `source`, itself or through others."""
    cursor = tx.execute(_SQL["superseded_from"], start=target)
    path = _shortest_path(cursor.fetchall(), start=target, end=source)
    if path is None:
        return
    ids = _read_ids(tx, path)
    named = [ids[number] for number in path]
    if len(named) > _CIRCLE_NAMED_MAX:
        named[_CIRCLE_NAMED_MAX - 1 : -1] = [MemoryId(f"{len(named) - _CIRCLE_NAMED_MAX} others")]
    circle = " supersedes ".join([ids[source], *named])
    raise InvalidRequestError(f"would close a circle: {circle}", field="target_id")


def _shortest_path(
    steps: Iterable[tuple[int, int]], *, start: int, end: int
) -> Sequence[int] | None:
    """Return the memories from `start` to `end`, both included; None if there is no path."""
    onward = defaultdict[int, list[int]](list)
    for source, target in steps:
        onward[source].append(target)
    came_from: dict[int, int | None] = {start: None}
    waiting = deque([start])
    while waiting and end not in came_from:
        here = waiting.popleft()
        new = [there for there in onward[here] if there not in came_from]
        came_from |= dict.fromkeys(new, here)
        waiting.extend(new)
    return _way_back(came_from, end) if end in came_from else None


def _way_back(came_from: Mapping[int, int | None], end: int) -> Sequence[int]:
    path, here = [end], came_from[end]
    while here is not None:
        path.append(here)
        here = came_from[here]
    return path[::-1]


def _read_ids(tx: Transaction, numbers: Iterable[int]) -> dict[int, MemoryId]:
    """Return the public ids of memories."""
    wanted = json.dumps(sorted(numbers))
    return dict(tx.execute(_SQL["memory_ids"], numbers=wanted).fetchall())


def _relation(tenant: Tenant, row: RelationRow, ids: Mapping[int, MemoryId]) -> Relation:
    source_id, target_id = ids[row.source], ids[row.target]
    seed = f"{tenant.id}:{source_id}:{target_id}:{row.relation_type}"
    return Relation(
        id=RelationId(derived_id("rel_", seed)),
        source_id=source_id,
        target_id=target_id,
        relation_type=row.relation_type,
        strength=row.strength,
        created_at=from_microseconds(row.created_at),
    )


def _audit(
    tx: Transaction,
    source_id: MemoryId,
    target_id: MemoryId,
    relation_type: RelationType,
    action: str,
    *,
    actor: str,
) -> None:
    details = {"target_id": target_id, "relation_type": relation_type}
    now = tx.tenant.now()
    audit.record(tx, now=now, actor=actor, action=action, subject=source_id, details=details)


def usefulness(tx: Transaction, numbers: Iterable[int]) -> dict[int, float]:
    """Return how useful memories were, from -1 to 1; those without feedback are left out."""
    return {
        memory: (helpful - unhelpful) / (helpful + unhelpful + _UNDECIDED)
        for memory, helpful, unhelpful in _votes(tx, numbers)
    }


def _votes(tx: Transaction, numbers: Iterable[int]) -> Sequence[tuple[int, int, int]]:
    """Return each memory with feedback, how often it helped, and how often it did not."""
    return tx.execute(_SQL["count_feedback"], numbers=json.dumps(list(numbers))).fetchall()


def _put_feedback(
    tx: Transaction, memory: int, said: Mapping[str, Any], *, actor: str, now: int
) -> int:
    """Store feedback on one memory; return how many bytes that adds."""
    before = measure(tx, "feedback", number=memory)
    values = {"memory": memory, **said, "actor": actor, "now": now}
    if not _change_feedback(tx, values):
        (number,) = tx.execute(_SQL["add_feedback"], **values).fetchone()
        seal(tx, FEEDBACK, memory=memory, number=number)
        tx.execute(_SQL["drop_feedback"], memory=memory, upto=number - limits.FEEDBACK_KEPT)
    return measure(tx, "feedback", number=memory) - before


def _change_feedback(tx: Transaction, values: Mapping[str, Any]) -> bool:
    """Replace the feedback for the same event; False if there is none."""
    if values["event_id"] is None:
        return False
    with changing(tx, FEEDBACK, memory=values["memory"], event_id=values["event_id"]):
        return tx.execute(_SQL["change_feedback"], **values).fetchone() is not None


def _automatic(actor: str) -> str:
    """Return the description of the automatic episodes of an actor."""
    return f"auto: {actor}"


def _start_episode(
    tx: Transaction, episode: Mapping[str, Any], *, actor: str, quota: Quota
) -> EpisodeId:
    episode_id = EpisodeId(tx.tenant.ids.new("ep_"))
    now = tx.tenant.now()
    tx.execute(_SQL["start_episode"], **episode, id=episode_id, now=now)
    seal(tx, EPISODE, id=episode_id)
    added = row_bytes(episode["project"], episode["description"])
    grow_counters(tx, quota=quota, stored_bytes=added)
    action = "memory_episode_start"
    audit.record(tx, now=now, actor=actor, action=action, subject=episode_id)
    return episode_id


def read_episode(tx: Transaction, episode_id: EpisodeId) -> Episode:
    row = tx.execute(_SQL["get_episode"], id=episode_id).fetchone()
    if row is None:
        raise NotFoundError("episode", episode_id)
    return episode_of(row)


def episode_of(row: Sequence[Any]) -> Episode:
    """Return the episode of the columns of `get_episode`."""
    public_id, project, description, started_at, ended_at, summary, memories = row
    return Episode(
        id=EpisodeId(public_id),
        project=project,
        description=description,
        started_at=from_microseconds(started_at),
        ended_at=None if ended_at is None else from_microseconds(ended_at),
        summary=summary,
        memories=memories,
    )
