"""Begin, end and list the stretches of work that memories belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engram.clock import from_microseconds
from engram.errors import NotFoundError
from engram.model.access import Quota
from engram.model.ids import EpisodeId
from engram.model.memory import Episode
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.stored_size import measure_episode, row_bytes
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

_SQL = load_queries("memories/episodes.sql")


def start_episode(
    tx: Transaction, project: str, description: str, *, actor: str, quota: Quota
) -> EpisodeId:
    """Begin an episode."""
    episode_id = EpisodeId(tx.tenant.ids.new("ep_"))
    now = tx.tenant.now()
    tx.execute(
        _SQL["start_episode"], id=episode_id, project=project, description=description, now=now
    )
    grow_counters(tx, quota=quota, stored_bytes=row_bytes(project, description))
    audit.record(tx, now=now, actor=actor, action="memory_episode_start", subject=episode_id)
    return episode_id


def end_episode(
    tx: Transaction, episode_id: EpisodeId, *, summary: str | None, actor: str, quota: Quota
) -> Episode:
    """End an episode, or give one that has ended a summary."""
    now = tx.tenant.now()
    values = {"id": episode_id, "summary": summary, "now": now}
    before = measure_episode(tx, episode_id)
    if tx.execute(_SQL["end_episode"], **values).fetchone() is None:
        raise NotFoundError("episode", episode_id)
    added = measure_episode(tx, episode_id) - before
    grow_counters(tx, quota=quota, stored_bytes=added)
    audit.record(tx, now=now, actor=actor, action="memory_episode_end", subject=episode_id)
    return get_episode(tx, episode_id)


def get_episode(tx: Transaction, episode_id: EpisodeId) -> Episode:
    """Return an episode."""
    row = tx.execute(_SQL["get_episode"], id=episode_id).fetchone()
    if row is None:
        raise NotFoundError("episode", episode_id)
    return episode_of(row)


def list_episodes(tx: Transaction, project: str, *, limit: int) -> tuple[Episode, ...]:
    """Return the episodes of a project, the last begun first."""
    rows = tx.execute(_SQL["list_episodes"], project=project, limit=limit)
    return tuple(map(episode_of, rows))


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
